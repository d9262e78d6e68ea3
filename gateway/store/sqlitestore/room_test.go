package sqlitestore

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// limitPages lets the database have that many pages more than it has, as a disk
// that is full does.
func (s *Store) limitPages(t *testing.T, more int) {
	t.Helper()
	var pages int
	wantError(t, "page_count", s.db.writer.QueryRow("PRAGMA page_count").Scan(&pages), nil)
	s.execute(t, fmt.Sprintf("PRAGMA max_page_count = %d", pages+more))
}

func (s *Store) unlimitPages(t *testing.T) { s.execute(t, "PRAGMA max_page_count = 1000000") }

// wantReserve reports an error unless the reserve is there, whole and private, or
// is not.
func wantReserve(t *testing.T, s *Store, when string, want bool) {
	t.Helper()
	info, err := os.Stat(s.db.path + reserveSuffix)
	if !want {
		wantError(t, "the reserve "+when, err, fs.ErrNotExist)
		return
	}
	if err != nil || info.Size() != reserveSize || info.Mode().Perm() != 0o600 {
		t.Errorf("the reserve %s: %v, %v; want %d bytes for its owner", when, info, err, reserveSize)
	}
}

// TestPingNeedsRoomForALogin leaves room for less than a login, then for a login
// that is larger than most.
func TestPingNeedsRoomForALogin(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, log *logtest.Buffer) {
		storetest.Put(t, s, "login", "value")
		s.limitPages(t, 3)
		wantError(t, "Ping with room for 3 pages", s.Ping(t.Context()), errNoRoom)
		s.unlimitPages(t)
		time.Sleep(roomEvery)
		wantError(t, "Ping with room", s.Ping(t.Context()), nil)

		large := make([]byte, 3*loginRoom)
		s.limitPages(t, 2*loginRoom/4096)
		wantError(t, "Put of much", s.Put(t.Context(), "large", large, time.Time{}), errNoRoom)
		for range 3 {
			time.Sleep(roomEvery)
			wantError(t, "Ping after a write was refused that needs much room", s.Ping(t.Context()), errNoRoom)
		}
		s.unlimitPages(t)
		wantError(t, "Ping within a second of the last one, which cannot know yet", s.Ping(t.Context()), errNoRoom)
		time.Sleep(roomEvery)
		wantError(t, "Ping when there is room again", s.Ping(t.Context()), nil)
		wantError(t, "Put after Ping found room", s.Put(t.Context(), "large", large, time.Time{}), nil)
		for _, message := range []string{
			"the disk is full or fails: logins are refused until there is room", "the disk has room again",
		} {
			if got := log.Records(t, message); len(got) != 2 {
				t.Errorf("the log says %d times %q, want 2:\n%s", len(got), message, log)
			}
		}
	})
}

// TestSweeperFindsRoom: the store notices by itself that there is room again, also
// if no client asks for readiness.
func TestSweeperFindsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		s.limitPages(t, 0)
		wantError(t, "Put", s.Put(t.Context(), "large", make([]byte, loginRoom), time.Time{}), errNoRoom)
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
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		ping := func() int64 {
			t.Helper()
			wantError(t, "Ping", s.Ping(t.Context()), nil)
			info := must.Get(os.Stat(s.db.path + walSuffix))(t)
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
	})
}

// TestReserveIsForEndings fills a disk whose last pages are in the reserve, which
// the test simulates: it lifts the limit when the file is removed.
func TestReserveIsForEndings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s *Store
		s = openTest(t, Options{Logger: slog.New(slog.NewTextHandler(logged(func(record string) {
			if strings.Contains(record, "the reserve for logouts is in use") {
				s.unlimitPages(t) // by the writer, which is between two transactions
			}
		}), nil))})
		ending, much := store.Ending(t.Context()), make([]byte, loginRoom)
		storetest.Put(t, s, "session", "value")
		s.limitPages(t, 0)
		logIn := func() error { return s.Put(t.Context(), "login", much, time.Time{}) }
		wantError(t, "a login on a full disk", logIn(), errNoRoom)
		wantReserve(t, s, "after a login", true)
		wantError(t, "a revocation on a full disk", s.Put(ending, "revoked", much, time.Time{}), nil)
		wantReserve(t, s, "after a revocation", false)
		for operation, err := range map[string]error{
			"delete":          s.Delete(t.Context(), "session"),
			"expired put":     s.Put(t.Context(), "revoked", nil, time.Unix(1, 0)),
			"revocation":      s.Swap(ending, "revoked", nil, much, time.Time{}),
			"removal by swap": s.Swap(t.Context(), "revoked", much, nil, time.Unix(1, 0)),
		} {
			wantError(t, operation+" while the reserve is in use", err, nil)
		}
		wantError(t, "a login while the reserve is in use", logIn(), errNoRoom)
		time.Sleep(roomEvery)
		wantError(t, "a login when the reserve can be made again", logIn(), nil)
		wantReserve(t, s, "that was made again", true)
	})
}

// logged gets the records of a log as they come.
type logged func(record string)

func (see logged) Write(b []byte) (int, error) {
	see(string(b))
	return len(b), nil
}

// TestEndingsComeFirst has a login and a logout share a transaction for which
// there is no room.
func TestEndingsComeFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		storetest.Put(t, s, "session", "value")
		s.limitPages(t, 0)
		together(t, s,
			func() {
				wantError(t, "login", s.Put(t.Context(), "other", make([]byte, loginRoom), time.Time{}), errNoRoom)
			},
			func() { wantError(t, "logout", s.Delete(t.Context(), "session"), nil) })
		storetest.WantNone(t, s, "session")
		storetest.WantNone(t, s, "other")
	})
}

// TestReserveIsKept finds the reserve of before, whole or cut short, and makes it
// readable by its owner alone.
func TestReserveIsKept(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"whole": reserveSize, "cut short": 1, "none": -1} {
		path := filepath.Join(t.TempDir(), "test.db")
		if size >= 0 {
			overwrite(t, path+reserveSuffix, size-1, []byte{1})
			wantError(t, "chmod", os.Chmod(path+reserveSuffix, 0o666), nil)
		}
		wantReserve(t, openTest(t, Options{Path: path}), name, true)
	}
}

// TestFillFile checks what makes the reserve where the system cannot allocate.
func TestFillFile(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "reserve")))(t)
	defer f.Close()
	for range 2 {
		err := fillFile(f, reserveSize)
		if info, _ := f.Stat(); err != nil || info.Size() != reserveSize {
			t.Errorf("%v, %v; want %d bytes", info.Size(), err, reserveSize)
		}
	}
}

// TestNoReserve opens a store that cannot make its reserve: logins must not take
// the space that logouts need, and the error says what is in the way.
func TestNoReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.db")
		reserve := path + reserveSuffix
		wantError(t, "mkdir", os.Mkdir(reserve, 0o700), nil)
		s := openTest(t, Options{Path: path})
		for operation, err := range map[string]error{
			"put": s.Put(t.Context(), "login", nil, time.Time{}), "ping": s.Ping(t.Context()),
		} {
			wantError(t, operation, err, errNoRoom)
			wantFailure(t, operation, err, reserve+": is a directory")
		}
		wantError(t, "a revocation", s.Put(store.Ending(t.Context()), "revoked", nil, time.Time{}), nil)
		wantError(t, "remove", os.Remove(reserve), nil)
		time.Sleep(roomEvery)
		wantError(t, "Ping when the reserve can be made", s.Ping(t.Context()), nil)
	})
}
