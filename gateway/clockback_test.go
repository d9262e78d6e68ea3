package gateway

import (
	"net/http"
	"testing"
	"time"
)

// A clock that is set back, by hand or by a time server, opens nothing that
// was closed.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	const far = 30 * time.Minute
	for name, story := range map[string]func(t *testing.T, r *rig){
		// Signing out is an end, also when the note that the token was revoked has
		// been swept with the token's time and that time comes again.
		"a login that was ended": func(t *testing.T, r *rig) {
			byCookie, byToken := r.login(aliceIn), r.login(aliceIn)
			r.do("POST", "/logout", "", byCookie.cookie)
			r.do("POST", "/logout", "", byToken.bearer)
			for range 3 {
				r.clock.advance(far) // the access tokens have expired
				r.good(t, byCookie, false)
				r.good(t, byToken, false)
			}
			r.clock.advance(-3*far - time.Minute)
			r.good(t, byCookie, false)
			r.good(t, byToken, false)
		},
		"a session that was seen to have expired": func(t *testing.T, r *rig) {
			s := r.login(aliceIn)
			r.clock.advance(2 * time.Hour)
			if w := r.do("GET", "/session/", "", s.cookie); w.Code != http.StatusUnauthorized {
				t.Fatalf("after two hours: %d", w.Code)
			}
			r.clock.advance(-2 * time.Hour)
			if w := r.do("GET", "/session/", "", s.cookie); w.Code != http.StatusUnauthorized {
				t.Errorf("it lives again: %d", w.Code)
			}
		},
		// A token from the future is not good yet, a session goes on, and so do
		// refresh tokens.
		"a login that is alive": func(t *testing.T, r *rig) {
			r.clock.advance(24 * time.Hour) // the accounts have been there for long
			s := r.login(aliceIn)
			r.clock.advance(-far)
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
		"a refresh token that was used": func(t *testing.T, r *rig) {
			r.clock.advance(24 * time.Hour)
			s := r.login(aliceIn)
			next := readLogin(t, r.do("POST", "/refresh", refreshBody(s.refresh), jsonType))
			for _, step := range []time.Duration{-time.Second, -far, -time.Hour} {
				r.clock.advance(step)
				if w := r.do("POST", "/refresh", refreshBody(s.refresh), jsonType); w.Code != http.StatusUnauthorized {
					t.Errorf("%v back: %d", step, w.Code)
				}
			}
			if next.refresh == s.refresh {
				t.Error("the same token was given again")
			}
		},
		// By this clock the window ends later than it would have, never sooner. A
		// real one counts it by how much time has passed (time.Time's monotonic
		// reading).
		"an account that is throttled": func(t *testing.T, r *rig) {
			for range 10 {
				r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType)
			}
			for _, step := range []time.Duration{-time.Second, -far, -time.Hour} {
				r.clock.advance(step)
				if w := r.do("POST", "/login", aliceIn, jsonType); w.Code != http.StatusTooManyRequests {
					t.Errorf("%v back: %d", step, w.Code)
				}
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
			r.clock.advance(-far)
			if w := r.do("GET", "/basic/", "", header); w.Code != http.StatusUnauthorized {
				t.Errorf("the password of before: %d", w.Code)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, newRig(t, baseConfig))
		})
	}
}

// TestLoginAfterClockSteppedBack: with a clock behind the time at which the
// accounts were first seen, a login works. TestWallClockSet has the same by a
// clock whose times have a monotonic reading, as those of time.Now.
func TestLoginAfterClockSteppedBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.clock.advance(-time.Hour)
	if got := r.do("GET", "/session/", "", r.login(aliceIn).cookie).Code; got != http.StatusOK {
		t.Errorf("the session: %d", got)
	}
}
