package auth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"authgate/gateway/password"
)

// ErrBusy: a password was not checked, because too many others are being checked
// or because the caller's context ended. Nothing is known about the credential,
// so the gateway answers 503.
var ErrBusy = errors.New("auth: too many password checks at once")

// maxHashQueue is how many checks may wait in a Hasher: a few seconds of work.
// Further checks fail at once.
const maxHashQueue = 256

// Hasher limits how many passwords are checked at the same time, because each
// check uses one processor and up to one gibibyte of memory. It is safe for
// concurrent use.
type Hasher struct {
	slots    chan struct{}
	waiting  atomic.Int64
	computed atomic.Uint64
	compute  func(password.Hash, string) bool
}

// NewHasher returns a Hasher that checks up to slots passwords at the same time.
// With 0 it leaves one processor to requests that need no check.
func NewHasher(slots int) *Hasher {
	if slots <= 0 {
		slots = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return &Hasher{slots: make(chan struct{}, slots), compute: password.Hash.Verify}
}

// Verify reports whether plain is the password of hash. It waits for a slot until
// ctx ends. The error is ErrBusy if ctx ends or if too many checks wait.
func (h *Hasher) Verify(ctx context.Context, hash password.Hash, plain string) (bool, error) {
	if err := h.acquire(ctx); err != nil {
		return false, err
	}
	defer func() { <-h.slots }()
	h.computed.Add(1)
	return h.compute(hash, plain), nil
}

// New returns a new hash of plain, see password.New. It waits and fails like Verify.
func (h *Hasher) New(ctx context.Context, plain string) (string, error) {
	if err := h.acquire(ctx); err != nil {
		return "", err
	}
	defer func() { <-h.slots }()
	h.computed.Add(1)
	return password.New(plain)
}

func (h *Hasher) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > maxHashQueue {
		return ErrBusy
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

// Computed returns the number of password hashes computed so far.
func (h *Hasher) Computed() uint64 { return h.computed.Load() }

// gaveUp returns ErrBusy with the cause of ctx, which has ended.
func gaveUp(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
}
