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
	// lease is how long the others wait for a lock whose holder was killed.
	lease = time.Minute
	// leaseEvery is how often a lease is renewed.
	leaseEvery = lease / 3
	// attemptTime is how long a lease is renewed. One attempt to obtain a
	// certificate takes less, unless the authority hangs.
	attemptTime = 15 * time.Minute
	// lockPoll is how often a lock is tried that another instance holds.
	lockPoll = time.Second
)

// ownLock is a lock of this instance.
type ownLock struct {
	token string
	let   context.CancelFunc // ends the renewing of the lease
}

// Lock implements certmagic.Locker. A lock is a lease, renewed for as long as
// an attempt takes: who was frozen meanwhile may find that another instance
// has it. Two instances then obtain the same certificate, and the later one
// stays.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		if locked, err := s.TryLock(ctx, name); err != nil || locked {
			return err
		}
		if pause(ctx, lockPoll); ctx.Err() != nil {
			return fmt.Errorf("locking %s: %w", name, ctx.Err())
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
	s.hold(name, token)
	return true, nil
}

// hold notes a lock, whose lease it renews for one attempt. The caller holds
// s.mu.
func (s *Storage) hold(name, token string) {
	if before, ok := s.held[name]; ok {
		before.let()
	}
	ctx, let := context.WithTimeout(context.Background(), attemptTime)
	s.held[name] = ownLock{token, let}
	go func() {
		ticker := time.NewTicker(leaseEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// Whether it is lost the attempt need not know, see Lock.
			_ = s.store.Swap(ctx, lockPrefix+name, []byte(token), []byte(token), s.now().Add(lease))
		}
	}()
}

// Unlock implements certmagic.Locker. A lock that another instance has taken
// meanwhile stays that one's.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	held, err := s.own(name)
	if err != nil {
		return fmt.Errorf("unlocking %s: %w", name, err)
	}
	held.let() // be the store there or not: then the lease runs out
	token, expired := []byte(held.token), s.now()
	err = s.store.Swap(ctx, lockPrefix+name, token, token, expired)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("unlocking %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name].token == held.token {
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

// RenewLockLease implements certmagic.LockLeaseRenewer; certmagic calls it
// before each attempt. However long a lease is asked for, it is for this one:
// while this instance waits for its next, another may try, whose network may be
// the better one.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	held, err := s.own(name)
	if err != nil {
		return fmt.Errorf("renewing the lock %s: %w", name, err)
	}
	token := []byte(held.token)
	for _, before := range [][]byte{token, nil} { // held still, or run out
		err = s.store.Swap(ctx, lockPrefix+name, before, token, s.now().Add(lease))
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name].token == held.token {
		s.hold(name, held.token)
	}
	return nil
}

var errNotHeld = errors.New("this instance does not hold it")

func (s *Storage) own(name string) (ownLock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.held[name]
	if !ok {
		return ownLock{}, errNotHeld
	}
	return held, nil
}
