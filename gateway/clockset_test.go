package gateway

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"authgate/gateway/clocktest"
)

// TestWallClockSet sets the wall clock of a running gateway: a login works at
// once, and what counts elapsed time goes on as before.
func TestWallClockSet(t *testing.T) {
	t.Parallel()
	const far = 5 * time.Hour
	want := func(t *testing.T, what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	for name, step := range map[string]time.Duration{"back": -far, "forward": far} {
		for story, tell := range map[string]func(t *testing.T, r *rig, c *clocktest.Machine){
			"a login": func(t *testing.T, r *rig, c *clocktest.Machine) {
				c.Adjust(step)
				c.Pass(time.Second)
				s := r.login(aliceIn)
				want(t, "the session", r.do("GET", "/session/", "", s.cookie).Code, http.StatusOK)
				want(t, "the token", r.do("GET", "/bearer/", "", s.bearer).Code, http.StatusOK)
				want(t, "the refresh token", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusOK)
				c.Pass(time.Hour)
				want(t, "the session after its lifetime", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
			},
			"an account that comes back": func(t *testing.T, r *rig, c *clocktest.Machine) {
				s := r.login(aliceIn)
				removed := r.reload(edit(t, baseConfig, "username: alice", "username: alicia"))
				c.Adjust(step)
				if err := errors.Join(removed, r.reload(baseConfig)); err != nil {
					t.Fatal(err)
				}
				r.stub()
				want(t, "the session of before", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
				want(t, "the refresh token of before", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusUnauthorized)
				want(t, "a new session", r.do("GET", "/session/", "", r.login(aliceIn).cookie).Code, http.StatusOK)
			},
			"a reused refresh token": func(t *testing.T, r *rig, c *clocktest.Machine) {
				s := r.login(aliceIn)
				want(t, "the refresh", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusOK)
				c.Adjust(step)
				want(t, "the used token", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusUnauthorized)
				want(t, "the session of that login", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
			},
			"a throttled account": func(t *testing.T, r *rig, c *clocktest.Machine) {
				for range 10 {
					r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType)
				}
				c.Adjust(step)
				want(t, "in the window", r.do("POST", "/login", aliceIn, jsonType).Code, http.StatusTooManyRequests)
				c.Pass(5 * time.Minute)
				want(t, "after the window", r.do("POST", "/login", aliceIn, jsonType).Code, http.StatusOK)
			},
		} {
			t.Run(story+", "+name, func(t *testing.T) {
				t.Parallel()
				c := &clocktest.Machine{}
				tell(t, newRigBy(t, baseConfig, c.Now), c)
			})
		}
	}
}
