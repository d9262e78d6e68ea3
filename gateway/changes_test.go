package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ownrig "authgate/internal/test/rig"
)

// sharingRigs are two gateways on one store. Time passes for both.
type sharingRigs struct{ a, b *rig }

// sharingPair runs f in a synctest bubble with two gateways that run yaml.
func sharingPair(t *testing.T, yaml string, f func(p sharingRigs)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t, yaml)
		b, err := startRig(t, a.dir, yaml, a.store, a.clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		b.stub()
		b.store, b.clock = a.store, a.clock
		a.clock.Advance(time.Minute)
		f(sharingRigs{a, b})
	})
}

// follow lets both instances look at what the other one has done.
func (p sharingRigs) follow() {
	p.a.clock.Advance(time.Second)
	p.a.passes(2 * followEvery)
	p.b.passes(0)
}

// reload makes A run another configuration, and B follow.
func (p sharingRigs) reload(yaml string) {
	p.a.t.Helper()
	p.a.mustReload(yaml)
	p.follow()
}

const (
	aliceIs    = "username: alice, "
	aliceRoles = "roles: [user, admin], "
)

var sharedTokens = strings.Replace(ownrig.APITokenConfig, baseConfig, sharedConfig, 1)

// A user who is out on one instance is out on the other, which is not reloaded: with
// the session, the tokens, and at the next sign-in. Other users are not.
func TestWithdrawnOnOtherInstances(t *testing.T) {
	t.Parallel()
	for name, out := range map[string][2]string{
		"disabled":         {aliceIs, aliceIs + "disabled: true, "},
		"removed":          {aliceIs, "username: other, "},
		"another password": {aliceHash, bobHash},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sharingPair(t, sharedTokens, func(p sharingRigs) {
				alice, bob := p.a.login(aliceIn), p.a.login(bobIn)
				token := "Authorization: Bearer " + p.a.client.NewToken(alice.cookie, "").Token
				p.follow()
				running := p.b.state.Load()
				p.b.good(p.b.login(aliceIn), true)
				p.b.want(200, "GET", "/bearer/", "", token)
				p.reload(edit(t, sharedTokens, out[0], out[1]))
				for _, r := range []*rig{p.a, p.b} {
					r.good(alice, false)
					r.want(401, "GET", "/bearer/", "", token)
					r.want(401, "POST", "/login", aliceIn, jsonType)
					r.want(200, "GET", "/session/", "", bob.cookie)
				}
				if p.b.state.Load() == running || !strings.Contains(p.b.log.String(), `"withdrawn":["local:alice"]`) ||
					strings.Contains(p.a.log.String(), "withdrawn") {
					t.Errorf("B has not followed, or A has:\n%s\n%s", p.a.log, p.b.log)
				}
				running = p.b.state.Load()
				p.follow()
				if p.b.state.Load() != running {
					t.Error("B rebuilds although nothing has changed")
				}
				p.reload(sharedTokens) // given back
				p.b.want(200, "POST", "/login", aliceIn, jsonType)
				p.b.good(alice, false)
				p.b.want(200, "GET", "/session/", "", bob.cookie)
			})
		})
	}
}

// A lost role, and a lost Basic user, are lost on the other instance too. A reload of
// that one counts again.
func TestWithdrawnRoles(t *testing.T) {
	t.Parallel()
	sharingPair(t, sharedConfig, func(p sharingRigs) {
		alice, service := p.a.login(aliceIn), basicHeader("service", "s3rvice")
		p.b.want(200, "GET", "/admin/", "", alice.cookie)
		p.b.want(200, "GET", "/basic/", "", service)
		p.reload(edit(t, edit(t, sharedConfig, aliceRoles, "roles: [user], "), "username: service", "username: robot"))
		p.b.want(403, "GET", "/admin/", "", alice.cookie)
		p.b.want(403, "GET", "/admin/", "", alice.bearer)
		p.b.want(200, "GET", "/session/", "", alice.cookie)
		p.b.want(401, "GET", "/basic/", "", service)
		p.b.mustReload(sharedConfig) // its own configuration, which has both
		p.b.want(200, "GET", "/admin/", "", alice.cookie)
		p.b.want(200, "GET", "/basic/", "", service)
		p.follow()
		p.b.want(200, "GET", "/admin/", "", alice.cookie)
		p.a.want(403, "GET", "/admin/", "", alice.cookie)
	})
}

// A user with a new password on one instance stays signed in there while the other
// one follows, and afterwards is signed in on both.
func TestNewPasswordOnOneInstance(t *testing.T) {
	t.Parallel()
	sharingPair(t, sharedConfig, func(p sharingRigs) {
		changed := edit(t, sharedConfig, aliceHash, bobHash)
		p.reload(changed)
		alice := p.a.login(`{"username":"alice","password":"builder"}`)
		p.b.want(401, "GET", "/session/", "", alice.cookie)
		p.follow()
		p.b.mustReload(changed)
		p.follow()
		p.a.stub()
		p.a.good(alice, true)
		p.b.want(200, "GET", "/session/", "", alice.cookie)
	})
}

// An instance that starts with a disabled account takes it from the others. One that
// starts without an account may have an older configuration, and takes nothing.
func TestWithdrawnAtTheStart(t *testing.T) {
	t.Parallel()
	sharingPair(t, sharedConfig, func(p sharingRigs) {
		alice, bob := p.a.login(aliceIn), p.a.login(bobIn)
		p.a.Close()
		next, err := startRig(p.a.t, p.a.dir,
			edit(t, edit(t, sharedConfig, aliceIs, aliceIs+"disabled: true, "), bobsAccount, ""), p.a.store, p.a.clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		next.stub()
		p.follow()
		p.b.want(401, "GET", "/session/", "", alice.cookie)
		p.b.want(200, "GET", "/session/", "", bob.cookie)
	})
}

// What was withdrawn stays so when the store loses its data, and nothing is withdrawn
// while it fails.
func TestWithdrawnWithoutTheStore(t *testing.T) {
	t.Parallel()
	sharingPair(t, sharedConfig, func(p sharingRigs) {
		without := edit(t, sharedConfig, aliceIs, aliceIs+"disabled: true, ")
		p.a.store.breakIf(func(_ string, _ int64, key string) bool { return key == "changes" })
		p.a.mustReload(without)
		p.a.want(401, "POST", "/login", aliceIn, jsonType) // here at once
		p.a.store.heal()
		p.a.passes(recordEvery + settleEvery)
		p.follow()
		p.b.want(401, "POST", "/login", aliceIn, jsonType)
		if err := p.a.store.Delete(t.Context(), "changes"); err != nil {
			t.Fatal(err)
		}
		p.follow()
		p.b.want(401, "POST", "/login", aliceIn, jsonType)
		if _, err := p.a.store.Get(t.Context(), "changes"); err != nil {
			t.Errorf("the record is not restored: %v", err)
		}
	})
}

// Streams on an instance end within a second after another one was reloaded.
func TestStreamsEndWithAReloadElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, old, new, reason string }{
		"disabled":     {"/session/", aliceIs, aliceIs + "disabled: true, ", "ended session"},
		"a role":       {"/admin/", aliceRoles, "roles: [user], ", "admin"},
		"password":     {"/bearer/", aliceHash, bobHash, "its login has ended"},
		"a Basic user": {"/basic/", "username: service", "username: robot", "Basic user"},
	} {
		for _, protocol := range protocols {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				streamsWith(t, sharedConfig, func(s *streaming) {
					a, err := startRig(s.t, s.dir, sharedConfig, s.store, s.clock.Now)
					if err != nil {
						t.Fatal(err)
					}
					in := s.login(aliceIn)
					body := s.open(protocol, c.path, in.header(c.path))
					s.clock.Advance(time.Minute)
					time.Sleep(time.Minute)
					s.alive(1)
					since := time.Now()
					a.mustReload(edit(t, sharedConfig, c.old, c.new))
					s.ends(body, since)
					s.wantEnded(c.reason, "its account does not exist or is disabled") // here, or by the other instance
				})
			})
		}
	}
}

// endIn returns the time after some time of a gateway, for a configuration.
func endIn(r *rig, d time.Duration) string {
	return r.clock.Now().Add(d).UTC().Format(time.RFC3339Nano)
}

// A role and an account end at the same time on all instances, which tell it once, and nothing of ends before
// their start. Other users, and the account's other roles, stay. A later end brings back no login and no API
// token; a role that is given again counts at once.
func TestEndOnAllInstances(t *testing.T) {
	t.Parallel()
	sharingPair(t, sharedTokens, func(p sharingRigs) {
		ending := func(admin, account string) string {
			return edit(t, edit(t, sharedTokens, aliceRoles, "roles: [user, {name: admin, until: "+admin+"}], "),
				aliceIs, aliceIs+"until: "+account+", ")
		}
		both := func(yaml string) {
			p.a.mustReload(yaml)
			p.b.mustReload(yaml)
			p.follow()
		}
		admin, account := endIn(p.a, 20*time.Second), endIn(p.a, 40*time.Second)
		both(ending(admin, account))
		alice, bob := p.a.login(aliceIn), p.b.login(bobIn)
		token := "Authorization: Bearer " + p.b.client.NewToken(alice.cookie, "").Token
		check := func(admin, session int) {
			t.Helper()
			for _, r := range []*rig{p.a, p.b} {
				r.want(admin, "GET", "/admin/", "", alice.cookie)
				r.want(session, "GET", "/session/", "", alice.cookie)
				r.want(session, "GET", "/bearer/", "", token)
				r.want(session, "POST", "/login", aliceIn, jsonType)
				r.want(200, "GET", "/session/", "", bob.cookie)
			}
		}
		passes := func(d time.Duration) { p.a.clock.Advance(d) }
		passes(19*time.Second - 1) // the first second has passed
		check(200, 200)
		passes(1)
		check(403, 200)
		p.follow()
		both(ending(endIn(p.a, 10*time.Second), account))
		check(200, 200)
		passes(8 * time.Second)
		both(ending(endIn(p.a, time.Hour), account)) // put off
		passes(9*time.Second - 1)
		check(200, 200)
		passes(1)
		check(401, 401)
		p.follow()
		both(ending(endIn(p.a, time.Hour), endIn(p.a, time.Hour)))
		for _, r := range []*rig{p.a, p.b} {
			r.good(alice, false)
			r.want(401, "GET", "/bearer/", "", token)
			r.want(200, "POST", "/login", aliceIn, jsonType)
			for event, want := range map[string]int{"role_ended": 1, "account_ended": 1} {
				if n := strings.Count(r.log.String(), `"event":"`+event+`","subject":"local:alice"`); n != want {
					t.Errorf("%d events %s, want %d:\n%s", n, event, want, r.log)
				}
			}
		}
	})
}
