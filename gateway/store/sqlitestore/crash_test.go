package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

// The life of a key: it is put, then swapped, then deleted or taken.
const (
	stagePut = 1 + iota
	stageSwapped
	stageGone
)

// crashWriters is how many goroutines of the child write at once.
const crashWriters = 8

// writeUntilKilled takes key after key through its life, and prints each
// stage once the store has acknowledged it. It returns only on failure.
func writeUntilKilled(path, round string) error {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		return err
	}
	failure := make(chan error)
	for writer := range crashWriters {
		go func() {
			for n := 0; ; n++ {
				if err := live(ctx, s, fmt.Sprintf("%s/%d/%d", round, writer, n), n); err != nil {
					failure <- err
				}
			}
		}()
	}
	return <-failure
}

// live takes one key through its life. Every third key stays.
func live(ctx context.Context, s *Store, key string, n int) error {
	acknowledge := func(stage int) error {
		_, err := fmt.Fprintf(os.Stdout, "%s %d\n", key, stage)
		return err
	}
	if err := s.Put(ctx, key, []byte("put"), time.Time{}); err != nil {
		return err
	}
	if err := acknowledge(stagePut); err != nil {
		return err
	}
	if err := s.Swap(ctx, key, []byte("put"), []byte("swapped"), time.Time{}); err != nil {
		return err
	}
	if err := acknowledge(stageSwapped); err != nil {
		return err
	}
	switch n % 3 {
	case 0:
		if err := s.Delete(ctx, key); err != nil {
			return err
		}
	case 1:
		if _, err := s.Take(ctx, key); err != nil {
			return err
		}
	case 2:
		return nil
	}
	return acknowledge(stageGone)
}

// crashes is how often TestKilledProcessForgetsNothing kills the child.
const crashes = 6

// TestKilledProcessForgetsNothing kills a writing process several times, and
// looks for every write that it had acknowledged.
func TestKilledProcessForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	acknowledged := make(map[string]int) // key: last stage
	for round := range crashes {
		fresh := crashOnce(t, path, round)
		s := openTest(t, Options{Path: path})
		for key, stage := range fresh {
			verifyStage(t, s, key, stage)
			acknowledged[key] = stage
		}
		if round == crashes-1 {
			for key, stage := range acknowledged {
				verifyStage(t, s, key, stage)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

// startChild starts a writing process, which the test's end kills if nothing
// else has, and returns it along with its acknowledgements.
func startChild(t *testing.T, path string, round int) (child *exec.Cmd, acknowledgements *bufio.Reader) {
	t.Helper()
	child = exec.Command(os.Args[0], fmt.Sprint(round))
	child.Env = append(os.Environ(), crashChild+"="+path)
	child.Stderr = &strings.Builder{}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	return child, bufio.NewReader(stdout)
}

// crashOnce starts a writing process, kills it after a random number of
// acknowledgements, and returns the last one of each key.
func crashOnce(t *testing.T, path string, round int) map[string]int {
	t.Helper()
	child, lines := startChild(t, path, round)
	acknowledged := make(map[string]int)
	killAfter := 1 + rand.IntN(200)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // a line without its end is no acknowledgement
		}
		if err != nil {
			t.Fatalf("reading from the child: %v", err)
		}
		var key string
		var stage int
		if _, err := fmt.Sscanf(line, "%s %d\n", &key, &stage); err != nil {
			t.Fatalf("the child said %q: %v", line, err)
		}
		acknowledged[key] = stage
		if n == killAfter {
			if err := child.Process.Kill(); err != nil {
				t.Fatalf("kill: %v", err)
			}
		}
	}
	if err := child.Wait(); child.ProcessState.Exited() {
		t.Fatalf("the child ended by itself with %v and said %q", err, child.Stderr)
	}
	return acknowledged
}

// verifyStage fails unless the store holds what key has at its last
// acknowledged stage, or at the one after it, which may have been committed
// when the process was killed.
func verifyStage(t *testing.T, s *Store, key string, stage int) {
	t.Helper()
	value, err := s.Get(t.Context(), key)
	found := stageGone
	switch {
	case err == nil && string(value) == "put":
		found = stagePut
	case err == nil && string(value) == "swapped":
		found = stageSwapped
	case !errors.Is(err, store.ErrNotFound):
		t.Fatalf("Get(%q) = %q, %v", key, value, err)
	}
	if found != stage && found != stage+1 {
		t.Errorf("key %s is at stage %d, but stage %d was acknowledged", key, found, stage)
	}
}
