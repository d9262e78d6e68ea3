package gateway

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The ways in which a store fails.
var (
	noWrites  = func(operation string, _ int64, _ string) bool { return operation != "get" }
	noAnswers = func(string, int64, string) bool { return true }
)

// without returns a configuration without bob and service.
func without(t *testing.T, yaml string) string {
	t.Helper()
	return edit(t, edit(t, yaml, bobsAccount, ""), "username: service", "username: another")
}

// refused fails the test if one of the requests of a user who is gone reaches the upstream.
func (r *rig) refused(s signedIn, when string) {
	r.t.Helper()
	before := r.upstream.Reached()
	for _, ask := range [][2]string{
		{"/session/", s.cookie}, {"/bearer/", s.bearer}, {"/basic/", basicHeader("service", "s3rvice")},
	} {
		if w := r.do("GET", ask[0], "", ask[1]); w.Code < 400 {
			r.t.Errorf("%s: GET %s is %d", when, ask[0], w.Code)
		}
	}
	if reached := r.upstream.Reached() - before; reached > 0 {
		r.t.Errorf("%s: %d requests reached the upstream", when, reached)
	}
}

// A removed account is out at once, whether the store can be written or not, and its logins
// stay dead when it comes back, here and after a restart.
func TestRemovedWithoutStore(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(string, int64, string) bool{
		"it cannot be written": noWrites, "it does not answer": noAnswers,
	} {
		for driver, yaml := range map[string]string{"alone": baseConfig, "shared": sharedConfig} {
			t.Run(name+", "+driver, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, yaml)
					alice, bob := r.login(aliceIn), r.login(bobIn)
					r.clock.Advance(time.Second)
					r.store.breakIf(broken)
					r.mustReload(without(t, yaml))
					r.refused(bob, "after the reload")
					r.clock.Advance(time.Second)
					r.mustReload(yaml)
					r.clock.Advance(time.Second)
					r.store.heal()
					r.refusedLogins(bob)
					r.clock.Advance(time.Second)
					again := r.login(bobIn)
					r.passes(2 * recordEvery)
					r.want(200, "GET", "/session/", "", again.cookie) // recording the change ends nothing
					r.Close()
					next, err := startRig(t, r.dir, yaml, r.store, r.clock.Now)
					if err != nil {
						t.Fatal(err)
					}
					next.good(bob, false)
					next.good(again, true)
					next.good(alice, true)
				})
			})
		}
	}
}

// What was withdrawn while Redis could not be written reaches the other instances when
// it can be.
func TestWithdrawnWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t, sharedConfig)
		b, err := startRig(t, a.dir, sharedConfig, a.store, a.clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		bob := a.login(bobIn)
		b.want(200, "GET", "/session/", "", bob.cookie)
		a.clock.Advance(time.Second)
		a.store.breakIf(noWrites)
		a.mustReload(without(t, sharedConfig))
		a.mustReload(edit(t, without(t, sharedConfig), "name: public,", "name: open,"))
		a.refused(bob, "at the instance")
		a.store.heal()
		a.passes(2 * recordEvery)
		b.passes(2 * followEvery)
		b.refused(bob, "at the other instance")
	})
}

// A gateway starts while its store cannot be written: a user who was disabled meanwhile is
// out, and stays out when the store has room again and the account is back.
func TestStartUnwritable(t *testing.T) {
	t.Parallel()
	for driver, yaml := range map[string]string{"alone": baseConfig, "shared": sharedConfig} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				before := newRig(t, yaml)
				alice, bob := before.login(aliceIn), before.login(bobIn)
				before.Close()
				before.clock.Advance(time.Second)
				before.store.breakIf(noWrites)
				r, err := startRig(t, before.dir, without(t, yaml), before.store, before.clock.Now)
				if err != nil {
					t.Fatal(err)
				}
				r.store, r.clock = before.store, before.clock
				r.refused(bob, "after the start")
				r.want(http.StatusOK, "GET", "/session/", "", alice.cookie)
				r.clock.Advance(time.Second)
				r.mustReload(yaml)
				r.refusedLogins(bob)
				r.store.heal()
				r.passes(2 * recordEvery)
				r.good(bob, false)
				r.good(alice, true)
			})
		})
	}
}

// refusedLogins fails the test unless the logins of a user who is back are dead.
func (r *rig) refusedLogins(s signedIn) {
	r.t.Helper()
	r.want(http.StatusUnauthorized, "GET", "/session/", "", s.cookie)
	r.want(http.StatusUnauthorized, "GET", "/bearer/", "", s.bearer)
}

// While a reload records what it changes, nothing is left to be recorded of the
// configuration that runs: settle would build it again, and log that the store is back.
func TestReloadLeavesNothingToSettle(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedConfig)
	r.store.breakIf(func(operation string, _ int64, key string) bool {
		if !r.state.Load().settled() {
			t.Errorf("it is not settled at the %s of %s", operation, key)
		}
		return false
	})
	r.mustReload(without(t, sharedConfig))
}

// A damaged record of what unknown names cost refuses no request, and the log says so.
func TestDamagedDecoyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	if err := r.store.Put(t.Context(), "decoys", []byte("damaged"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	r.mustReload(baseConfig)
	r.login(aliceIn)
	line := r.log.Last(t, "what unknown user names cost may differ from other instances, or change at a restart")
	if line["level"] != "WARN" || !strings.Contains(line["error"].(string), "damaged") {
		t.Errorf("logged %v", line)
	}
}
