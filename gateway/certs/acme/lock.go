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
	// lease is how long other instances wait for a lock whose holder was killed.
	lease = time.Minute
	// leaseEvery is how often a lease is renewed.
	leaseEvery = lease / 3
	// attemptTime is how long a lease is renewed. An attempt to obtain a
	// certificate takes less, unless the authority hangs.
	attemptTime = 15 * time.Minute
	// lockPoll is the pause before the next attempt to lock.
	lockPoll = time.Second
)

// ownLock is a lock that this instance holds.
type ownLock struct {
	token       string
	stopRenewal context.CancelFunc // of the lease
}

// Lock implements certmagic.Locker. A lock is a lease that is renewed during an
// attempt. If this instance is suspended meanwhile, another one may get the lock.
// Both then obtain the same certificate, and the later one is kept.
func (s *storage) Lock(ctx context.Context, name string) error {
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
func (s *storage) TryLock(ctx context.Context, name string) (bool, error) {
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

// hold records a lock and renews its lease for one attempt. The caller holds s.mu.
func (s *storage) hold(name, token string) {
	if before, ok := s.held[name]; ok {
		before.stopRenewal()
	}
	ctx, stopRenewal := context.WithTimeout(context.Background(), attemptTime)
	s.held[name] = ownLock{token, stopRenewal}
	go func() {
		ticker := time.NewTicker(leaseEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// The attempt need not know whether the lock is lost, see Lock.
			_ = s.store.Swap(ctx, lockPrefix+name, []byte(token), []byte(token), s.now().Add(lease))
		}
	}()
}

// Unlock implements certmagic.Locker. It does not release a lock that another
// instance has taken meanwhile.
func (s *storage) Unlock(ctx context.Context, name string) error {
	held, err := s.own(name)
	if err != nil {
		return fmt.Errorf("unlocking %s: %w", name, err)
	}
	held.stopRenewal() // even if the store does not answer: then the lease expires
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

// wait waits until this instance holds no lock, or ctx ends.
func (s *storage) wait(ctx context.Context) {
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

// RenewLockLease implements certmagic.LockLeaseRenewer. certmagic calls it before each
// attempt. It ignores the requested duration and renews the lease for one attempt. So
// another instance, perhaps with a better network, can try while this one waits for
// its next attempt.
func (s *storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	held, err := s.own(name)
	if err != nil {
		return fmt.Errorf("renewing the lock %s: %w", name, err)
	}
	token := []byte(held.token)
	for _, before := range [][]byte{token, nil} { // still held, or expired
		err = s.store.Swap(ctx, lockPrefix+name, before, token, s.now().Add(lease))
		if !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("the lock %s has expired, and another instance holds it now", name)
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

var errNotHeld = errors.New("this instance does not hold the lock")

func (s *storage) own(name string) (ownLock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.held[name]
	if !ok {
		return ownLock{}, errNotHeld
	}
	return held, nil
}
