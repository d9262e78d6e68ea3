package redisstore

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startSentinel starts a Sentinel that watches master under the name "gate".
func startSentinel(t *testing.T, master *server) *server {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	host, masterPort, _ := net.SplitHostPort(master.address)
	dir := t.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
port %s
bind 127.0.0.1
dir %s
logfile sentinel.log
sentinel monitor gate %s %s 2
sentinel down-after-milliseconds gate 500
sentinel failover-timeout gate 1000
`, port, dir, host, masterPort), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{address: address, args: []string{config, "--sentinel"}}
	s.run(t)
	t.Cleanup(s.kill)
	return s
}

// TestSentinelFailover makes the master a replica while it lives, and then
// kills its successor: after each the store goes on with the new master, and
// reads nothing that was true of the old one only.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	first := startServer(t)
	host, port, _ := net.SplitHostPort(first.address)
	second := startServer(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	var sentinels []string
	var watch *server
	for range 3 {
		watch = startSentinel(t, first)
		sentinels = append(sentinels, watch.address)
	}
	eventually(t, 20*time.Second, "the Sentinels know each other and the replica", func() error {
		if _, err := command(watch.address, "SENTINEL", "CKQUORUM", "gate"); err != nil {
			return err
		}
		if others := watch.do(t, "INFO", "sentinel"); !strings.Contains(others, "slaves=1,sentinels=3") {
			return errors.New(others)
		}
		return nil
	})
	o := Options{Addresses: sentinels, SentinelMaster: "gate"}
	s, other := openTest(t, o), openTest(t, o)

	steps := []struct {
		change  func()
		becomes *server
	}{
		{func() { watch.do(t, "SENTINEL", "FAILOVER", "gate") }, second},
		{func() { second.kill() }, first},
	}
	for i, step := range steps {
		before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
		eventually(t, 20*time.Second, "a value is set", func() error {
			return errors.Join(other.Put(t.Context(), "key", []byte(before), time.Time{}), holds(t, s, "key", before))
		})
		warm(t, s, "key")
		step.change()
		eventually(t, 20*time.Second, "the replica becomes the master", func() error {
			if role, err := command(step.becomes.address, "INFO", "replication"); !strings.Contains(role, "role:master") {
				return fmt.Errorf("role %q: %v", role, err)
			}
			return nil
		})
		promoted := time.Now()
		eventually(t, 20*time.Second, "the other store writes", func() error {
			err := other.Put(t.Context(), "key", []byte(after), time.Time{})
			if value, _ := command(step.becomes.address, "GET", "key"); err == nil && value != encode([]byte(after), never) {
				return errors.New("written to the old master")
			}
			return err
		})
		eventually(t, defaultMaxStaleness, "the store sees the change", func() error { return holds(t, s, "key", after) })
		t.Logf("step %d: changed and seen %v after the promotion", i, time.Since(promoted))
		eventually(t, 3*time.Second, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 { // the old master has to follow before it can be promoted again
			eventually(t, 20*time.Second, "the old master follows", func() error {
				state, err := command(first.address, "INFO", "replication")
				if !strings.Contains(state, "master_link_status:up") {
					return fmt.Errorf("%s %v", state, err)
				}
				return nil
			})
		}
	}
}
