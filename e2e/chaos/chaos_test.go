package chaos

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
)

// A test that is longer than a round continues with new processes and the next seed.
const (
	short = 6 * time.Second
	round = time.Minute
)

// swept is the number of logins that are checked at the end.
const swept = 300

// documented are the times in docs/configuration/store.md and docs/scaling.md.
var documented = bounds{Staleness: 2 * time.Second, Recovery: 3 * time.Second}

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }

// TestFaults runs clients and faults for CHAOSTIME, with seeds from CHAOSSEED on.
func TestFaults(t *testing.T) {
	lasts, seed := parameters(t)
	binary := world.Program("authgate")
	for ; lasts > 0 && !t.Failed(); lasts, seed = lasts-round, seed+1 {
		t.Run(fmt.Sprintf("CHAOSSEED=%d", seed), func(t *testing.T) {
			for name, build := range map[string]func(*cell, string){"redis": (*cell).onRedis, "sqlite": (*cell).onSQLite} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c := &cell{t: t, name: name, app: &application{seen: map[string][]identity{}}}
					server := httptest.NewServer(c.app)
					t.Cleanup(server.Close)
					c.upstream = server.URL
					build(c, binary)
					c.run(seed, min(lasts, round))
				})
			}
		})
	}
}

// parameters returns the duration of the test and the seed of its first round. Without
// any, the test is short and plays the same round each time.
func parameters(t *testing.T) (lasts time.Duration, seed uint64) {
	t.Helper()
	wanted, first := os.Getenv("CHAOSTIME"), fmt.Sprint(rand.Uint64N(1_000_000))
	if wanted == "" {
		wanted, first = short.String(), "1"
	}
	lasts, err := time.ParseDuration(wanted)
	if err != nil || lasts <= 0 {
		t.Fatalf("CHAOSTIME: %v, %v, expected a duration such as 10m", lasts, err)
	}
	seed, err = strconv.ParseUint(cmp.Or(os.Getenv("CHAOSSEED"), first), 10, 64)
	if err != nil {
		t.Fatalf("CHAOSSEED: %v, expected a number", err)
	}
	return lasts, seed
}

// cell is one or more gateways on one store, with clients and a history.
type cell struct {
	t         *testing.T
	name      string
	history   *history
	app       *application
	upstream  string
	instances []*instance
	redis     *redistest.Server  // nil if the store is SQLite
	ways      []*redistest.Proxy // from each instance to Redis
	tls       *tls.Config
	prober    *http.Client

	logins, requests, troubles atomic.Int64 // counts
}

// onRedis prepares two gateways that share a Redis, which loses no acknowledged
// write.
func (c *cell) onRedis(binary string) {
	c.redis = redistest.Start(c.t, porttest.Address(c.t), "--appendonly", "yes", "--appendfsync", "always")
	public := ""
	for _, name := range []string{"A", "B"} {
		way := redistest.StartProxy(c.t, c.redis.Address)
		c.ways = append(c.ways, way)
		store := fmt.Sprintf("store: {driver: redis, addresses: [%q], encryption_key: abcdefghijabcdefghijabcdefghij01}\n",
			way.Address)
		c.instances = append(c.instances, newInstance(c.t, name, binary, public, c.upstream, store))
		public = c.instances[0].port
	}
}

// onSQLite prepares one gateway with its own database.
func (c *cell) onSQLite(binary string) {
	c.instances = append(c.instances, newInstance(c.t, "S", binary, "", c.upstream, ""))
}

// run starts the processes, runs clients and faults as the seed says for a time, and
// checks the history.
func (c *cell) run(seed uint64, lasts time.Duration) {
	for _, g := range c.instances {
		must.Do(c.t, g.run())
	}
	if c.awaitReady(); c.t.Failed() {
		c.t.FailNow()
	}
	c.tls = trust(c.t, c.instances)
	c.prober = c.newClient(rand.New(rand.NewPCG(seed, 0))).http
	c.history = newHistory()
	ctx, done := context.WithCancel(c.t.Context())
	var watching sync.WaitGroup
	for _, g := range c.instances {
		watching.Go(func() { c.watch(ctx, g.name, func() error { return g.probe("/healthz") }) })
	}
	watching.Go(func() { c.watch(ctx, "", c.storeAnswers(c.t.TempDir())) })
	clients := c.play(seed, lasts)
	c.sweep(clients)
	done()
	watching.Wait()
	events := c.history.Events()
	c.app.complete(events)
	c.judge(seed, events)
}

// play runs clients and faults and returns the clients when all have ended.
func (c *cell) play(seed uint64, lasts time.Duration) []*client {
	ctx, cancel := context.WithTimeout(c.t.Context(), lasts)
	defer cancel()
	var running, witnessed sync.WaitGroup
	var clients []*client
	for i := range len(c.instances) { // also before the first fault
		each := c.newClient(rand.New(rand.NewPCG(seed, 200+uint64(i))))
		clients = append(clients, each)
		witnessed.Add(1)
		once := sync.OnceFunc(witnessed.Done)
		running.Go(func() { each.witness(ctx, once) })
	}
	for i := range 3 + 2*len(c.instances) {
		each := c.newClient(rand.New(rand.NewPCG(seed, 100+uint64(i))))
		clients = append(clients, each)
		running.Go(func() { each.live(ctx) })
	}
	witnessed.Wait()
	running.Go(func() { c.gatewayFaults(ctx, rand.New(rand.NewPCG(seed, 1))) })
	if c.redis != nil {
		c.storeFaults(ctx, rand.New(rand.NewPCG(seed, 2))) // it may call FailNow, so not in another goroutine
	}
	running.Wait()
	return clients
}

// sweep uses logins of all clients at every instance once more, after the faults.
// Logins that no client has ended come first.
func (c *cell) sweep(clients []*client) {
	c.awaitReady()
	var sweeping sync.WaitGroup
	for _, each := range clients {
		slices.SortStableFunc(each.past, func(a, b *login) int { return cmp.Compare(a.endings, b.endings) })
		sweeping.Go(func() {
			for _, l := range each.past[:min(len(each.past), swept/len(clients))] {
				for _, g := range c.instances {
					each.use(l, g, l.cookie())
					each.use(l, g, l.token(each.random))
				}
			}
		})
	}
	sweeping.Wait()
}

// judge checks the events, and writes them to a file if they break a promise.
func (c *cell) judge(seed uint64, events []event) {
	kinds := map[kind]int{}
	for _, e := range events {
		kinds[e.Kind]++
	}
	violations := violations(events, documented)
	c.t.Logf("seed %d, %s: %d events %v, %d violations", seed, c.name, len(events), kinds, len(violations))
	if len(violations) == 0 {
		return
	}
	for _, v := range violations[:min(len(violations), 10)] {
		c.t.Errorf("%v", v)
	}
	file := must.Get(os.CreateTemp("", fmt.Sprintf("authgate-chaos-%d-%s-*.jsonl", seed, c.name)))(c.t)
	defer file.Close()
	must.Do(c.t, writeEvents(file, events))
	c.t.Errorf("%d violations; the history is in %s; CHAOSSEED=%d makes the same decisions",
		len(violations), file.Name(), seed)
}
