package gateway

import (
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	ownrig "authgate/internal/test/rig"
)

const (
	aliceHash   = ownrig.AliceHash
	bobHash     = ownrig.BobHash
	serviceHash = "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"
)

// After the wall clock is set, a login works at once, and limits that measure elapsed
// time go on as before.
func TestWallClockSet(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"back": -5 * time.Hour, "forward": 5 * time.Hour} {
		for story, tell := range map[string]func(r *rig, c *clocktest.Machine){
			"a login": func(r *rig, c *clocktest.Machine) {
				c.Adjust(step)
				c.Pass(time.Second)
				s := r.login(aliceIn)
				r.good(s, true)
				c.Pass(time.Hour)
				r.want(401, "GET", "/session/", "", s.cookie)
			},
			"an account that comes back": func(r *rig, c *clocktest.Machine) {
				s := r.login(aliceIn)
				r.mustReload(edit(r.t, baseConfig, "username: alice", "username: alicia"))
				c.Adjust(step)
				r.mustReload(baseConfig)
				r.want(401, "GET", "/session/", "", s.cookie)
				r.want(401, "POST", "/refresh", refreshBody(s.refresh), jsonType)
				r.want(200, "GET", "/session/", "", r.login(aliceIn).cookie)
			},
			"a reused refresh token": func(r *rig, c *clocktest.Machine) {
				s := r.login(aliceIn)
				r.want(200, "POST", "/refresh", refreshBody(s.refresh), jsonType)
				c.Adjust(step)
				r.want(401, "POST", "/refresh", refreshBody(s.refresh), jsonType)
				r.want(401, "GET", "/session/", "", s.cookie)
			},
			"a throttled account": func(r *rig, c *clocktest.Machine) {
				for range 10 {
					r.want(401, "POST", "/login", `{"username":"alice","password":"x"}`, jsonType)
				}
				c.Adjust(step)
				r.want(429, "POST", "/login", aliceIn, jsonType)
				c.Pass(5 * time.Minute)
				r.want(200, "POST", "/login", aliceIn, jsonType)
			},
		} {
			t.Run(story+", "+name, func(t *testing.T) {
				t.Parallel()
				c := &clocktest.Machine{}
				tell(newRigBy(t, baseConfig, c.Now), c)
			})
		}
	}
}

// clockedStore is a store with a clock of its own, as Redis has.
type clockedStore struct {
	store.Store
	now func() time.Time
}

// Now implements store.Clock.
func (s clockedStore) Now() time.Time { return s.now() }

// Two instances whose clocks differ by a minute use one store with a clock: a second
// refresh with one token is not theft, a token of one is valid at the other, and a
// reuse after the leeway still ends the login.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	// The leeway is shorter than the difference of the clocks, and longer than any step takes.
	const yaml = baseConfig + "\ntoken: {secret: \"a secret that both instances have in common\", reuse_leeway: 50s}\n"
	for name, wrong := range map[string]time.Duration{"ahead": time.Minute, "behind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wall := func() time.Time { return time.Now().Round(0) }
			memory := store.NewMemory(wall)
			t.Cleanup(func() { memory.Close() })
			instance := func(yaml string, wrong time.Duration) *rig {
				c := &clocktest.Machine{}
				c.Adjust(wrong)
				r, err := startRig(t, t.TempDir(), yaml, clockedStore{memory, wall}, c.Now)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			right, other, strict := instance(yaml, 0), instance(yaml, wrong), instance(edit(t, yaml, "50s", "0s"), wrong)
			for _, at := range [][2]*rig{{right, other}, {other, right}} {
				s := at[0].login(aliceIn)
				next := at[1].refresh(s.refresh)
				for _, r := range at {
					r.want(200, "GET", "/session/", "", s.cookie)
					r.want(200, "GET", "/bearer/", "", next.bearer)
					r.want(401, "POST", "/refresh", refreshBody(s.refresh), jsonType)
					if n := r.sample("authgate_tokens_total", "event=reused"); n != 0 {
						t.Errorf("%v logins were ended as reuse", n)
					}
				}
			}
			s := right.login(aliceIn)
			right.refresh(s.refresh)
			strict.want(401, "POST", "/refresh", refreshBody(s.refresh), jsonType)
			right.want(401, "GET", "/session/", "", s.cookie)
		})
	}
}
