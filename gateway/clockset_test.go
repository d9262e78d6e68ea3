package gateway

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// machineClock is the clock of a machine: its times have a monotonic reading,
// which only moves forward, and a wall clock, which can be set.
type machineClock struct{ passed, set atomic.Int64 }

func (c *machineClock) now() time.Time {
	return setWall(time.Now().Add(time.Duration(c.passed.Load())), time.Duration(c.set.Load()))
}

// pass lets time pass; adjust sets the wall clock.
func (c *machineClock) pass(d time.Duration)   { c.passed.Add(int64(d)) }
func (c *machineClock) adjust(d time.Duration) { c.set.Add(int64(d)) }

// setWall returns t with its wall clock moved by d and the same monotonic
// reading. Package time offers no way to make such a time, see
// TestMachineClock.
func setWall(t time.Time, d time.Duration) time.Time {
	const nanosecondBits = 30
	whole := (*struct {
		wall uint64 // a flag, 33 bits of seconds, 30 bits of nanoseconds
		ext  int64  // the monotonic reading
		loc  *time.Location
	})(unsafe.Pointer(&t))
	whole.wall += uint64(int64(d/time.Second)) << nanosecondBits
	return t
}

// TestMachineClock makes sure that setWall does what it says with the present
// version of package time.
func TestMachineClock(t *testing.T) {
	t.Parallel()
	before := time.Now()
	for _, d := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		after := setWall(before, d)
		if elapsed, wall := after.Sub(before), after.Round(0).Sub(before.Round(0)); elapsed != 0 || wall != d {
			t.Errorf("set by %v: %v passed, and the wall clock moved by %v", d, elapsed, wall)
		}
	}
}

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
		for story, tell := range map[string]func(t *testing.T, r *rig, c *machineClock){
			"a login": func(t *testing.T, r *rig, c *machineClock) {
				c.adjust(step)
				c.pass(time.Second)
				s := r.login(aliceIn)
				want(t, "the session", r.do("GET", "/session/", "", s.cookie).Code, http.StatusOK)
				want(t, "the token", r.do("GET", "/bearer/", "", s.bearer).Code, http.StatusOK)
				want(t, "the refresh token", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusOK)
				c.pass(time.Hour)
				want(t, "the session after its lifetime", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
			},
			"an account that comes back": func(t *testing.T, r *rig, c *machineClock) {
				s := r.login(aliceIn)
				removed := r.reload(edit(t, baseConfig, "username: alice", "username: alicia"))
				c.adjust(step)
				if err := errors.Join(removed, r.reload(baseConfig)); err != nil {
					t.Fatal(err)
				}
				r.stub()
				want(t, "the session of before", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
				want(t, "the refresh token of before", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusUnauthorized)
				want(t, "a new session", r.do("GET", "/session/", "", r.login(aliceIn).cookie).Code, http.StatusOK)
			},
			"a reused refresh token": func(t *testing.T, r *rig, c *machineClock) {
				s := r.login(aliceIn)
				want(t, "the refresh", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusOK)
				c.adjust(step)
				want(t, "the used token", r.do("POST", "/refresh", refreshBody(s.refresh), jsonType).Code, http.StatusUnauthorized)
				want(t, "the session of that login", r.do("GET", "/session/", "", s.cookie).Code, http.StatusUnauthorized)
			},
			"a throttled account": func(t *testing.T, r *rig, c *machineClock) {
				for range 10 {
					r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType)
				}
				c.adjust(step)
				want(t, "in the window", r.do("POST", "/login", aliceIn, jsonType).Code, http.StatusTooManyRequests)
				c.pass(5 * time.Minute)
				want(t, "after the window", r.do("POST", "/login", aliceIn, jsonType).Code, http.StatusOK)
			},
		} {
			t.Run(story+", "+name, func(t *testing.T) {
				t.Parallel()
				c := &machineClock{}
				tell(t, newRigBy(t, baseConfig, c.now), c)
			})
		}
	}
}

// TestUpstreamRestsByElapsedTime: a target that could not be reached is tried
// again after its rest, however the wall clock was set meanwhile.
func TestUpstreamRestsByElapsedTime(t *testing.T) {
	t.Parallel()
	c := &machineClock{}
	u := &upstream{now: c.now, started: c.now(), targets: []*target{{}, {}}}
	u.targets[0].resting.Store(int64(u.elapsed() + restAfterFailure))
	for _, step := range []time.Duration{-5 * time.Hour, 10 * time.Hour} {
		c.adjust(step)
		if u.order(0)[0] != u.targets[1] {
			t.Errorf("set by %v: the target does not rest any more", step)
		}
	}
	c.adjust(-24 * time.Hour)
	c.pass(restAfterFailure)
	if u.order(0)[0] != u.targets[0] {
		t.Error("the target rests for too long")
	}
}
