package login

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/sqlitestore"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// atOnceChild makes the rig's store one that makes several changes at once, by the environment of the child process
// that TestChangesAtOnce starts from this test binary.
const atOnceChild = "AUTHGATE_TEST_CHANGES_AT_ONCE"

// What holds of ends, of failures and of concurrent changes also holds over a store that makes several changes at once.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	if os.Getenv(atOnceChild) != "" {
		return
	}
	child := exec.CommandContext(t.Context(), must.Get(os.Executable())(t),
		"-test.run=End|Fail|Store|Logout|Login|Again|Group|Damage|Outliv|Attach|Lent|Renew|Password|Concurrent")
	child.Env = append(os.Environ(), atOnceChild+"=yes")
	if said, err := child.CombinedOutput(); err != nil || !bytes.Contains(said, []byte("PASS")) {
		t.Errorf("%v:\n%s", err, said)
	}
}

// atOnceStore is a store that makes several changes at once, and remembers its writes.
type atOnceStore struct {
	*sqlitestore.Store
	cannot bool
	writes []string
	before func() error // is called before Apply; nil: nothing is
}

func (s *atOnceStore) Applies() bool { return !s.cannot }

func (s *atOnceStore) Apply(ctx context.Context, changes []store.Change) error {
	s.writes = append(s.writes, "apply")
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	return s.Store.Apply(ctx, changes)
}

func (s *atOnceStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	s.writes = append(s.writes, "swap "+store.KindOf(key))
	return s.Store.Swap(ctx, key, old, value, expires)
}

// In a store that can, the end of a login is one write, and nothing of the login remains. If another change of the
// account comes in between, the login ends by several. A write that fails ends nothing.
func TestEndIsOneWrite(t *testing.T) {
	t.Parallel()
	s := &atOnceStore{Store: must.Get(sqlitestore.Open(t.Context(),
		sqlitestore.Options{Path: filepath.Join(t.TempDir(), "test.db")}))(t)}
	defer s.Close()
	logins := NewLogins(s, time.Now)
	sessions := NewSessions(SessionOptions{Lifetime: time.Hour}, nil, logins)
	begin := func() string {
		_, handle := sessions.New("gw.example")
		return must.Get(logins.Begin(t.Context(), &accounts.Account{Username: "alice"}, Device{},
			Term{Lifetime: time.Hour}, nil, handle))(t).ID
	}
	end := func(sid string, writes ...string) {
		t.Helper()
		s.writes = nil
		if ended := must.Get(logins.End(t.Context(), sid))(t); ended == nil || ended.ID != sid {
			t.Errorf("%v has ended", ended)
		}
		if !slices.Equal(s.writes, writes) {
			t.Errorf("the writes are %q, want %q", s.writes, writes)
		}
	}
	wantLogins := func(want ...string) {
		t.Helper()
		var got []string
		for _, m := range must.Get(logins.groups.members(t.Context(), groupKey("account", "alice")))(t) {
			got = append(got, m.Login)
		}
		for _, kind := range []string{loginPrefix, SessionPrefix, outlivedPrefix} {
			if n := len(storetest.Keys(t, s, kind)); n != len(want) {
				t.Errorf("%d records %q remain, want %d", n, kind, len(want))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the logins of the account are %q, want %q", got, want)
		}
	}
	first, second := begin(), begin()
	end(first, "apply")
	wantLogins(second)

	s.before = func() error { return errStore }
	if _, err := logins.End(t.Context(), second); !errors.Is(err, errStore) {
		t.Errorf("got %v, want the error of the store", err)
	}
	wantLogins(second)

	var third string
	s.before = func() error { third = begin(); s.writes = s.writes[:1]; return nil }
	end(second, "apply", "swap login:", "swap group:")
	wantLogins(third)
	s.cannot = true
	end(third, "swap login:", "swap group:")
	wantLogins()
	if keys := storetest.Keys(t, s, ""); len(keys) > 0 {
		t.Errorf("%q remain", keys)
	}
}
