package redisstore

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store/redisstore/redistest"
)

// TestSentinelFailover makes the master a replica while it lives, and then
// kills its successor: after each the store goes on with the new master, and
// reads nothing that was true of the old one only.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	first := startServer(t)
	host, port, _ := net.SplitHostPort(first.Address)
	second := startServer(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	var sentinels []string
	var watch *redistest.Server
	for range 3 {
		watch = redistest.StartSentinel(t, freeAddress(t), first)
		sentinels = append(sentinels, watch.Address)
	}
	eventually(t, 20*time.Second, "the Sentinels know each other and the replica", func() error {
		if _, err := redistest.Command(watch.Address, "SENTINEL", "CKQUORUM", "gate"); err != nil {
			return err
		}
		if others := watch.Do(t, "INFO", "sentinel"); !strings.Contains(others, "slaves=1,sentinels=3") {
			return errors.New(others)
		}
		return nil
	})
	o := Options{Addresses: sentinels, SentinelMaster: "gate"}
	s, other := openTest(t, o), openTest(t, o)

	steps := []struct {
		change  func()
		becomes *redistest.Server
	}{
		{func() { watch.Do(t, "SENTINEL", "FAILOVER", "gate") }, second},
		{func() { second.Kill() }, first},
	}
	for i, step := range steps {
		before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
		eventually(t, 20*time.Second, "a value is set", func() error {
			return errors.Join(other.Put(t.Context(), "key", []byte(before), time.Time{}), holds(t, s, "key", before))
		})
		warm(t, s, "key")
		step.change()
		eventually(t, 20*time.Second, "the replica becomes the master", func() error {
			if role, err := redistest.Command(step.becomes.Address, "INFO", "replication"); !strings.Contains(role, "role:master") {
				return fmt.Errorf("role %q: %v", role, err)
			}
			return nil
		})
		promoted := time.Now()
		eventually(t, 20*time.Second, "the other store writes", func() error {
			err := other.Put(t.Context(), "key", []byte(after), time.Time{})
			if value, _ := redistest.Command(step.becomes.Address, "GET", "key"); err == nil && value != encode([]byte(after), never) {
				return errors.New("written to the old master")
			}
			return err
		})
		eventually(t, defaultMaxStaleness, "the store sees the change", func() error { return holds(t, s, "key", after) })
		t.Logf("step %d: changed and seen %v after the promotion", i, time.Since(promoted))
		eventually(t, 3*time.Second, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 { // the old master has to follow before it can be promoted again
			eventually(t, 20*time.Second, "the old master follows", func() error {
				state, err := redistest.Command(first.Address, "INFO", "replication")
				if !strings.Contains(state, "master_link_status:up") {
					return fmt.Errorf("%s %v", state, err)
				}
				return nil
			})
		}
	}
}
