package login

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

// answerTime is how long the callers of frozenStore wait for it.
const answerTime = 1500 * time.Millisecond

// frozenStore says nothing more from the first call on that is about such keys.
type frozenStore struct {
	store.Store
	keys   string // what they begin with
	frozen atomic.Bool
}

func (s *frozenStore) wait(ctx context.Context, key string) error {
	if strings.HasPrefix(key, s.keys) {
		s.frozen.Store(true)
	}
	if !s.frozen.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(answerTime):
	}
	return errStore
}

func (s *frozenStore) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.wait(ctx, key); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

func (s *frozenStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := s.wait(ctx, key); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, value, expires)
}

func (s *frozenStore) Take(ctx context.Context, key string) ([]byte, error) {
	if err := s.wait(ctx, key); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, key)
}

// Who signs in when the store says nothing more waits for it once.
func TestBeginWithAStoreThatFreezes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys  string
		begin func(t *testing.T, s *frozenStore) error
	}{
		"a local account": {loginPrefix, func(t *testing.T, s *frozenStore) error {
			m := newMechanisms(t, nil)
			s.Store = m.store
			account, _ := m.accounts.Lookup("alice")
			_, err := NewLogins(s, m.clock.now).Begin(t.Context(), account, m.clock.now().Add(time.Hour))
			return err
		}},
		"at a provider": {groupPrefix, func(t *testing.T, s *frozenStore) error {
			d := newDelegation(t, nil)
			s.Store = d.store
			_, err := NewUsers(d.users.options, NewLogins(s, d.now)).Begin(t.Context(), "keycloak", d.grant("user"), d.now())
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &frozenStore{keys: c.keys}
			began := time.Now()
			err := c.begin(t, s)
			if took := time.Since(began); !errors.Is(err, errStore) || !s.frozen.Load() || took != answerTime+undoTime {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}
