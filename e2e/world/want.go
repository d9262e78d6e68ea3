package world

import (
	"net/http"
	"strings"
	"testing"
)

// WantDead fails the test if a credential of the login is valid.
func WantDead(t testing.TB, g *Instance, up *Recorder, s Login) {
	t.Helper()
	up.All()
	c := g.Stranger()
	for _, credential := range [][]string{{"Cookie", s.Session}, {"Authorization", s.Access}} {
		g.Do(c, "GET", "/secure", "", credential...)
		up.None(t)
		if a := g.Do(c, "GET", "/me", "", credential...); strings.Contains(a.Body, "alice") {
			t.Errorf("with %s the session is valid: %s", credential[0], a.Body)
		}
	}
	if next, status, err := g.TryRefresh(c, s.Refresh); err != nil || status == http.StatusOK {
		t.Errorf("the refresh token gives %d, %v, %t", status, err, next.Access != "")
	}
}

// WantStatus fails the test unless an answer has a status.
func WantStatus(t testing.TB, what string, a Answer, want int) {
	t.Helper()
	if a.Status != want {
		t.Errorf("%s: %d %s, expected %d", what, a.Status, a.Body, want)
	}
}
