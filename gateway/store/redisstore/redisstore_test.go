package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/redisstore/redistest"
	"authgate/gateway/store/storetest"
)

var _ store.Pinger = (*Store)(nil)

// openTest opens a store that ends with the test.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// conform runs the suite, with a prefix for each store that it opens.
func conform(t *testing.T, o Options) {
	var stores atomic.Int64
	storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Store {
		mine := o
		mine.Now = now
		mine.KeyPrefix = fmt.Sprintf("store %d:", stores.Add(1))
		return openTest(t, mine)
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, Options{Addresses: []string{startServer(t).Address}})
}

// TestConformanceCold runs the suite with a cache of one entry in each shard.
func TestConformanceCold(t *testing.T) {
	t.Parallel()
	conform(t, Options{Addresses: []string{startServer(t).Address}, CacheEntries: 1})
}

// TestConformanceUntrusted runs the suite with a cache that is never trusted.
func TestConformanceUntrusted(t *testing.T) {
	t.Parallel()
	conform(t, Options{Addresses: []string{startServer(t).Address}, MaxStaleness: 1})
}

func put(t testing.TB, s *Store, key, value string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(value), time.Time{}); err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
}

// holds returns an error unless key has the live value want.
func holds(t testing.TB, s *Store, key, want string) error {
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got) != want {
		return fmt.Errorf("Get(%q) = %q, %w; want %q", key, got, err, want)
	}
	return nil
}

func wantValue(t testing.TB, s *Store, key, want string) {
	t.Helper()
	if err := holds(t, s, key, want); err != nil {
		t.Fatal(err)
	}
}

func wantAbsent(t testing.TB, s *Store, key string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get(%q) = %q, %v; want ErrNotFound", key, got, err)
	}
}

// wantOutage fails the test unless err says that the store could not answer.
func wantOutage(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		t.Fatalf("%s: error %v, want one that says that Redis does not answer", what, err)
	}
}

// warm reads key until the store has it in its cache and trusts that.
func warm(t testing.TB, s *Store, key string) {
	t.Helper()
	eventually(t, "a warm read of "+key, func() error {
		_, _ = s.Get(t.Context(), key)
		_, known, _ := s.cache.lookup(key)
		if fresh := s.link.fresh(s.Now()); !known || !fresh {
			return fmt.Errorf("cached: %t, trusted: %t", known, fresh)
		}
		return nil
	})
}

// TestWhatRedisHolds looks at the keys and their lifetimes behind the store.
func TestWhatRedisHolds(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}, KeyPrefix: "authgate:"})
	put(t, s, "stays", "value")
	if err := s.Put(t.Context(), "expires", []byte("value"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Swap(t.Context(), "swapped", nil, []byte("value"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := redis.Do(t, "DBSIZE"); got != ":3" {
		t.Errorf("DBSIZE = %s, want :3", got)
	}
	if got := redis.Do(t, "GET", "authgate:stays"); got != encode([]byte("value"), never) {
		t.Errorf("stored: %q", got)
	}
	if got := redis.Do(t, "PTTL", "authgate:stays"); got != ":-1" {
		t.Errorf("an entry that stays has the lifetime %s", got)
	}
	for _, key := range []string{"authgate:expires", "authgate:swapped"} {
		var ttl int64
		fmt.Sscanf(redis.Do(t, "PTTL", key), ":%d", &ttl)
		if left := time.Duration(ttl) * time.Millisecond; left < time.Hour || left > time.Hour+sweepDelay {
			t.Errorf("%s is removed after %v, want an hour and at most %v", key, left, sweepDelay)
		}
	}
}

// TestForeignValues puts under the prefix what no store has written.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}})
	redis.Do(t, "SET", "short", "x")
	redis.Do(t, "SET", "long", "something else altogether")
	redis.Do(t, "LPUSH", "list", "x")
	for _, key := range []string{"short", "long", "list"} {
		_, err := s.Get(t.Context(), key)
		wantOutage(t, "Get of "+key, err)
		wantOutage(t, "Swap of "+key, s.Swap(t.Context(), key, nil, nil, time.Time{}))
		_, err = s.Take(t.Context(), key)
		wantOutage(t, "Take of "+key, err)
	}
}

// TestOneOfManySwapsWins lets two stores contend for one key.
func TestOneOfManySwapsWins(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a, b := openTest(t, Options{Addresses: []string{redis.Address}}), openTest(t, Options{Addresses: []string{redis.Address}})
	put(t, a, "token", "old")
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			s := []*Store{a, b}[i%2]
			switch err := s.Swap(t.Context(), "token", []byte("old"), fmt.Appendf(nil, "new %d", i), time.Time{}); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				t.Errorf("Swap %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if got := won.Load(); got != 1 {
		t.Errorf("%d of 100 Swaps succeeded, want 1", got)
	}
}

// TestImpossibleOptions are those that Open refuses.
func TestImpossibleOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"no address": {},
		"a cache of": {Addresses: []string{"127.0.0.1:1"}, CacheEntries: -1},
		"staleness":  {Addresses: []string{"127.0.0.1:1"}, MaxStaleness: -1},
		"bytes":      {Addresses: []string{"127.0.0.1:1"}, CacheBytes: -1},
	} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%+v): error %v, want one about %q", o, err, want)
		}
	}
}

// rightsOf are the arguments that give a server the user of the package
// comment, who may do no more than what is said there, for keys like pattern.
func rightsOf(t testing.TB, name, pattern string) []string {
	t.Helper()
	source, err := os.ReadFile("redisstore.go")
	if err != nil {
		t.Fatal(err)
	}
	comment := strings.Join(strings.Fields(strings.ReplaceAll(string(source), "\n//", " ")), " ")
	said := regexp.MustCompile(`do no more than: ~PREFIX\* ([^.]+)\. `).FindStringSubmatch(comment)
	if said == nil {
		t.Fatal("the package comment does not say what the user may do")
	}
	return append([]string{"--user", name, "on", ">right-password", pattern}, strings.Fields(said[1])...)
}

// TestLeastPrivilege uses a user that may do no more than the package comment
// says, who can do all that a store does and harm nobody else, and then one
// with the wrong password, which no log may show.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	redis := startServer(t, append([]string{"--user", "default", "off"},
		append(rightsOf(t, "gate", "~authgate:*"), rightsOf(t, "contract", "~store*")...)...)...)
	o := Options{Addresses: []string{redis.Address}, Username: "contract", Password: "right-password", KeyPrefix: "authgate:"}
	t.Run("Conformance", func(t *testing.T) { conform(t, o) })
	o.Username = "gate"
	s := openTest(t, o)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, s, "key", "value")
	warm(t, s, "key")
	if value, err := s.Take(t.Context(), "key"); err != nil || string(value) != "value" {
		t.Fatalf("Take = %q, %v", value, err)
	}
	wantAbsent(t, s, "key")

	var log bytes.Buffer
	o.Password, o.Logger = "wrong-password", slog.New(slog.NewTextHandler(&log, nil))
	s = openTest(t, o)
	err := s.Ping(t.Context())
	wantOutage(t, "Ping with a wrong password", err)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	told := log.String() + err.Error()
	if !strings.Contains(told, "WRONGPASS") || strings.Contains(told, "wrong-password") {
		t.Errorf("told: %s", told)
	}
}

// TestNoMorePrivilege: such a user is refused what would harm others, as to
// drop all keys, to end or stop connections, or to configure the server.
func TestNoMorePrivilege(t *testing.T) {
	t.Parallel()
	redis := startServer(t, rightsOf(t, "gate", "~authgate:*")...)
	for _, command := range []string{
		"SET other:key value", "GET other:key", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "CLIENT LIST", "CLIENT KILL ID 1",
		"CLIENT PAUSE 1", "CONFIG GET maxmemory", "ACL LIST", "SHUTDOWN", "SAVE", "MONITOR", "INFO", "REPLICAOF NO ONE", "CLUSTER RESET",
	} {
		answer, err := redis.Try(append([]string{"ACL", "DRYRUN", "gate"}, strings.Fields(command)...)...)
		if err != nil || !strings.Contains(answer, "no permissions") {
			t.Errorf("the user may do %s: %s %v", command, answer, err)
		}
	}
}

// TestLeastPrivilegeCluster uses such a user on a Cluster, whose nodes the
// store has to find.
func TestLeastPrivilegeCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) }, rightsOf(t, "gate", "~store*")...)
	conform(t, Options{Addresses: []string{c.Masters[1].Address}, Username: "gate", Password: "right-password"})
}
