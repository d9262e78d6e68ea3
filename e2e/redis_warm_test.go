package e2e

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"authgate/e2e/redistest"
	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/porttest"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/gateway/store/sqlitestore"
)

// warmConfig has one account, alice, whose password is wonderland.
const warmConfig = `
public_url: https://gw.example
store: {driver: memory}
accounts:
  users:
    - {username: alice, roles: [user], password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}
upstreams:
  app: {url: "http://app.invalid"}
routes:
  - {match: /, upstream: app, auth: [session]}
`

// noAnswer is a response that is thrown away.
type noAnswer struct {
	header http.Header
	status int
}

func (w *noAnswer) Header() http.Header         { return w.header }
func (w *noAnswer) Write(b []byte) (int, error) { return len(b), nil }
func (w *noAnswer) WriteHeader(status int)      { w.status = status }

// warmRequest returns a function that sends a request with a warm session to a
// gateway on s, in this process and without a network.
func warmRequest(t testing.TB, s store.Store) func() {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "config.yaml"), []byte(warmConfig))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = t.TempDir()
	g, err := gateway.New(gateway.Options{Config: cfg, Store: s, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	login := httptest.NewRequest("POST", "/login", strings.NewReader(`{"username": "alice", "password": "wonderland"}`))
	login.Host = "gw.example"
	login.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, login)
	cookies := answer.Result().Cookies()
	if answer.Code != http.StatusOK || len(cookies) == 0 {
		t.Fatalf("login: %d %s", answer.Code, answer.Body)
	}
	me := httptest.NewRequest("GET", "/me", nil)
	me.Host = "gw.example"
	me.AddCookie(cookies[0])
	w := &noAnswer{header: http.Header{}}
	request := func() {
		clear(w.header)
		w.status = 0
		if g.ServeHTTP(w, me); w.status != http.StatusOK {
			t.Fatal(w.status)
		}
	}
	request() // from now on the session is warm
	return request
}

// warmRequests are requests of gateways with their stores in Redis and in SQLite.
func warmRequests(t testing.TB) (onRedis, onSQLite func(), server *redistest.Server) {
	t.Helper()
	server = redistest.Start(t, porttest.Address(t))
	redis, err := redisstore.Open(t.Context(), redisstore.Options{
		Addresses: []string{server.Address}, KeyPrefix: "authgate:",
		MaxStaleness: 24 * time.Hour, // a pause of the machine does not count
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	sqlite, err := sqlitestore.Open(t.Context(), sqlitestore.Options{Path: filepath.Join(t.TempDir(), "authgate.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sqlite.Close() })
	return warmRequest(t, redis), warmRequest(t, sqlite), server
}

// TestWarmSessionCost: a request with a warm session asks Redis nothing, and
// allocates as often as it does with SQLite. BenchmarkWarmSessionCost compares
// the time.
func TestWarmSessionCost(t *testing.T) {
	onRedis, onSQLite, server := warmRequests(t)
	const runs = 1000
	sent := watchRedis(t, server)
	redis, sqlite := testing.AllocsPerRun(runs, onRedis), testing.AllocsPerRun(runs, onSQLite)
	if redis > sqlite {
		t.Errorf("it allocates %v times with Redis, and %v times with SQLite", redis, sqlite)
	}
	if diff := cmp.Diff([]string(nil), sent.since(t)); diff != "" {
		t.Errorf("Redis was asked:\n%s", diff)
	}
}

// How much more a request with a warm session may cost with Redis than with
// SQLite. The two take short turns, so that both run under the same conditions.
const (
	warmRatio   = 1.1
	warmRounds  = 51
	warmStretch = 20 * time.Millisecond
)

// BenchmarkWarmSessionCost compares the processor time of a request with a warm
// session.
func BenchmarkWarmSessionCost(b *testing.B) {
	onRedis, onSQLite, _ := warmRequests(b)
	var ratio float64
	for b.Loop() {
		ratio = compareCost(b, onRedis, onSQLite)
	}
	b.ReportMetric(ratio, "ratio")
	if ratio > warmRatio {
		b.Errorf("with Redis it costs %.3f times what it costs with SQLite, expected %v at most", ratio, warmRatio)
	}
}

// compareCost returns the median of what a costs, as a multiple of what b does.
func compareCost(t testing.TB, a, b func()) float64 {
	t.Helper()
	cost := func(do func()) float64 {
		n, before := 0, processorTime(t)
		for began := time.Now(); time.Since(began) < warmStretch; {
			for range 10 {
				do()
			}
			n += 10
		}
		return float64(processorTime(t)-before) / float64(n)
	}
	ratios := make([]float64, warmRounds)
	for i := range ratios {
		ratios[i] = cost(a) / cost(b)
	}
	slices.Sort(ratios)
	t.Logf("with Redis it costs %.3f times what it costs with SQLite (the middle half: %.3f to %.3f)",
		ratios[warmRounds/2], ratios[warmRounds/4], ratios[warmRounds*3/4])
	return ratios[warmRounds/2]
}

// processorTime is what this process has used so far.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
