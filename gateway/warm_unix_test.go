//go:build unix

package gateway

import (
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/porttest"
	"authgate/gateway/store/redisstore"
	"authgate/gateway/store/redisstore/redistest"
	"authgate/gateway/store/sqlitestore"
	"authgate/gateway/store/storetest"
)

// warmSessions returns what a warm session check is, by itself and as a part of
// a request, with the store in Redis and in SQLite.
func warmSessions(t testing.TB) (onRedis, onSQLite map[string]func(), server *redistest.Server) {
	t.Helper()
	server = redistest.Start(t, porttest.Address(t))
	redis, err := redisstore.Open(t.Context(), redisstore.Options{
		Addresses: []string{server.Address}, KeyPrefix: "authgate:",
		MaxStaleness: 24 * time.Hour, // a stall of the machine is not what is looked at
	})
	if err != nil {
		t.Fatal(err)
	}
	sqlite, err := sqlitestore.Open(t.Context(), sqlitestore.Options{Path: filepath.Join(t.TempDir(), "authgate.db")})
	if err != nil {
		t.Fatal(err)
	}
	return warmSession(t, redis), warmSession(t, sqlite), server
}

// TestWarmSessionCost: a warm session check asks Redis nothing, and allocates
// no more than it does with SQLite. BenchmarkWarmSessionCost compares the time.
func TestWarmSessionCost(t *testing.T) {
	onRedis, onSQLite, server := warmSessions(t)
	for _, what := range []string{"check", "request"} {
		t.Run(what, func(t *testing.T) {
			onRedis[what]() // so that it is warm
			before := redisCommands(t, server)
			const runs = 1000
			redis, sqlite := testing.AllocsPerRun(runs, onRedis[what]), testing.AllocsPerRun(runs, onSQLite[what])
			if redis > sqlite {
				t.Errorf("it allocates %v times with Redis, and %v times with SQLite", redis, sqlite)
			}
			if diff := cmp.Diff(before, redisCommands(t, server)); diff != "" {
				t.Errorf("Redis was asked:\n%s", diff)
			}
		})
	}
}

// How much more a warm session check may cost with Redis than with SQLite.
// Stretches of checks are short and in turn, so that both see the same noise.
const (
	warmRatio   = 1.1
	warmRounds  = 51
	warmStretch = 20 * time.Millisecond
)

// BenchmarkWarmSessionCost compares the processor time of a warm session check.
func BenchmarkWarmSessionCost(b *testing.B) {
	onRedis, onSQLite, _ := warmSessions(b)
	for _, what := range []string{"check", "request"} {
		b.Run(what, func(b *testing.B) {
			var ratio float64
			for b.Loop() {
				ratio = compareCost(b, onRedis[what], onSQLite[what])
			}
			b.ReportMetric(ratio, "ratio")
			if ratio > warmRatio {
				b.Errorf("with Redis it costs %.3f times what it costs with SQLite, expected %v at most", ratio, warmRatio)
			}
		})
	}
}

// warmSession returns what is measured, with a session on s.
func warmSession(t testing.TB, s storetest.Store) map[string]func() {
	t.Helper()
	r, presented := benchRigOn(t, s)
	q := request("GET", "/session/resource", "", append(requestHeaders, presented["session"])...)
	w := &nowhere{header: http.Header{}}
	st := r.state.Load()
	creds, err := auth.ReadCredentials(q.Header, &st.cookies, st.trusted.Read(q).Client)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(){
		"check": func() {
			if id, err := st.sessions.Authenticate(t.Context(), &creds); err != nil || id == nil {
				t.Fatal(err)
			}
		},
		"request": func() {
			clear(w.header)
			if r.ServeHTTP(w, q); w.status != http.StatusOK {
				t.Fatal(w.status)
			}
		},
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

var commandStatistic = regexp.MustCompile(`cmdstat_([^:]+):calls=([0-9]+)`)

// redisCommands counts what Redis was asked for, by command, without what
// confirms contact, and the counting.
func redisCommands(t *testing.T, r *redistest.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, found := range commandStatistic.FindAllStringSubmatch(r.Do(t, "INFO", "commandstats"), -1) {
		if command := found[1]; command != "role" && command != "ping" && command != "info" {
			all[command] = found[2]
		}
	}
	if all["set"] == "" {
		t.Fatal("the gateway keeps no logins in Redis")
	}
	return all
}
