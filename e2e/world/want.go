package world

import (
	"encoding/json"
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

// WantProblem checks an error of the gateway itself, as JSON.
func WantProblem(t testing.TB, a Answer, status int) {
	t.Helper()
	var body struct {
		Title  string
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("the body %q is no JSON object: %v", a.Body, err)
	}
	if a.Status != status || body.Status != status || body.Title != http.StatusText(status) || body.Detail == "" {
		t.Errorf("status %d, body %s; expected %d with status, title and detail", a.Status, a.Body, status)
	}
	if media, cache := a.Header.Get("Content-Type"), a.Header.Get("Cache-Control"); media != "application/json" || cache != "no-store" {
		t.Errorf("Content-Type %q, Cache-Control %q", media, cache)
	}
}
