package proofs

import (
	"context"
	"errors"
	"fmt"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

// BeginTOTP returns a new TOTP secret for an account, and the URI by which an app takes it
// over. It counts when ConfirmTOTP has seen a code of it. A secret that was begun before is
// forgotten. The errors are ErrOff and those of the store and the key.
func (p *Proofs) BeginTOTP(
	ctx context.Context, account *accounts.Account,
) (secret factors.Secret, uri string, err error) {
	if p.Issuer == "" {
		return secret, "", ErrOff
	}
	box, err := p.Key.sealing()
	if err != nil {
		return secret, "", fmt.Errorf("the key of TOTP secrets: %w", err)
	}
	secret = factors.NewSecret()
	pending := secret.Pending(box, account.Username)
	expires := p.Now().Add(factors.ChallengeLife)
	if err := p.Store.Put(ctx, pendingKey(account), pending, expires); err != nil {
		return factors.Secret{}, "", err
	}
	return secret, secret.URI(p.Issuer, account.Username), nil
}

func pendingKey(account *accounts.Account) string {
	return pendingPrefix + record.Hash([]byte(account.Username+"\x00"+account.Version()))
}

// ConfirmTOTP gives an account the TOTP secret that BeginTOTP made, if code is one of it, and
// new recovery codes in the place of those that it has. A wrong code changes nothing. The
// errors are ErrOff, ErrNoPending, factors.ErrWrongCode, and those of edit, the store and
// the key.
func (p *Proofs) ConfirmTOTP(
	ctx context.Context, account *accounts.Account, code string, edit Edit,
) (codes []string, err error) {
	if p.Issuer == "" {
		return nil, ErrOff
	}
	totp, err := p.confirmed(ctx, account, code)
	if err != nil {
		return nil, err
	}
	// Of two requests at once, one confirms the secret.
	if _, err := p.Store.Take(ctx, pendingKey(account)); err != nil {
		return nil, pendingError(err)
	}
	err = edit(ctx, func(a *accounts.Account) error {
		a.Factors, codes = a.Factors.WithTOTP(totp).WithRecoveryCodes(a.Username)
		return nil
	})
	return codes, err
}

// confirmed returns the TOTP of the pending secret of an account, if code is one of it.
func (p *Proofs) confirmed(ctx context.Context, account *accounts.Account, code string) (*factors.TOTP, error) {
	pending, err := p.Store.Get(ctx, pendingKey(account))
	if err != nil {
		return nil, pendingError(err)
	}
	box, err := p.Key.sealing()
	if err != nil {
		return nil, fmt.Errorf("the key of TOTP secrets: %w", err)
	}
	secret, err := factors.OpenPending(box, account.Username, pending)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPending, err)
	}
	return secret.Confirm(box, account.Username, code, p.Now())
}

func pendingError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrNoPending
	}
	return err
}

// RemoveTOTP takes TOTP from an account. The errors are ErrNoFactor and those of edit.
func (p *Proofs) RemoveTOTP(ctx context.Context, edit Edit) error {
	return edit(ctx, func(a *accounts.Account) error {
		rest, had := a.Factors.WithoutTOTP()
		if !had {
			return ErrNoFactor
		}
		a.Factors = rest
		return nil
	})
}
