package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sharedConfig has a store that other instances use too, and the key with which they
// sign tokens.
var sharedConfig = strings.Replace(baseConfig, "store: {driver: memory}",
	"store: {driver: redis}\ntoken: {secret: abcdefghijabcdefghijabcdefghij01}", 1)

const bobsAccount = `    - {username: bob, roles: [user], password_hash: "` + bobHash + `"}` + "\n"

// restartWithoutStore closes r and starts another gateway on its store, which fails.
func (r *rig) restartWithoutStore(yaml string) (*rig, error) {
	r.t.Helper()
	r.Close()
	r.store.breakIf(func(string, int64, string) bool { return true })
	next, err := startRig(r.t, r.dir, yaml, r.store, r.clock.Now)
	next.store, next.clock = r.store, r.clock
	return next, err
}

// waiting runs f in a synctest bubble with a gateway that runs yaml, and that has started
// while the store fails, and with logins from before.
func waiting(t *testing.T, yaml string, f func(t *testing.T, r *rig, alice, bob signedIn)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := newRig(t, sharedConfig)
		alice, bob := before.login(aliceIn), before.login(bobIn)
		r, err := before.restartWithoutStore(yaml)
		if err != nil {
			t.Fatal(err)
		}
		f(t, r, alice, bob)
	})
}

// passes lets time pass, and then puts the stub behind the routes of a new state.
func (r *rig) passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	r.stub()
}

// refusing checks that requests that need a login are 503 and are not forwarded, and
// that others work.
func (r *rig) refusing(s signedIn) {
	r.t.Helper()
	for _, q := range []*http.Request{
		request("POST", "/login", bobIn, jsonType), request("POST", "/refresh", refreshBody(s.refresh), jsonType),
		request("POST", "/logout", "", s.cookie), request("POST", "/logout", "", s.bearer),
		request("GET", "/logout", "", s.cookie), request("GET", "/me", "", s.cookie), request("GET", "/me", "",
			s.bearer),
		request("GET", "/session/x", "", s.cookie), request("GET", "/bearer/x", "", s.bearer),
		request("GET", "/any/x", "", s.cookie, s.bearer),
	} {
		if w := r.wantOf(http.StatusServiceUnavailable, q); w.Header().Get("Retry-After") == "" {
			r.t.Errorf("%s %s: no Retry-After", q.Method, q.RequestURI)
		}
	}
	r.want(200, "GET", "/public/", "")
	r.want(200, "GET", "/basic/", "", basicHeader("service", "s3rvice"))
	if r.Ready(r.t.Context()) == nil {
		r.t.Error("it is ready")
	}
}

// Logins work again after the store answers, but only once it is recorded
// since when the accounts are as they are.
func TestStartWithoutStore(t *testing.T) {
	waiting(t, sharedConfig, func(t *testing.T, r *rig, alice, _ signedIn) {
		r.refusing(alice)
		r.passes(10 * settleEvery)
		r.refusing(alice)
		r.store.heal()
		r.passes(settleEvery - time.Nanosecond) // the last moment before it tries again
		r.refusing(alice)
		r.passes(settleEvery)
		r.good(alice, true)
		if got := r.Ready(t.Context()); got != nil {
			t.Errorf("it is not ready: %s", got)
		}
	})
}

// That an account is missing at the start is recorded later, so that its logins stay
// dead when it comes back.
func TestStartWithoutStoreRecordsChanges(t *testing.T) {
	waiting(t, edit(t, sharedConfig, bobsAccount, ""), func(_ *testing.T, r *rig, alice, bob signedIn) {
		r.store.heal()
		r.passes(settleEvery)
		r.good(bob, false)
		r.clock.Advance(time.Second)
		r.mustReload(sharedConfig)
		r.good(bob, false)
		r.good(alice, true)
	})
}

// A reload while the store is missing applies, and logins stay refused until the store
// answers.
func TestReloadBeforeGateOpens(t *testing.T) {
	waiting(t, sharedConfig, func(t *testing.T, r *rig, alice, bob signedIn) {
		r.mustReload(without(t, sharedConfig))
		r.want(503, "GET", "/session/", "", alice.cookie)
		r.want(503, "GET", "/bearer/", "", bob.bearer)
		r.want(401, "GET", "/basic/", "", basicHeader("service", "s3rvice"))
		r.want(200, "GET", "/public/", "")
		if r.Ready(t.Context()) == nil {
			t.Error("it is ready")
		}
		r.store.heal()
		r.passes(10 * settleEvery)
		r.good(alice, true)
		r.good(bob, false)
		r.want(401, "POST", "/login", bobIn, jsonType)
	})
}

// The gateway does not start if a store on this machine fails.
func TestStartNeedsOwnStore(t *testing.T) {
	t.Parallel()
	if _, err := newRig(t, baseConfig).restartWithoutStore(baseConfig); !errors.Is(err, errBroken) {
		t.Errorf("New: %v", err)
	}
}

// A gateway that is closed while its store is missing does not call the store any more.
func TestStopBeforeGateOpens(t *testing.T) {
	waiting(t, sharedConfig, func(t *testing.T, r *rig, _, _ signedIn) {
		asked, answer, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		r.store.breakIf(func(string, int64, string) bool {
			asked <- struct{}{}
			<-answer
			return true
		})
		<-asked
		go func() {
			defer close(closed)
			r.Close()
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returns while a call of the store is in flight")
		default:
		}
		close(answer)
		<-closed
		calls := r.store.Calls()
		r.passes(time.Minute)
		if again := r.store.Calls(); again != calls {
			t.Errorf("it has called the store %d times since", again-calls)
		}
	})
}

// When the store has lost its data and another instance has begun anew,
// the instances accept the logins of each other again. Without another instance that
// starts, no login ends.
func TestStoreComesBackEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t, sharedConfig)
		if err := a.store.Delete(t.Context(), "changes"); err != nil {
			t.Fatal(err)
		}
		a.clock.Advance(time.Minute)
		b, err := startRig(t, a.dir, sharedConfig, a.store, a.clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		b.stub()
		before := a.login(aliceIn)
		b.want(401, "GET", "/session/", "", before.cookie)
		a.passes(followEvery)
		b.want(200, "GET", "/session/", "", a.login(aliceIn).cookie)
		a.want(200, "GET", "/session/", "", b.login(bobIn).cookie)

		running, in := a.state.Load(), a.login(aliceIn)
		if err := a.store.Delete(t.Context(), "changes"); err != nil {
			t.Fatal(err)
		}
		a.passes(10 * followEvery)
		b.passes(0)
		b.want(200, "GET", "/session/", "", in.cookie)
		if a.state.Load() != running {
			t.Error("it reloads although nothing has moved")
		}
	})
}
