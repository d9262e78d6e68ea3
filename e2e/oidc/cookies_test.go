package oidc

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// countedVisits is an application that counts visits in a cookie named session,
// as applications made with Flask do.
type countedVisits struct {
	mu      sync.Mutex
	cookies []string // the Cookie headers of requests
}

// ServeHTTP implements http.Handler.
func (v *countedVisits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.cookies = append(v.cookies, r.Header.Get("Cookie"))
	v.mu.Unlock()
	count := 1
	if c, err := r.Cookie("session"); err == nil {
		before, err := strconv.Atoi(c.Value)
		if err != nil {
			http.Error(w, "this is not my cookie", http.StatusInternalServerError)
			return
		}
		count += before
	}
	cookie := &http.Cookie{Name: "session", Value: strconv.Itoa(count), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	if r.URL.Query().Has("forget") {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	fmt.Fprint(w, count)
}

// applicationSession: an application may have a cookie with the name of the
// gateway's cookie. Both keep their values.
func applicationSession(t *testing.T, c *world.Certified) {
	application := &countedVisits{}
	up := httptest.NewServer(application)
	t.Cleanup(up.Close)
	d := &world.Delegated{Instance: world.Prepare(t), Provider: c.Provider(t, world.ProviderOptions{})}
	d.Configure(world.App(up.URL) + "providers:\n" + d.Provider.Register(d.Instance,
		world.ProviderClient{Name: "certified"}) + world.DelegatedRoutes)
	d.Run()
	b := signedIn(d, "alice")
	login := sessionOf(d, b)
	for _, visit := range []struct{ path, want string }{
		{"/secure-resource", "1"}, {"/secure-resource", "2"}, {"/admin-resource", "3"}, {"/secure-resource?forget", "4"},
		{"/secure-resource", "1"},
	} {
		if a := d.Do(b.Client, "GET", visit.path, ""); a.Status != http.StatusOK || a.Body != visit.want {
			t.Fatalf("%s is %d %q, want visit %s", visit.path, a.Status, a.Body, visit.want)
		}
		if got := sessionOf(d, b); got != login {
			t.Fatalf("after %s the browser has the session %q, it was %q", visit.path, got, login)
		}
	}
	if got := b.Cookie(d.Base, "authgate_app_session"); got != "1" {
		t.Errorf("the application's cookie is %q in the browser", got)
	}
	want := []string{"", "session=1", "session=2", "session=3", ""}
	if !slices.Equal(application.cookies, want) {
		t.Errorf("the application got the cookies %q, want %q", application.cookies, want)
	}
}
