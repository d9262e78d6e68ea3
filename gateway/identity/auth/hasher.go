package auth

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/people/password"
)

// ErrBusy: a password was not checked, because too many others are being checked
// or because the caller's context ended. Nothing is known about the credential,
// so the gateway answers 503.
var ErrBusy = errors.New("auth: too many password checks at once")

const (
	// maxHashQueue is how many checks may wait in each queue of a hasher until their turn comes: a few seconds of
	// work.
	maxHashQueue = 256
	// maxHashWaits is how many may wait in it at all. Further checks fail at once.
	maxHashWaits = 2 * maxHashQueue
	// busyPause is how long those beyond maxHashQueue wait. Clients that guess, and got their answers at once, would
	// take the processor with thousands of requests a second.
	busyPause = time.Second
)

// hasherRests is how long no password is checked before the memory of the checks goes back to the
// system. The runtime would keep it for as long as the heap does not grow, which it does not.
const hasherRests = 10 * time.Second

// hasher limits how many passwords are checked at the same time, because each
// check uses one processor and up to one gibibyte of memory. Checks for known pairs of
// account and address wait in a queue of their own; while checks wait in both queues,
// each gets every second turn. So clients that guess do not keep known users out, and
// a known user who signs in again and again does not keep others out. A hasher is safe for
// concurrent use.
type hasher struct {
	computed atomic.Uint64
	compute  func(password.Hash, string) bool

	giveBack func()          // gives memory to the system; nil: not
	checking func(goes bool) // is called as the first of several checks begins, and as the last ends; nil: not

	mu     sync.Mutex
	slots  int
	free   int          // slots
	rest   *time.Timer  // until giveBack; stopped while a password is checked
	queues [2]list.List // of chan struct{}, which is closed when it is the turn of a check
	next   int          // the queue whose turn it is
}

// newHasher returns a hasher that checks up to slots passwords at the same time.
// With 0 it leaves one processor to requests that need no check.
func newHasher(slots int) *hasher {
	if slots <= 0 {
		slots = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return &hasher{slots: slots, free: slots, compute: password.Hash.Verify}
}

// Verify reports whether plain is the password of hash. It waits for a slot until
// ctx ends, with those of known pairs if known is true. The error is ErrBusy if ctx ends
// or if too many checks wait, mostly after a pause.
func (h *hasher) Verify(ctx context.Context, known bool, hash password.Hash, plain string) (bool, error) {
	if err := h.acquire(ctx, known); err != nil {
		return false, err
	}
	defer h.release()
	h.computed.Add(1)
	return h.compute(hash, plain), nil
}

// New returns a new hash of plain, see password.New. It waits and fails like Verify, with
// known pairs: a user who sets a password has proved the old one.
func (h *hasher) New(ctx context.Context, plain string) (string, error) {
	if err := h.acquire(ctx, true); err != nil {
		return "", err
	}
	defer h.release()
	h.computed.Add(1)
	return password.New(plain)
}

func (h *hasher) acquire(ctx context.Context, known bool) error {
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	queue := &h.queues[0]
	if known {
		queue = &h.queues[1]
	}
	h.mu.Lock()
	if h.free > 0 { // then no check waits
		if h.free == h.slots && h.checking != nil {
			h.checking(true)
		}
		h.free--
		if h.rest != nil {
			h.rest.Stop()
		}
		h.mu.Unlock()
		return nil
	}
	if queue.Len() >= maxHashWaits {
		h.mu.Unlock()
		return ErrBusy
	}
	var late <-chan time.Time
	if queue.Len() >= maxHashQueue {
		late = time.After(busyPause)
	}
	turn := make(chan struct{})
	place := queue.PushBack(turn)
	h.mu.Unlock()
	select {
	case <-turn:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	case <-late:
	}
	h.mu.Lock()
	queue.Remove(place) // nothing, if it is its turn
	h.mu.Unlock()
	select {
	case <-turn: // its turn came before the place was removed
		h.release()
	default:
	}
	return gaveUp(ctx)
}

// release gives a slot to a check that waits. The queues take turns.
func (h *hasher) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range h.queues {
		h.next = 1 - h.next
		if first := h.queues[h.next].Front(); first != nil {
			close(h.queues[h.next].Remove(first).(chan struct{}))
			return
		}
	}
	h.free++
	if h.free < h.slots {
		return
	}
	if h.checking != nil {
		h.checking(false)
	}
	if h.giveBack != nil {
		h.rest = time.AfterFunc(hasherRests, h.giveBack)
	}
}

// Computed returns the number of password hashes computed so far.
func (h *hasher) Computed() uint64 { return h.computed.Load() }

// gaveUp returns ErrBusy with the cause of ctx, if that has ended.
func gaveUp(ctx context.Context) error {
	if ctx.Err() == nil {
		return ErrBusy
	}
	return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
}
