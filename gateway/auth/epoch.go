package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/store"
)

// epochsKey is the store key of the epochs of all accounts. They are one record,
// which never expires.
const epochsKey = "accounts"

// epoch is a period in which an account does not change. Only logins that began in
// the account's current epoch count. So when an account is removed, disabled or
// given another password, its logins stay ended even if it comes back unchanged.
type epoch struct {
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
}

// UpdateEpochs compares the accounts with the epochs in s, begins new epochs for
// those that have changed, and stores the result. It must be called once, before
// the accounts are used. now is the time by the clock of s.
func (a *Accounts) UpdateEpochs(ctx context.Context, s store.Store, now time.Time) error {
	const attempts = 5 // instances that reload at the same time conflict
	for range attempts {
		err := a.updateEpochs(ctx, s, now)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return errors.New("storing the account epochs: other instances keep changing them")
}

// EpochsMoved reports whether the epochs in s are gone, or an account that has not
// changed has another epoch there. Then s has lost data, and other instances accept
// other logins than this one, until it calls UpdateEpochs for new Accounts.
func (a *Accounts) EpochsMoved(ctx context.Context, s store.Store) (bool, error) {
	raw, stored, err := readEpochs(ctx, s)
	if err != nil || raw == nil {
		return err == nil, err
	}
	for username, account := range a.All() {
		if t, known := stored[username]; known && t.Version == account.version && !t.Since.Equal(account.epoch) {
			return true, nil
		}
	}
	return false, nil
}

// readEpochs returns the record of the epochs, nil if there is none.
func readEpochs(ctx context.Context, s store.Store) (raw []byte, epochs map[string]epoch, err error) {
	raw, err = s.Get(ctx, epochsKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, nil, fmt.Errorf("reading the account epochs: %w", err)
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &epochs); err != nil {
			return nil, nil, fmt.Errorf("reading the account epochs: a record in the store is damaged: %w", err)
		}
	}
	return raw, epochs, nil
}

func (a *Accounts) updateEpochs(ctx context.Context, s store.Store, now time.Time) error {
	raw, before, err := readEpochs(ctx, s)
	if err != nil {
		return err
	}
	today := make(map[string]epoch, a.Len())
	for username, account := range a.All() {
		t, known := before[username]
		if !known || t.Version != account.version {
			t = epoch{Version: account.version, Since: now}
		}
		account.epoch = t.Since
		today[username] = t
	}
	value, err := json.Marshal(today) // sorted by name, so that equal sets are equal bytes
	if err != nil || bytes.Equal(value, raw) {
		return err
	}
	if err := s.Swap(ctx, epochsKey, raw, value, time.Time{}); err != nil {
		return fmt.Errorf("storing the account epochs: %w", err)
	}
	return nil
}
