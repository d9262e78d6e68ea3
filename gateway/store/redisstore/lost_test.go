package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"authgate/gateway/store"
	"authgate/gateway/store/redisstore/redistest"
)

// TestLostAnswers: Redis carries out a write, and the connection ends before
// its answer is there. Done again it would find its own traces, and say that
// somebody else was faster.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, Options{Addresses: []string{way.Address}}), openTest(t, Options{Addresses: []string{redis.Address}})
	if err := other.Swap(t.Context(), "script", nil, nil, time.Time{}); err != nil { // which is known from now on
		t.Fatal(err)
	}
	const none = ""
	for name, test := range map[string]struct {
		before string
		write  func() error
		after  string
	}{
		"take":   {"old", func() error { _, err := s.Take(t.Context(), "take"); return err }, none},
		"swap":   {"old", func() error { return s.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{}) }, "new"},
		"create": {none, func() error { return s.Swap(t.Context(), "create", nil, []byte("new"), time.Time{}) }, "new"},
	} {
		if test.before != none {
			put(t, other, name, test.before)
		}
		eventually(t, "the store works", func() error { return s.Ping(t.Context()) })
		way.Mute()
		result := make(chan error, 1)
		go func() { result <- test.write() }()
		eventually(t, name+" happens", func() error {
			value, err := other.Get(t.Context(), name)
			if string(value) != test.after {
				return fmt.Errorf("Get = %q, %v", value, err)
			}
			return nil
		})
		way.Mend() // which ends the connection
		if err := <-result; err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s, whose answer was lost: %v, want an error that leaves it open", name, err)
		}
	}
}

// TestForgottenConnection: the network loses what is sent on the connection
// for good and tells nobody, though a new one would work.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, Options{Addresses: []string{way.Address}}), openTest(t, Options{Addresses: []string{redis.Address}})
	for range 3 {
		put(t, other, "key", "before")
		eventually(t, "the value is seen", func() error { return holds(t, s, "key", "before") })
		warm(t, s, "key")
		way.Forget()
		put(t, other, "key", "after")
		eventually(t, "reads and writes work again", func() error {
			return errors.Join(holds(t, s, "key", "after"), s.Put(t.Context(), "new", nil, time.Time{}))
		})
	}
}

// TestHangUp: the caller whose call makes the connection leaves, and others
// wait for that connection.
func TestHangUp(t *testing.T) {
	t.Parallel()
	address, roots := startTLS(t) // whose handshake is a part of connecting
	way := redistest.StartProxy(t, address)
	s := openTest(t, Options{
		Addresses: []string{way.Address}, TLS: &tls.Config{RootCAs: roots},
		MaxStaleness: time.Hour, // contact is not confirmed meanwhile
	})
	put(t, s, "key", "value")
	way.Mend() // which ends the connection
	release := way.Hold()
	defer release()

	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	left := make(chan error, 1)
	go func() { _, err := s.Get(ctx, "cold"); left <- err }()
	eventually(t, "a connection is made", func() error {
		if way.Connections() == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	var waiting, all sync.WaitGroup
	for i := range 20 {
		waiting.Add(1)
		all.Go(func() {
			err := s.link.do(t.Context(), func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
				waiting.Done()
				return c.Do(ctx, c.B().Set().Key(fmt.Sprint(i)).Value("").Build())
			}).Error()
			if err != nil {
				t.Errorf("the write of one who stays: %v", err)
			}
		})
	}
	waiting.Wait()
	hangUp()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the read of the one who left: %v", err)
	}
	release()
	all.Wait()
}
