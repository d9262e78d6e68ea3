package login

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// answerTime is how long callers wait for a frozen store.
const answerTime = 1500 * time.Millisecond

// frozenFrom returns a function for recordingStore.before. The store stops answering with
// the first call for a key with that prefix.
func frozenFrom(prefix string, frozen *atomic.Bool) func(context.Context, string) error {
	return func(ctx context.Context, call string) error {
		if strings.Contains(call, " "+prefix) {
			frozen.Store(true)
		}
		if !frozen.Load() {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(answerTime):
		}
		return errStore
	}
}

// A login waits once for a store that stops answering.
func TestBeginWithAStoreThatFreezes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys  string
		begin func(t *testing.T, before func(context.Context, string) error) error
	}{
		"a local account": {loginPrefix, func(t *testing.T, before func(context.Context, string) error) error {
			m := newMechanisms(t, nil)
			m.store.before = before
			account, _ := m.accounts.Lookup("alice")
			_, err := m.logins.Begin(t.Context(), account, m.clock.now().Add(time.Hour))
			return err
		}},
		"at a provider": {groupPrefix, func(t *testing.T, before func(context.Context, string) error) error {
			d := newDelegation(t, nil)
			d.store.before = before
			_, err := d.begin(t, "keycloak", d.grant("user"), d.now())
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var frozen atomic.Bool
			began := time.Now()
			err := c.begin(t, frozenFrom(c.keys, &frozen))
			if took := time.Since(began); !errors.Is(err, errStore) || !frozen.Load() || took != answerTime+undoTime {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}
