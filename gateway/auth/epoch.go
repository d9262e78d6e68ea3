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

// tenureKey is where the store keeps the tenures of all accounts, in one
// record that never expires.
const epochsKey = "accounts"

// tenure says since when an account has been what it is. Only logins that
// began in it count, so that those of an account that was removed, disabled
// or given another password stay dead when it comes back as it was. Since
// names the tenure in the records of its logins.
type epoch struct {
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
}

// Settle finds out since when each account has been what it is, from what s
// remembers of the last time, and notes there who is gone. It is called once,
// before the accounts are used. now is the time by the clock of s.
func (a *Accounts) UpdateEpochs(ctx context.Context, s store.Store, now time.Time) error {
	const attempts = 5 // instances that reload at once get in each other's way
	for range attempts {
		err := a.updateEpochs(ctx, s, now)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return errors.New("noting the accounts in the store: others keep changing them")
}

func (a *Accounts) updateEpochs(ctx context.Context, s store.Store, now time.Time) error {
	raw, err := s.Get(ctx, epochsKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("reading who had accounts: %w", err)
	}
	var before map[string]epoch
	if raw != nil {
		if err := json.Unmarshal(raw, &before); err != nil {
			return fmt.Errorf("reading who had accounts: a record in the store is damaged: %w", err)
		}
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
	value, err := json.Marshal(today) // in the order of the names
	if err != nil || bytes.Equal(value, raw) {
		return err
	}
	if err := s.Swap(ctx, epochsKey, raw, value, time.Time{}); err != nil {
		return fmt.Errorf("noting who has accounts: %w", err)
	}
	return nil
}
