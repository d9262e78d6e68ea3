package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sharedSecret is the key with which instances on one store sign tokens.
const sharedSecret = "token: {secret: abcdefghijabcdefghijabcdefghij01}"

// sharedConfig has a store that other instances use too.
var sharedConfig = strings.Replace(baseConfig, "store: {driver: memory}", "store: {driver: redis}\n"+sharedSecret, 1)

const (
	bobsAccount = `    - {username: bob, roles: [user], password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}` + "\n"
	// justBefore is the last moment before a gateway tries again to open the gate.
	justBefore = openGateEvery - time.Nanosecond
)

// restartWithoutStore starts another gateway on the store of r, which fails.
func (r *rig) restartWithoutStore(yaml string) (*rig, error) {
	r.t.Helper()
	r.store.breakIf(func(string, int64, string) bool { return true })
	next, err := startRig(r.t, r.dir, yaml, r.store, r.clock.Now)
	next.store, next.clock = r.store, r.clock
	if err == nil {
		r.t.Cleanup(next.Close)
	}
	return next, err
}

// refusing checks that requests that need a login are 503 and are not forwarded, and
// that others work.
func (r *rig) refusing(t *testing.T, s signedIn) {
	t.Helper()
	before := r.upstream.count()
	for _, i := range interruptions() {
		if w := r.serve(i.request(s)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", i.name, w.Code, w.Body)
		}
	}
	if reached := r.upstream.count() - before; reached > 0 {
		t.Errorf("%d requests reached the upstream", reached)
	}
	for target, header := range map[string]string{"/public/": "", "/basic/": basicHeader("service", "s3rvice")} {
		if w := r.do("GET", target, "", header); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if r.Ready(t.Context()) == nil {
		t.Error("it is ready")
	}
}

// TestStartWithoutStore: logins work again after the store answers, but only once the
// epochs of the accounts are recorded.
func TestStartWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := newRig(t, sharedConfig)
		s := before.login(aliceIn)
		r, err := before.restartWithoutStore(sharedConfig)
		if err != nil {
			t.Fatal(err)
		}
		r.refusing(t, s)
		time.Sleep(10 * openGateEvery)
		synctest.Wait()
		r.refusing(t, s)
		r.store.heal()
		time.Sleep(justBefore)
		synctest.Wait()
		r.refusing(t, s)
		time.Sleep(openGateEvery)
		synctest.Wait()
		r.stub()
		r.good(t, s, true)
		if got := r.Ready(t.Context()); got != nil {
			t.Errorf("it is not ready: %s", got)
		}
	})
}

// TestStartWithoutStoreRecordsEpochs: that an account is missing at the start is
// recorded later, so that its logins stay dead when it comes back.
func TestStartWithoutStoreRecordsEpochs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := newRig(t, sharedConfig)
		alice, bob := before.login(aliceIn), before.login(bobIn)
		r, err := before.restartWithoutStore(edit(t, sharedConfig, bobsAccount, ""))
		if err != nil {
			t.Fatal(err)
		}
		r.store.heal()
		time.Sleep(openGateEvery)
		synctest.Wait()
		r.stub()
		r.good(t, bob, false)
		r.clock.Advance(time.Second)
		if err := r.reload(sharedConfig); err != nil {
			t.Fatal(err)
		}
		r.stub()
		r.good(t, bob, false)
		r.good(t, alice, true)
	})
}

// TestReloadBeforeGateOpens: a reload while the store is missing is all or nothing. One
// that succeeds stays.
func TestReloadBeforeGateOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := newRig(t, sharedConfig)
		s := before.login(aliceIn)
		r, err := before.restartWithoutStore(sharedConfig)
		if err != nil {
			t.Fatal(err)
		}
		running := r.state.Load()
		if err := r.reload(edit(t, sharedConfig, bobsAccount, "")); !errors.Is(err, errBroken) || r.state.Load() != running {
			t.Errorf("a reload without the store: %v", err)
		}
		r.refusing(t, s)
		r.store.heal()
		if err := r.reload(edit(t, sharedConfig, bobsAccount, "")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * openGateEvery)
		synctest.Wait()
		r.stub()
		r.good(t, s, true)
		if w := r.do("POST", "/login", bobIn, jsonType); w.Code != http.StatusUnauthorized {
			t.Errorf("the account that the reload has removed: %d", w.Code)
		}
	})
}

// TestStartNeedsOwnStore: the gateway does not start if a store on this machine fails.
func TestStartNeedsOwnStore(t *testing.T) {
	t.Parallel()
	if _, err := newRig(t, baseConfig).restartWithoutStore(baseConfig); !errors.Is(err, errBroken) {
		t.Errorf("New: %v", err)
	}
}

// TestStopBeforeGateOpens: a gateway that is closed while its store is missing does not
// call the store any more.
func TestStopBeforeGateOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := newRig(t, sharedConfig).restartWithoutStore(sharedConfig)
		if err != nil {
			t.Fatal(err)
		}
		asked, answer := make(chan struct{}), make(chan struct{})
		r.store.breakIf(func(string, int64, string) bool {
			asked <- struct{}{}
			<-answer
			return true
		})
		<-asked
		closed := make(chan struct{})
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
		calls := r.store.calls.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if again := r.store.calls.Load(); again != calls {
			t.Errorf("it has called the store %d times since", again-calls)
		}
	})
}
