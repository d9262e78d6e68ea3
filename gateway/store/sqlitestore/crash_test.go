package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store"
)

// crashChild names the database in the environment of the child process that
// TestKilledProcessForgetsNothing starts from this test binary.
const crashChild = "AUTHGATE_TEST_CRASH_DATABASE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled takes key after key through its life, in several goroutines. It
// returns only on failure.
func writeUntilKilled(path, round string) error {
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		return err
	}
	failure := make(chan error)
	for writer := range 8 {
		go func() {
			for n := 0; ; n++ {
				if err := live(s, fmt.Sprintf("%s/%d/%d", round, writer, n), n); err != nil {
					failure <- err
				}
			}
		}()
	}
	return <-failure
}

// live takes one key through its life, and prints each stage once the store has
// acknowledged it: 1 and 2, which are the values, and 3, which is the end. Every
// third key stays.
func live(s *Store, key string, n int) error {
	ctx := context.Background()
	for stage, write := range []func() error{
		func() error { return s.Put(ctx, key, []byte("1"), time.Time{}) },
		func() error { return s.Swap(ctx, key, []byte("1"), []byte("2"), time.Time{}) },
		func() error {
			if n%2 == 0 {
				return s.Delete(ctx, key)
			}
			_, err := s.Take(ctx, key)
			return err
		},
	} {
		if stage == 2 && n%3 == 2 {
			break
		}
		if err := write(); err != nil {
			return err
		}
		if _, err := fmt.Printf("%s %d\n", key, stage+1); err != nil {
			return err
		}
	}
	return nil
}

// TestKilledProcessForgetsNothing kills a writing process several times, and looks
// for every write that it had acknowledged.
func TestKilledProcessForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	acknowledged := make(map[string]int) // key: last stage
	for round := range 6 {
		crash(t, path, round, acknowledged)
		s := openTest(t, Options{Path: path})
		for key, stage := range acknowledged {
			// The process may have been killed after the next write.
			if found := stageOf(t, s, key); found != stage && found != stage+1 {
				t.Errorf("key %s is at stage %d, but stage %d was acknowledged", key, found, stage)
			}
		}
		wantError(t, "Close", s.Close(), nil)
	}
}

// crash starts a writing process, kills it after a random number of
// acknowledgements, and records the last one of each key.
func crash(t *testing.T, path string, round int, acknowledged map[string]int) {
	t.Helper()
	child := exec.Command(os.Args[0], fmt.Sprint(round))
	child.Env = append(os.Environ(), crashChild+"="+path)
	child.Stderr = &strings.Builder{}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill() }()
	lines, killAfter := bufio.NewReader(stdout), 1+rand.IntN(200)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line without its end is no acknowledgement
		}
		var key string
		var stage int
		if _, err := fmt.Sscanf(line, "%s %d\n", &key, &stage); err != nil {
			t.Fatalf("the child said %q: %v", line, err)
		}
		acknowledged[key] = stage
		if n == killAfter {
			wantError(t, "kill", child.Process.Kill(), nil)
		}
	}
	if err := child.Wait(); child.ProcessState.Exited() {
		t.Fatalf("the child ended by itself with %v and said %q", err, child.Stderr)
	}
}

// stageOf returns the last stage of key that the store holds.
func stageOf(t *testing.T, s *Store, key string) int {
	t.Helper()
	switch value, err := s.Get(t.Context(), key); {
	case errors.Is(err, store.ErrNotFound):
		return 3
	case err == nil && len(value) == 1:
		return int(value[0] - '0')
	default:
		t.Fatalf("Get(%q) = %q, %v", key, value, err)
		return 0
	}
}
