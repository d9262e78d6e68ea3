package sqlitestore

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// crashChild names the database in the environment of the child process that
// TestKilledProcessForgetsNothing starts from this test binary.
const crashChild = "AUTHGATE_TEST_CRASH_DATABASE"

// handle ends the key of a handle.
const handle = "/handle"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled puts key after key, each with a handle, and ends every second one as a logout does: by one write
// that removes both and notes the key in a record of the writer. It prints each with its end once the store has
// acknowledged that. It returns only on failure.
func writeUntilKilled(database, round string) error {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: database})
	if err != nil {
		return err
	}
	failure := make(chan error)
	for writer := range 8 {
		go func() {
			var last []byte
			for n := 0; ; n++ {
				key, deleted := fmt.Sprintf("%s/%d/%d", round, writer, n), n%2 == 0
				err := s.Put(ctx, key, []byte("value"), time.Time{})
				if err == nil {
					err = s.Put(ctx, key+handle, []byte("value"), time.Time{})
				}
				if err == nil && deleted {
					err = s.Apply(ctx, []store.Change{
						{Key: key, Old: []byte("value"), Edit: store.Removal()},
						{Key: key + handle, Any: true, Edit: store.Removal()},
						{Key: path.Dir(key), Old: last, Edit: store.Edit{Value: []byte(key)}},
					})
					last = []byte(key)
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
// for every write that it had acknowledged, and for ends that are not whole.
func TestKilledProcessForgetsNothing(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "test.db")
	acknowledged := make(map[string]bool) // key: whether it was deleted
	for round := range 6 {
		crash(t, database, round, acknowledged)
		s := openTest(t, Options{Path: database})
		for key, deleted := range acknowledged {
			if deleted {
				storetest.WantNone(t, s, key)
				storetest.WantNone(t, s, key+handle)
				if noted := string(must.Get(s.Get(t.Context(), path.Dir(key)))(t)); number(noted) < number(key) {
					t.Errorf("%s has ended, and %q is noted", key, noted)
				}
			} else {
				storetest.WantValue(t, s, key, "value")
				storetest.WantValue(t, s, key+handle, "value")
			}
		}
		wantWhole(t, s)
		wantError(t, "Close", s.Close(), nil)
	}
}

// number returns the number of a key, which is its last part.
func number(key string) int {
	n, _ := strconv.Atoi(path.Base(key))
	return n
}

// wantWhole reports an error for each end of which only a part happened, whether acknowledged or not.
func wantWhole(t *testing.T, s *Store) {
	t.Helper()
	live := make(map[string]bool)
	for _, key := range storetest.Keys(t, s, "") {
		live[key] = true
	}
	for key := range live {
		switch login, isHandle := strings.CutSuffix(key, handle); {
		case isHandle && !live[login]:
			t.Errorf("%s remains after its end", key)
		case strings.Count(key, "/") == 1: // the record of a writer
			if noted := string(must.Get(s.Get(t.Context(), key))(t)); live[noted] || live[noted+handle] {
				t.Errorf("%s remains, and its end is noted", noted)
			}
		}
	}
}

// crash starts a writing process, kills it after a random number of
// acknowledgements, and records them.
func crash(t *testing.T, database string, round int, acknowledged map[string]bool) {
	t.Helper()
	child := exec.Command(os.Args[0], fmt.Sprint(round))
	child.Env = append(os.Environ(), crashChild+"="+database)
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
