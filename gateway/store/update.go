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

// Edit is a change of a value. The zero Edit leaves the value as it is.
type Edit struct {
	Value   []byte    // the new value; nil writes nothing
	Expires time.Time // of the new value, as in Put
}

// Removal is the Edit that removes a value.
func Removal() Edit { return Edit{Value: []byte{}, Expires: time.Unix(1, 0)} }

// Update changes the value of a key. It calls edit with the live value, or with nil if
// there is none, and stores the result of edit. If another write of the key comes in
// between, Update discards the result and begins again.
//
// An error of edit ends Update, which returns it. Nothing is written then.
func Update(ctx context.Context, s Store, key string, edit func(value []byte) (Edit, error)) error {
	value, err := findValue(ctx, s, key)
	if err != nil {
		return err
	}
	return UpdateRead(ctx, s, key, value, edit)
}

// UpdateRead is Update for a caller that has just read the value, nil for none.
func UpdateRead(ctx context.Context, s Store, key string, value []byte, edit func(value []byte) (Edit, error)) error {
	for range updateAttempts {
		next, err := edit(value)
		if err != nil || next.Value == nil {
			return err
		}
		if err := s.Swap(ctx, key, value, next.Value, next.Expires); !errors.Is(err, ErrConflict) {
			return err
		}
		if value, err = findValue(ctx, s, key); err != nil {
			return err
		}
	}
	return errContended
}

// findValue returns the live value of a key, nil if there is none.
func findValue(ctx context.Context, s Store, key string) ([]byte, error) {
	value, err := s.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return value, err
}
