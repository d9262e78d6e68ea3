package store

import (
	"context"
	"errors"
	"time"
)

// updateAttempts is how often Update tries. An attempt fails only if another write of
// the key has succeeded.
const updateAttempts = 100

var errContended = errors.New("other instances keep changing it")

// Edit is what becomes of a value. The zero Edit leaves the value as it is.
type Edit struct {
	Value   []byte    // the new value; nil writes nothing
	Expires time.Time // of the new value, as in Put
}

// Update changes the value of a key. It calls edit with the live value, or with nil if
// there is none, and stores what edit returns. If another write of the key comes in
// between, Update discards what edit returned and begins again.
//
// An error of edit ends Update, which returns it. Nothing is written then.
func Update(ctx context.Context, s Store, key string, edit func(value []byte) (Edit, error)) error {
	for range updateAttempts {
		old, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		next, err := edit(old)
		if err != nil || next.Value == nil {
			return err
		}
		if err := s.Swap(ctx, key, old, next.Value, next.Expires); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return errContended
}
