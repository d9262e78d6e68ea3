package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

// limitPages lets the database have that many pages more than it has, as a disk
// that is full does.
func (s *Store) limitPages(t *testing.T, more int) {
	t.Helper()
	var pages int
	if err := s.db.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.writer.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more)); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) unlimitPages(t *testing.T) {
	t.Helper()
	if _, err := s.db.writer.Exec("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
}

func reserveOf(t *testing.T, s *Store) (there bool) {
	t.Helper()
	info, err := os.Stat(s.db.path + reserveSuffix)
	if err == nil && info.Size() != reserveSize {
		t.Errorf("the reserve has %d bytes, want %d", info.Size(), reserveSize)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestPingNeedsRoomForALogin leaves room for less than a login, then for a login
// that is larger than most.
func TestPingNeedsRoomForALogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := openTest(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		put(t, s, "login", "value")
		s.limitPages(t, 3)
		if err := s.Ping(t.Context()); !errors.Is(err, errNoRoom) {
			t.Errorf("Ping with room for 3 pages: %v, want that there is no room", err)
		}
		s.unlimitPages(t)
		time.Sleep(roomEvery)
		if err := s.Ping(t.Context()); err != nil {
			t.Fatalf("Ping with room: %v", err)
		}

		large := make([]byte, 3*loginRoom)
		s.limitPages(t, 2*loginRoom/4096)
		if err := s.Put(t.Context(), "large", large, time.Time{}); !errors.Is(err, errNoRoom) {
			t.Fatalf("Put of much: %v, want that there is no room", err)
		}
		for range 3 {
			time.Sleep(roomEvery)
			if err := s.Ping(t.Context()); !errors.Is(err, errNoRoom) {
				t.Errorf("Ping after a write was refused that needs much room: %v", err)
			}
		}
		s.unlimitPages(t)
		if err := s.Ping(t.Context()); !errors.Is(err, errNoRoom) {
			t.Errorf("Ping within a second of the last one: %v, want that nothing is known yet", err)
		}
		time.Sleep(roomEvery)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping when there is room again: %v", err)
		}
		if err := s.Put(t.Context(), "large", large, time.Time{}); err != nil {
			t.Errorf("Put after Ping found room: %v", err)
		}
		for _, message := range []string{"the disk is full or fails", "the disk has room again"} {
			if got := strings.Count(log.String(), message); got != 2 {
				t.Errorf("the log says %d times %q, want 2:\n%s", got, message, &log)
			}
		}
	})
}

// TestSweeperFindsRoom: the store notices by itself that there is room again,
// also if no client asks for readiness.
func TestSweeperFindsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		s.limitPages(t, 0)
		if err := s.Put(t.Context(), "large", make([]byte, loginRoom), time.Time{}); !errors.Is(err, errNoRoom) {
			t.Fatalf("Put: %v, want that there is no room", err)
		}
		s.unlimitPages(t)
		time.Sleep(sweepInterval)
		synctest.Wait()
		if s.writer.room.short.Load() {
			t.Error("there is room, and the store does not know")
		}
	})
}

// TestPingsShareALargeWrite: a prober cannot make the store write much.
func TestPingsShareALargeWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		ping := func() int64 {
			t.Helper()
			if err := s.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(s.db.path + walSuffix)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		first := ping()
		if more := ping() - first; more > 16<<10 {
			t.Errorf("a second Ping at once writes %d bytes", more)
		}
		time.Sleep(roomEvery)
		second := ping()
		if more := second - first; more < loginRoom {
			t.Errorf("a Ping a second later writes %d bytes, want those of a login", more)
		}
		wantCount(t, s, 0)
	})
}

func wantCount(t *testing.T, s *Store, want int) {
	t.Helper()
	if got, err := s.Count(t.Context(), ""); err != nil || got != want {
		t.Errorf("Count = %d, %v; want %d", got, err, want)
	}
}

// TestReserveIsForEndings fills a disk whose last pages are in the reserve, which
// the test simulates: it lifts the limit when the file is removed.
func TestReserveIsForEndings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s *Store
		logger := slog.New(hook{slog.NewTextHandler(&bytes.Buffer{}, nil), func(message string) {
			if strings.HasPrefix(message, "the reserve for logouts is in use") {
				s.unlimitPages(t) // by the writer, which is between two transactions
			}
		}})
		s = openTest(t, Options{Logger: logger})
		ending, much := store.Ending(t.Context()), make([]byte, loginRoom)
		put(t, s, "session", "value")
		s.limitPages(t, 0)
		refused := func(when string) {
			t.Helper()
			if err := s.Put(t.Context(), "login", much, time.Time{}); !errors.Is(err, errNoRoom) {
				t.Errorf("a login %s: %v, want that there is no room", when, err)
			}
		}
		refused("on a full disk")
		if !reserveOf(t, s) {
			t.Error("a login has used the reserve")
		}
		if err := s.Put(ending, "revoked", much, time.Time{}); err != nil {
			t.Errorf("a revocation on a full disk: %v", err)
		}
		if reserveOf(t, s) {
			t.Error("the reserve is still there")
		}
		refused("while the reserve is in use")
		for operation, err := range map[string]error{
			"delete":          s.Delete(t.Context(), "session"),
			"expired put":     s.Put(t.Context(), "revoked", nil, time.Unix(1, 0)),
			"revocation":      s.Swap(ending, "revoked", nil, much, time.Time{}),
			"removal by swap": s.Swap(t.Context(), "revoked", much, nil, time.Unix(1, 0)),
		} {
			if err != nil {
				t.Errorf("%s while the reserve is in use: %v", operation, err)
			}
		}
		time.Sleep(roomEvery)
		if err := s.Put(t.Context(), "login", much, time.Time{}); err != nil {
			t.Errorf("a login when the reserve can be made again: %v", err)
		}
		if !reserveOf(t, s) {
			t.Error("the reserve was not made again")
		}
	})
}

// hook sees the messages of a log as they come.
type hook struct {
	slog.Handler
	see func(message string)
}

// Handle implements slog.Handler.
func (h hook) Handle(_ context.Context, record slog.Record) error {
	h.see(record.Message)
	return nil
}

// TestEndingsComeFirst has a login and a logout share a transaction for which
// there is no room.
func TestEndingsComeFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		put(t, s, "session", "value")
		s.limitPages(t, 0)
		release := hold(t, s)
		var login, logout error
		var all sync.WaitGroup
		all.Go(func() { login = s.Put(t.Context(), "other", make([]byte, loginRoom), time.Time{}) })
		synctest.Wait()
		all.Go(func() { logout = s.Delete(t.Context(), "session") })
		synctest.Wait()
		release()
		all.Wait()
		if !errors.Is(login, errNoRoom) || logout != nil {
			t.Errorf("without room: login %v, logout %v; want that the logout succeeds", login, logout)
		}
		wantAbsent(t, s, "session")
		wantAbsent(t, s, "other")
	})
}

// TestReserveIsKept finds the reserve of before, whole or cut short, and makes
// it readable by its owner alone.
func TestReserveIsKept(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"whole": reserveSize, "cut short": 1, "none": -1} {
		path := filepath.Join(t.TempDir(), "test.db")
		if size >= 0 {
			overwrite(t, path+reserveSuffix, size-1, []byte{1})
			if err := os.Chmod(path+reserveSuffix, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s := openTest(t, Options{Path: path})
		if !reserveOf(t, s) {
			t.Errorf("%s: there is no reserve", name)
		}
		if info, err := os.Stat(path + reserveSuffix); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestFillFile checks what makes the reserve where the system cannot allocate.
func TestFillFile(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "reserve"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 {
		if err := fillFile(f, reserveSize); err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != reserveSize {
			t.Errorf("%v, %v", info.Size(), err)
		}
	}
}

// TestNoReserve opens a store that cannot make its reserve: logins must not take
// the space that logouts need, and the error says what is in the way.
func TestNoReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.db")
		if err := os.Mkdir(path+reserveSuffix, 0o700); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, Options{Path: path})
		for operation, err := range map[string]error{"put": s.Put(t.Context(), "login", nil, time.Time{}), "ping": s.Ping(t.Context())} {
			if !errors.Is(err, errNoRoom) || !strings.Contains(err.Error(), path+reserveSuffix+": is a directory") {
				t.Errorf("%s: %v, want what is in the way of the reserve", operation, err)
			}
		}
		if err := s.Put(store.Ending(t.Context()), "revoked", nil, time.Time{}); err != nil {
			t.Errorf("a revocation: %v", err)
		}
		if err := os.Remove(path + reserveSuffix); err != nil {
			t.Fatal(err)
		}
		time.Sleep(roomEvery)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping when the reserve can be made: %v", err)
		}
	})
}
