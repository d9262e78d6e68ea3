package redisstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
	"authgate/internal/test/storetest"
)

// openTest opens a store that ends with the test.
func openTest(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s := must.Get(redisstore.Open(t.Context(), o))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return s
}

// at returns the options for a store on the servers at these addresses.
func at(addresses ...string) redisstore.Options {
	return redisstore.Options{Addresses: addresses}
}

// startServer starts a Redis at a free address, with more arguments.
func startServer(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, porttest.Address(t), args...)
}

// none is what a key without a value holds.
const none = ""

// holds returns an error unless key has the live value want.
func holds(t testing.TB, s *redisstore.Store, key, want string) error {
	got, err := s.Get(t.Context(), key)
	if want == none && errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || string(got) != want {
		return fmt.Errorf("Get(%q) = %q, %w; want %q", key, got, err, want)
	}
	return nil
}

// wantOutage reports an error unless err says that the store could not answer.
func wantOutage(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		t.Errorf("%s: error %v, want one that says that Redis does not answer", what, err)
	}
}

// eventually waits until check returns nil. How long that takes depends on the
// machine: benchmarks measure how long an outage of Redis lasts.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	redistest.Eventually(t, redistest.Patience, what, check)
}

// warm reads key until the store answers from its cache, without a question to
// the servers, which must be those that the store reads from.
func warm(t testing.TB, s *redisstore.Store, key string, servers ...*redistest.Server) {
	t.Helper()
	eventually(t, "a warm read of "+key, func() error {
		if asked(t, s, key, servers...) > 0 {
			return errors.New("the store asks Redis")
		}
		return nil
	})
}

// asked returns how many reads of keys came to the servers while s read key.
func asked(t testing.TB, s *redisstore.Store, key string, servers ...*redistest.Server) int {
	t.Helper()
	before := calls(t, "get", servers...)
	_, _ = s.Get(t.Context(), key)
	return calls(t, "get", servers...) - before
}

// calls returns how often the servers have carried out a command.
func calls(t testing.TB, command string, servers ...*redistest.Server) (sum int) {
	t.Helper()
	for _, server := range servers {
		_, rest, _ := strings.Cut(server.Do(t, "INFO", "commandstats"), "\ncmdstat_"+command+":calls=")
		var n int
		_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &n) // without a call there is no number
		sum += n
	}
	return sum
}

// conform runs the suite, with a prefix for each store that it opens.
func conform(t *testing.T, o redisstore.Options) {
	var stores atomic.Int64
	storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Store {
		mine := o
		mine.Now = now
		mine.KeyPrefix = fmt.Sprintf("store %d:", stores.Add(1))
		return openTest(t, mine)
	})
}

// TestConformance runs the suite with a usual cache, with one of one entry in each
// shard, and with one that is never trusted.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]redisstore.Options{
		"warm": {}, "cold": {CacheEntries: 1}, "untrusted": {MaxStaleness: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Addresses = []string{startServer(t).Address}
			conform(t, o)
		})
	}
}

// stored is what Redis holds for a value that stays.
func stored(value string) string { return "\x01\x7f\xff\xff\xff\xff\xff\xff\xff" + value }

// TestWhatRedisHolds looks at the keys and their lifetimes behind the store, and
// puts under the prefix what no store has written.
func TestWhatRedisHolds(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	o := at(redis.Address)
	o.KeyPrefix = "authgate:"
	o.Now = time.Now // the clock of the expiries; that of Redis is known only to half a round trip
	s := openTest(t, o)
	storetest.Put(t, s, "stays", "value")
	storetest.Put(t, s, "expires", "value", time.Now().Add(time.Hour))
	must.Do(t, s.Swap(t.Context(), "swapped", nil, []byte("value"), time.Now().Add(time.Hour)))
	must.Do(t, s.Ping(t.Context()))
	for command, want := range map[string]string{
		"DBSIZE": ":3", "GET authgate:stays": stored("value"), "PTTL authgate:stays": ":-1",
	} {
		if got := redis.Do(t, strings.Fields(command)...); got != want {
			t.Errorf("%s = %q, want %q", command, got, want)
		}
	}
	for _, key := range []string{"authgate:expires", "authgate:swapped"} {
		var ttl int64
		fmt.Sscanf(redis.Do(t, "PTTL", key), ":%d", &ttl)
		if left := time.Duration(ttl) * time.Millisecond; left < time.Hour || left > time.Hour+time.Minute {
			t.Errorf("%s is removed after %v, want an hour and at most a minute more", key, left)
		}
	}

	redis.Do(t, "SET", "authgate:short", "x")
	redis.Do(t, "SET", "authgate:long", "something else altogether")
	redis.Do(t, "LPUSH", "authgate:list", "x")
	for _, key := range []string{"short", "long", "list"} {
		_, err := s.Get(t.Context(), key)
		wantOutage(t, "Get of "+key, err)
		wantOutage(t, "Swap of "+key, s.Swap(t.Context(), key, nil, nil, time.Time{}))
		_, err = s.Take(t.Context(), key)
		wantOutage(t, "Take of "+key, err)
	}
}

// rightsOf are the arguments that give a server the user of the package comment,
// who may do no more than what is said there, for keys like pattern.
func rightsOf(t testing.TB, name, pattern string) []string {
	t.Helper()
	source := must.Get(os.ReadFile("../../gateway/store/redisstore/redisstore.go"))(t)
	comment := strings.Join(strings.Fields(strings.ReplaceAll(string(source), "\n//", " ")), " ")
	said := regexp.MustCompile(`do no more than: ~PREFIX\* ([^.]+)\. `).FindStringSubmatch(comment)
	if said == nil {
		t.Fatal("the package comment does not say what the user may do")
	}
	return append([]string{"--user", name, "on", ">right-password", pattern}, strings.Fields(said[1])...)
}

// TestLeastPrivilege uses a user with the rights in the package comment, which are
// all that a store needs, and then a wrong password, which no log may show.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	redis := startServer(t, append([]string{"--requirepass", "of another user"}, rightsOf(t, "gate", "~store*")...)...)
	o := at(redis.Address)
	o.Username, o.Password, o.KeyPrefix = "gate", "right-password", "store:"
	t.Run("Conformance", func(t *testing.T) { conform(t, o) })
	s := openTest(t, o)
	storetest.Put(t, s, "key", "value")
	warm(t, s, "key", redis)

	log := &logtest.Buffer{}
	o.Password, o.Logger = "wrong-password", slog.New(slog.NewJSONHandler(log, nil))
	s = openTest(t, o)
	err := s.Ping(t.Context())
	wantOutage(t, "Ping with a wrong password", err)
	if told := log.String() + err.Error(); !strings.Contains(told, "WRONGPASS") ||
		strings.Contains(told, "wrong-password") {
		t.Errorf("told: %s", told)
	}
}

// TestNoMorePrivilege: such a user may not do what would harm others, such as to
// drop all keys, to end connections, or to configure the server.
func TestNoMorePrivilege(t *testing.T) {
	t.Parallel()
	redis := startServer(t, rightsOf(t, "gate", "~authgate:*")...)
	for _, command := range []string{
		"SET other:key value", "GET other:key", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "CLIENT LIST",
		"CLIENT KILL ID 1", "CLIENT PAUSE 1", "CONFIG GET maxmemory", "ACL LIST", "SHUTDOWN", "SAVE", "MONITOR",
		"REPLICAOF NO ONE", "CLUSTER RESET",
	} {
		answer, err := redis.Try(append([]string{"ACL", "DRYRUN", "gate"}, strings.Fields(command)...)...)
		if err != nil || !strings.Contains(answer, "no permissions") {
			t.Errorf("the user may do %s: %s %v", command, answer, err)
		}
	}
}

// TestEvictingRedis: with the rights that are documented, the store finds out whether
// Redis may evict keys.
func TestEvictingRedis(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]int{"noeviction": 0, "allkeys-lru": 1} {
		redis, log := startServer(t, append(rightsOf(t, "gate", "~*"), "--maxmemory-policy", policy)...), &logtest.Buffer{}
		o := at(redis.Address)
		o.Username, o.Password, o.Logger = "gate", "right-password", slog.New(slog.NewJSONHandler(log, nil))
		s := openTest(t, o)
		must.Do(t, s.Ping(t.Context()))
		must.Do(t, s.Close())
		if n := strings.Count(log.String(), "redis may evict keys"); n != want || strings.Contains(log.String(), "+info") {
			t.Errorf("%s: the log tells %d times:\n%s", policy, n, log)
		}
	}
}

// TestClockForbidden: the user at Redis may not ask for the time. The store uses
// the local clock, and logs once how to change that.
func TestClockForbidden(t *testing.T) {
	t.Parallel()
	redis := startServer(t, strings.Fields("--user default on nopass ~* &* +@all -time")...)
	log, local := &logtest.Buffer{}, time.Now().Add(-time.Hour)
	o := at(redis.Address)
	o.Logger, o.Local = slog.New(slog.NewJSONHandler(log, nil)), func() time.Time { return local }
	s := openTest(t, o)
	storetest.Put(t, s, "key", "value")
	storetest.WantValue(t, s, "key", "value")
	if now := s.Now(); !now.Equal(local) {
		t.Errorf("the time is %v, want %v", now, local)
	}
	must.Do(t, s.Close())
	if n := strings.Count(log.String(), "+time"); n != 1 {
		t.Errorf("the log tells %d times:\n%s", n, log)
	}
}

// TestEveryChangeIsPushed makes each kind of change on one store to a key that
// another one has in its cache, and one past both stores. The other one confirms
// contact too seldom to learn of them in another way.
func TestEveryChangeIsPushed(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a, slow := openTest(t, at(redis.Address)), at(redis.Address)
	slow.MaxStaleness = 24 * time.Hour
	b := openTest(t, slow)
	for name, test := range map[string]struct {
		before string
		change func() error
		after  string
	}{
		"put":    {"old", func() error { return a.Put(t.Context(), "put", []byte("new"), time.Time{}) }, "new"},
		"create": {none, func() error { return a.Put(t.Context(), "create", []byte("new"), time.Time{}) }, "new"},
		"swap": {"old", func() error {
			return a.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{})
		}, "new"},
		"first":  {none, func() error { return a.Swap(t.Context(), "first", nil, []byte("new"), time.Time{}) }, "new"},
		"take":   {"old", func() error { _, err := a.Take(t.Context(), "take"); return err }, none},
		"delete": {"old", func() error { return a.Delete(t.Context(), "delete") }, none},
		"dead":   {"old", func() error { return a.Put(t.Context(), "dead", nil, time.Now()) }, none},
		"flush":  {"old", func() error { redis.Do(t, "FLUSHALL"); return nil }, none},
	} {
		for range 5 {
			must.Do(t, a.Delete(t.Context(), name))
			if test.before != none {
				storetest.Put(t, a, name, test.before)
			}
			eventually(t, "the value is seen", func() error { return holds(t, b, name, test.before) })
			warm(t, b, name, redis)
			must.Do(t, test.change())
			eventually(t, name+" is seen", func() error { return holds(t, b, name, test.after) })
		}
	}
}

// TestTrackingTableOverflows lets Redis remember far fewer keys than are read: it
// pushes those that it forgets, and what is read stays right.
func TestTrackingTableOverflows(t *testing.T) {
	t.Parallel()
	redis := startServer(t, "--tracking-table-max-keys", "10")
	a, b := openTest(t, at(redis.Address)), openTest(t, at(redis.Address))
	const keys = 100
	for i := range 2 * keys { // the second time all have changed
		key, value := fmt.Sprint(i%keys), fmt.Sprint(i)
		storetest.Put(t, a, key, value)
		eventually(t, "the change is seen", func() error { return holds(t, b, key, value) })
	}
	eventually(t, "the store forgets what Redis has forgotten", func() error {
		reads := 0
		for i := range keys {
			reads += asked(t, b, fmt.Sprint(i), redis)
		}
		if reads < keys-20 {
			return fmt.Errorf("%d of %d keys were cached, and Redis remembers 10", keys-reads, keys)
		}
		return nil
	})
}
