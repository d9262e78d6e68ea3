package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// TestWallClockSet sets the wall clock of a running gateway: a login works at once, and
// limits that measure elapsed time go on as before.
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
				want(t, "the old session", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
				want(t, "the old refresh token", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusUnauthorized)
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

// When the clock is set back, what has ended stays dead.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	const far = 30 * time.Minute
	for name, story := range map[string]func(t *testing.T, r *rig){
		// A logout is final, even after the record of the revoked token has expired and
		// the clock is set back to before that.
		"a login that was ended": func(t *testing.T, r *rig) {
			byCookie, byToken := r.login(aliceIn), r.login(aliceIn)
			r.do("POST", "/logout", "", byCookie.cookie)
			r.do("POST", "/logout", "", byToken.bearer)
			for range 3 {
				r.clock.Advance(far) // the access tokens have expired
				r.good(t, byCookie, false)
				r.good(t, byToken, false)
			}
			r.clock.Advance(-3*far - time.Minute)
			r.good(t, byCookie, false)
			r.good(t, byToken, false)
		},
		"a session that was seen to have expired": func(t *testing.T, r *rig) {
			s := r.login(aliceIn)
			r.clock.Advance(2 * time.Hour)
			if w := r.do("GET", "/session/", "", s.cookie); w.Code != http.StatusUnauthorized {
				t.Fatalf("after two hours: %d", w.Code)
			}
			r.clock.Advance(-2 * time.Hour)
			if w := r.do("GET", "/session/", "", s.cookie); w.Code != http.StatusUnauthorized {
				t.Errorf("it is valid again: %d", w.Code)
			}
		},
		// A token from the future is not valid yet. Sessions and refresh tokens go on.
		"a login that is alive": func(t *testing.T, r *rig) {
			r.clock.Advance(24 * time.Hour) // the accounts are old
			s := r.login(aliceIn)
			r.clock.Advance(-far)
			if w := r.do("GET", "/bearer/", "", s.bearer); w.Code != http.StatusUnauthorized {
				t.Errorf("a token that is issued in half an hour: %d", w.Code)
			}
			if w := r.do("GET", "/session/", "", s.cookie); w.Code != http.StatusOK {
				t.Errorf("the session: %d", w.Code)
			}
			w := r.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
			if w.Code != http.StatusOK {
				t.Fatalf("the refresh token: %d %s", w.Code, w.Body)
			}
			if got := r.do("GET", "/bearer/", "", readLogin(t, w).bearer).Code; got != http.StatusOK {
				t.Errorf("a token of today's clock: %d", got)
			}
		},
		"a password that is remembered": func(t *testing.T, r *rig) {
			header := basicHeader("service", "s3rvice")
			if w := r.do("GET", "/basic/", "", header); w.Code != http.StatusOK {
				t.Fatalf("%d", w.Code)
			}
			if err := r.reload(edit(t, baseConfig, "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu", "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC")); err != nil {
				t.Fatal(err)
			}
			r.stub()
			r.clock.Advance(-far)
			if w := r.do("GET", "/basic/", "", header); w.Code != http.StatusUnauthorized {
				t.Errorf("the old password: %d", w.Code)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, newRig(t, baseConfig))
		})
	}
}

// sharedConfigOfTwo is what instances on one store have in common. The leeway is
// shorter than the difference of their clocks, and longer than any step takes.
const sharedConfigOfTwo = baseConfig + `
token: {secret: "a secret that both instances have in common", reuse_leeway: 50s}
`

// clockedStore is a store with a clock of its own, as Redis has.
type clockedStore struct {
	store.Store
	now func() time.Time
}

// Now implements store.Clock.
func (s clockedStore) Now() time.Time { return s.now() }

// instanceOn returns a gateway on a shared store. The wall clock of its machine
// is wrong by that much.
func instanceOn(t *testing.T, yaml string, shared store.Store, wrong time.Duration) *rig {
	t.Helper()
	c := &clocktest.Machine{}
	c.Adjust(wrong)
	r, err := startRig(t, t.TempDir(), yaml, shared, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestClocksDiffer runs two instances whose clocks differ by a minute on one
// store with a clock: parallel refreshes of one token are not theft, a token of one is
// valid at the other, and a reuse after the leeway still ends the login.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"ahead": time.Minute, "behind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wall := func() time.Time { return time.Now().Round(0) }
			memory := store.NewMemory(wall)
			t.Cleanup(func() { memory.Close() })
			shared := clockedStore{memory, wall}
			instances := []*rig{instanceOn(t, sharedConfigOfTwo, shared, 0), instanceOn(t, sharedConfigOfTwo, shared, wrong)}
			for i := range 4 {
				s := instances[i%2].login(aliceIn)
				next := refreshEverywhere(t, instances, s.refresh)
				for _, r := range instances {
					for what, header := range map[string]string{"session": s.cookie, "bearer": next.bearer} {
						if w := r.do("GET", "/"+what+"/", "", header); w.Code != http.StatusOK {
							t.Fatalf("login %d: the %s: %d %s", i, what, w.Code, w.Body)
						}
					}
				}
				if w := instances[(i+1)%2].do("POST", "/refresh", refreshBody(s.refresh), jsonType); w.Code != http.StatusUnauthorized {
					t.Fatalf("login %d: a used refresh token: %d", i, w.Code)
				}
			}
			for _, r := range instances {
				if n := sample(t, r.registry, "authgate_tokens_total", "event=reused"); n != 0 {
					t.Errorf("%v logins were ended as reuse", n)
				}
			}
			strict := instanceOn(t, edit(t, sharedConfigOfTwo, "50s", "0s"), shared, wrong)
			s := instances[0].login(aliceIn)
			refreshEverywhere(t, instances, s.refresh)
			strict.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
			if w := instances[0].do("GET", "/session/", "", s.cookie); w.Code != http.StatusUnauthorized {
				t.Errorf("after a reuse beyond the leeway: %d", w.Code)
			}
		})
	}
}

// refreshEverywhere refreshes one token at all instances at once. One succeeds.
func refreshEverywhere(t *testing.T, instances []*rig, token string) (next signedIn) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	succeeded := 0
	for _, r := range instances {
		all.Go(func() {
			w := r.do("POST", "/refresh", refreshBody(token), jsonType)
			mu.Lock()
			defer mu.Unlock()
			if w.Code == http.StatusOK && json.Valid(w.Body.Bytes()) {
				succeeded++
				next = readLogin(t, w)
			} else if w.Code != http.StatusUnauthorized {
				t.Errorf("a refresh: %d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if succeeded != 1 {
		t.Fatalf("%d refreshes with one token succeeded", succeeded)
	}
	return next
}
