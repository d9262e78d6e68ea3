package acme

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/store"
)

const (
	// lease is how long a lock is held without being renewed. It is longer than
	// one attempt to obtain a certificate takes, and an instance that is killed
	// keeps the others waiting for so long.
	lease = 3 * time.Minute
	// lockPoll is how often a lock is tried that another instance holds.
	lockPoll = time.Second
)

// Lock implements certmagic.Locker. A lock is a lease: who holds it for longer
// may find that another instance has it. Two instances then obtain the same
// certificate, and the later one stays.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		if locked, err := s.TryLock(ctx, name); err != nil || locked {
			return err
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("locking %s: %w", name, ctx.Err())
		case <-timer.C:
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	token := rand.Text()
	err := s.store.Swap(ctx, lockPrefix+name, nil, []byte(token), s.now().Add(lease))
	switch {
	case errors.Is(err, store.ErrConflict):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("locking %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = token
	return true, nil
}

// Unlock implements certmagic.Locker. A lock that another instance has taken
// meanwhile stays that one's.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	token, err := s.token(name)
	if err != nil {
		return fmt.Errorf("unlocking %s: %w", name, err)
	}
	expired := s.now()
	err = s.store.Swap(ctx, lockPrefix+name, []byte(token), []byte(token), expired)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("unlocking %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name] == token {
		delete(s.held, name)
		close(s.released)
		s.released = make(chan struct{})
	}
	return nil
}

// wait returns when this instance holds no lock any more, or ctx ends.
func (s *Storage) wait(ctx context.Context) {
	for {
		s.mu.Lock()
		held, released := len(s.held), s.released
		s.mu.Unlock()
		if held == 0 {
			return
		}
		select {
		case <-released:
		case <-ctx.Done():
			return
		}
	}
}

// RenewLockLease implements certmagic.LockLeaseRenewer. However long a lease
// is asked for, it is for one attempt: while this instance waits for its next
// one, another may try, whose network may be the better one.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	token, err := s.token(name)
	if err != nil {
		return fmt.Errorf("renewing the lock %s: %w", name, err)
	}
	for _, before := range [][]byte{[]byte(token), nil} { // held still, or run out
		err = s.store.Swap(ctx, lockPrefix+name, before, []byte(token), s.now().Add(lease))
		if !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("the lock %s ran out, and another instance holds it now", name)
	}
	if err != nil {
		return fmt.Errorf("renewing the lock %s: %w", name, err)
	}
	return nil
}

var errNotHeld = errors.New("this instance does not hold it")

func (s *Storage) token(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, ok := s.held[name]
	if !ok {
		return "", errNotHeld
	}
	return token, nil
}
