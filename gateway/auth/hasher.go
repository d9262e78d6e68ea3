package auth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"authgate/gateway/password"
)

// ErrBusy: a password could not be checked in time, because too many others
// are being checked or because the caller's context ended. Nothing was found
// out about the credential, so it must end in 503.
var ErrBusy = errors.New("auth: too many password checks at once")

// maxHashQueue is how many checks may wait for a slot of a Hasher: a few
// seconds of work. Whoever comes later is told to come again.
const maxHashQueue = 256

// Hasher bounds how many passwords are checked at once, since each check takes
// one processor and up to a gibibyte for a while. It is safe for concurrent use.
type Hasher struct {
	slots    chan struct{}
	waiting  atomic.Int64
	computed atomic.Uint64
	compute  func(password.Hash, string) bool
}

// NewHasher returns a Hasher that checks up to slots passwords at once; 0
// means as many as Go uses processors.
func NewHasher(slots int) *Hasher {
	if slots <= 0 {
		slots = runtime.GOMAXPROCS(0)
	}
	return &Hasher{slots: make(chan struct{}, slots), compute: password.Hash.Verify}
}

// Verify reports whether plain is the one that was hashed. It waits for a
// slot until ctx ends. The error is ErrBusy, then and when too many wait.
func (h *Hasher) Verify(ctx context.Context, hash password.Hash, plain string) (bool, error) {
	if err := h.acquire(ctx); err != nil {
		return false, err
	}
	defer func() { <-h.slots }()
	h.computed.Add(1)
	return h.compute(hash, plain), nil
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

// Computed returns how many password hashes have been computed so far.
func (h *Hasher) Computed() uint64 { return h.computed.Load() }

// gaveUp returns the ErrBusy of a caller whose ctx ended.
func gaveUp(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
}
