package sqlitestore

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
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

// writeUntilKilled puts key after key, deletes every second one, and prints each
// with its end once the store has acknowledged that. It returns only on failure.
func writeUntilKilled(path, round string) error {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		return err
	}
	failure := make(chan error)
	for writer := range 8 {
		go func() {
			for n := 0; ; n++ {
				key, deleted := fmt.Sprintf("%s/%d/%d", round, writer, n), n%2 == 0
				err := s.Put(ctx, key, []byte("value"), time.Time{})
				if err == nil && deleted {
					err = s.Delete(ctx, key)
				}
				if err != nil {
					failure <- err
					return
				}
				fmt.Println(key, deleted)
			}
		}()
	}
	return <-failure
}

// TestKilledProcessForgetsNothing kills a writing process several times, and looks
// for every write that it had acknowledged.
func TestKilledProcessForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	acknowledged := make(map[string]bool) // key: whether it was deleted
	for round := range 6 {
		crash(t, path, round, acknowledged)
		s := openTest(t, Options{Path: path})
		for key, deleted := range acknowledged {
			if deleted {
				storetest.WantNone(t, s, key)
			} else {
				storetest.WantValue(t, s, key, "value")
			}
		}
		wantError(t, "Close", s.Close(), nil)
	}
}

// crash starts a writing process, kills it after a random number of
// acknowledgements, and records them.
func crash(t *testing.T, path string, round int, acknowledged map[string]bool) {
	t.Helper()
	child := exec.Command(os.Args[0], fmt.Sprint(round))
	child.Env = append(os.Environ(), crashChild+"="+path)
	child.Stderr = &strings.Builder{}
	stdout := must.Get(child.StdoutPipe())(t)
	must.Do(t, child.Start())
	defer func() { _ = child.Process.Kill() }()
	lines, killAfter := bufio.NewReader(stdout), 1+rand.IntN(100)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line without its end is no acknowledgement
		}
		var key string
		var deleted bool
		if _, err := fmt.Sscanln(line, &key, &deleted); err != nil {
			t.Fatalf("the child said %q: %v", line, err)
		}
		acknowledged[key] = deleted
		if n == killAfter {
			wantError(t, "kill", child.Process.Kill(), nil)
		}
	}
	if err := child.Wait(); child.ProcessState.Exited() {
		t.Fatalf("the child ended by itself with %v and said %q", err, child.Stderr)
	}
}
