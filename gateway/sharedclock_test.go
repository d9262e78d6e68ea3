package gateway

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// sharedConfigOfTwo is what instances on one store have in common. The leeway is
// shorter than their clocks differ, and longer than any of the steps takes.
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

// instanceOn returns a gateway on a shared store whose machine's wall clock is
// wrong by that much.
func instanceOn(t *testing.T, yaml string, shared store.Store, wrong time.Duration) *rig {
	t.Helper()
	c := &clocktest.Machine{}
	c.Adjust(wrong)
	r := &rig{t: t, dir: t.TempDir(), log: &logBuffer{}, registry: prometheus.NewRegistry(), upstream: &stubUpstream{}}
	var err error
	r.Gateway, err = New(Options{
		Config: parseConfig(t, r.dir, yaml), Store: shared, Registerer: r.registry, Version: "test", Now: c.Now,
		Logger: slog.New(slog.NewJSONHandler(r.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.stub()
	return r
}

// TestClocksDiffer runs two instances whose clocks differ by a minute on one
// store with a clock: parallel refreshes of one token are no theft, a token of
// one is good at the other, and a reuse after the leeway still ends the login.
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

// refreshEverywhere has all instances refresh with one token at once, of which
// one succeeds, and returns its answer.
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
