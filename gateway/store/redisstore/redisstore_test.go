package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

var (
	_ store.Pinger = (*Store)(nil)
	_ store.Clock  = (*Store)(nil)
)

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

// TestAdvice: why there is no connection comes with the keys to look at, and those alone.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"WRONGPASS invalid username-password pair or user is disabled.":                   "correct store.username and store.password",
		"NOAUTH HELLO must be called with the client authenticated":                       "correct store.username and store.password",
		"NOPERM this user has no permissions to run the 'get' command":                    "give the user of store.username this right",
		"ERR AUTH <password> called without any password configured for the default user": "remove store.password",
		"dial tcp 127.0.0.1:1: connect: connection refused":                               "start Redis, or correct store.addresses",
	} {
		err := errors.New(text)
		got := advise(err)
		if others := strings.Contains(got.Error(), "addresses") != strings.Contains(want, "addresses"); others ||
			!errors.Is(got, err) || !strings.HasPrefix(got.Error(), text+"; ") || !strings.Contains(got.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, got, want)
		}
	}
}

// TestWarmReadsAllocateNothing and need no round trip.
func TestWarmReadsAllocateNothing(t *testing.T) {
	redis := startFake(t, nil)
	s := openFake(t, redis, Options{KeyPrefix: "authgate:"})
	storetest.Put(t, s, "present", "value")
	storetest.WantValue(t, s, "present", "value")
	storetest.WantNone(t, s, "absent")
	ctx := t.Context()
	for _, key := range []string{"present", "absent"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = s.Get(ctx, key) }); n != 0 {
			t.Errorf("Get(%q) allocates %v times", key, n)
		}
	}
	if n, _ := redis.count("GET"); n != 2 {
		t.Errorf("Redis got %d GET, want those of the two cold reads", n)
	}
}

// TestCachedEntriesExpire moves the clock past the expiry of a warm entry.
func TestCachedEntriesExpire(t *testing.T) {
	t.Parallel()
	redis, clock := startFake(t, nil), clocktest.New()
	s := openFake(t, redis, Options{Now: clock.Now})
	must.Do(t, s.Put(t.Context(), "key", []byte("value"), clock.Now().Add(time.Second)))
	storetest.WantValue(t, s, "key", "value")
	clock.Advance(time.Second - 1)
	storetest.WantValue(t, s, "key", "value")
	clock.Advance(1)
	storetest.WantNone(t, s, "key")
	if n, _ := redis.count("GET"); n != 1 {
		t.Errorf("Redis got %d GET, want 1", n)
	}
}

// TestPushes: a push takes the changed keys, and no others, from the cache.
func TestPushes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ pushed, gone, kept []string }{
		"one key":        {[]string{"authgate:a"}, []string{"a"}, []string{"b", "absent"}},
		"an absent key":  {[]string{"authgate:absent"}, []string{"absent"}, []string{"a", "b"}},
		"several keys":   {[]string{"authgate:a", "authgate:b"}, []string{"a", "b"}, []string{"absent"}},
		"another prefix": {[]string{"other:a", "a", "authgate:b"}, []string{"b"}, []string{"a", "absent"}},
		"all keys":       {nil, []string{"a", "b", "absent"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := startFake(t, nil)
			s := openFake(t, redis, Options{KeyPrefix: "authgate:"})
			storetest.Put(t, s, "a", "value")
			storetest.Put(t, s, "b", "value")
			storetest.WantValue(t, s, "a", "value")
			storetest.WantValue(t, s, "b", "value")
			storetest.WantNone(t, s, "absent")
			redis.push(t, test.pushed...)
			for _, key := range test.gone {
				must.Eventually(t, "the push of "+key+" arrives", func() bool { return !cached(s, key) })
			}
			for _, key := range test.kept {
				if !cached(s, key) {
					t.Errorf("%s is no longer cached", key)
				}
			}
		})
	}
}

// TestColdReadIsOvertaken: a push during a cold read keeps what the read found out
// of the cache.
func TestColdReadIsOvertaken(t *testing.T) {
	t.Parallel()
	redis := startFake(t, nil)
	s := openFake(t, redis, Options{})
	storetest.Put(t, s, "key", "value")
	redis.change(func() { redis.overtakes = true })
	storetest.WantValue(t, s, "key", "value")
	if cached(s, "key") {
		t.Error("the value is cached")
	}
}

// TestOwnWritesNeedNoPush: a store reads what it wrote, before any push of it.
func TestOwnWritesNeedNoPush(t *testing.T) {
	t.Parallel()
	s := openFake(t, startFake(t, nil), Options{})
	writes := map[string]func() error{
		"put":    func() error { return s.Put(t.Context(), "put", []byte("new"), time.Time{}) },
		"swap":   func() error { return s.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{}) },
		"take":   func() error { _, err := s.Take(t.Context(), "take"); return err },
		"delete": func() error { return s.Delete(t.Context(), "delete") },
	}
	for name, write := range writes {
		storetest.Put(t, s, name, "old")
		storetest.WantValue(t, s, name, "old")
		if err := write(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "put" || name == "swap" {
			storetest.WantValue(t, s, name, "new")
		} else {
			storetest.WantNone(t, s, name)
		}
	}
}

// TestCacheStartsOver: the cache is empty once a node has another role than when
// the cache was filled, and before a new connection can be used.
func TestCacheStartsOver(t *testing.T) {
	t.Parallel()
	redis := startFake(t, nil)
	s := openFake(t, redis, Options{})
	beat := func() {
		must.Do(t, s.link.beat(t.Context(), s.link.state.Load().client))
	}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"contact was confirmed", beat, true},
		{"the node has another role", func() { redis.change(func() { redis.role = "slave" }); beat() }, false},
		{"contact was confirmed again", beat, true},
		{"there is another connection", func() {
			conn := must.Get(s.link.dial(t.Context(), redis.address, &net.Dialer{}, nil))(t)
			conn.Close()
		}, false},
	} {
		storetest.WantNone(t, s, "key")
		step.do()
		if got := cached(s, "key"); got != step.want {
			t.Errorf("cached after %s: %t, want %t", step.what, got, step.want)
		}
	}
}

// TestOneConnection: all calls share one connection, because an answer on one
// proves nothing about the pushes on another.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	redis := startFake(t, nil)
	s := openFake(t, redis, Options{})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			storetest.Put(t, s, fmt.Sprint(i), "value")
			storetest.WantValue(t, s, fmt.Sprint(i), "value")
		})
	}
	all.Wait()
	if _, n := redis.count(""); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// lentTLS returns TLS configurations of a server at 127.0.0.1 and of its clients.
func lentTLS(t *testing.T) (ofServer, ofClient *tls.Config) {
	lender := httptest.NewTLSServer(nil)
	defer lender.Close()
	roots := x509.NewCertPool()
	roots.AddCert(lender.Certificate())
	return &tls.Config{Certificates: lender.TLS.Certificates}, &tls.Config{RootCAs: roots}
}

// TestTLS: a store reaches a Redis with TLS only with the authority that issued its certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	ofServer, ofClient := lentTLS(t)
	redis := startFake(t, ofServer)
	storetest.Put(t, openFake(t, redis, Options{TLS: ofClient}), "key", "value")
	for name, config := range map[string]*tls.Config{"no TLS": nil, "another authority": {RootCAs: x509.NewCertPool()}} {
		if err := openFake(t, redis, Options{TLS: config}).Ping(t.Context()); err == nil {
			t.Errorf("%s: Ping succeeds", name)
		}
	}
}

// TestHangUp: the caller whose call makes the connection leaves, and others
// wait for that connection.
func TestHangUp(t *testing.T) {
	t.Parallel()
	ofServer, ofClient := lentTLS(t)
	redis := startFake(t, ofServer)
	s := openFake(t, redis, Options{TLS: ofClient})
	storetest.Put(t, s, "key", "value")
	release := redis.hold() // the handshake, which is a part of connecting
	defer release()
	_, before := redis.count("")
	redis.cut()

	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	left := make(chan error, 1)
	go func() { _, err := s.Get(ctx, "cold"); left <- err }()
	must.Eventually(t, "a connection is made", func() bool { _, now := redis.count(""); return now > before })
	var waiting, all sync.WaitGroup
	for i := range 20 {
		waiting.Add(1)
		all.Go(func() {
			err := s.link.do(t.Context(), func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
				waiting.Done()
				return c.Do(ctx, c.B().Set().Key(fmt.Sprint(i)).Value("").Build())
			}).Error()
			if err != nil {
				t.Errorf("the write of a caller who stays: %v", err)
			}
		})
	}
	waiting.Wait()
	hangUp()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the read of the caller who left: %v", err)
	}
	release()
	all.Wait()
}
