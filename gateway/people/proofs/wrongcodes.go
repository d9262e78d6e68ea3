package proofs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

// maxWrongCodes is how many codes of an account may be wrong in a row, from whatever addresses. Who has
// the password may guess slowly, and without an end: with 50 guesses, they open one of 6,700 accounts.
const maxWrongCodes = 50

// warningLife is how long users are told that codes of their app had stopped to count.
const warningLife = 30 * 24 * time.Hour

// ErrStopped is a factors.ErrWrongCode: too many codes were wrong in a row. Codes of the app count again
// when the user has signed in with a passkey or a recovery code, or has another secret.
var ErrStopped = fmt.Errorf("%w: %d in a row were wrong, and codes of the app do not count any more",
	factors.ErrWrongCode, maxWrongCodes)

// secretKey returns the store key of a record about the TOTP secret of an account. With another secret,
// as after an administrator has reset the factors, the account begins anew.
func secretKey(prefix string, account *accounts.Account) string {
	return prefix + record.Hash([]byte(account.Username+"\x00"+account.Factors.TOTP.Secret))
}

// count counts a code of an account with TOTP as wrong before it is checked, so that many at once are
// no more. It returns how many could still be wrong before that.
func (p *Proofs) count(ctx context.Context, account *accounts.Account) (left int64, err error) {
	err = p.updateWrong(ctx, account, func(wrong int64) int64 {
		left = max(maxWrongCodes-wrong, 0)
		return min(wrong+1, maxWrongCodes)
	})
	return left, err
}

// updateWrong changes how many codes of an account were wrong in a row.
func (p *Proofs) updateWrong(ctx context.Context, account *accounts.Account, change func(int64) int64) error {
	return store.Update(ctx, p.Store, secretKey(wrongPrefix, account), func(kept []byte) (store.Edit, error) {
		before, err := number(kept)
		if err != nil {
			return store.Edit{}, err
		}
		now := change(before)
		if now == before {
			return store.Edit{}, nil
		}
		return store.Edit{Value: strconv.AppendInt(nil, now, 10), Expires: time.Time{}}, nil // never
	})
}

// checked concludes the check of a code that was counted, with left as count returned it. An error that
// says nothing about the code takes it from the count.
func (p *Proofs) checked(ctx context.Context, account *accounts.Account, left int64, err error) error {
	switch {
	case err == nil:
		return p.forgive(ctx, account, left == 0)
	case !errors.Is(err, factors.ErrWrongCode):
		if left > 0 {
			err = errors.Join(err, p.updateWrong(ctx, account, func(wrong int64) int64 { return max(wrong-1, 0) }))
		}
		return err
	case left <= 1:
		return ErrStopped
	}
	return err
}

// forgive forgets the wrong codes of an account whose user has proved a factor. If they had stopped its
// codes, the user is told for a while.
func (p *Proofs) forgive(ctx context.Context, account *accounts.Account, stopped bool) error {
	if stopped {
		expires := p.Now().Add(warningLife)
		if err := p.Store.Put(ctx, secretKey(warningPrefix, account), []byte{'1'}, expires); err != nil {
			return err
		}
	}
	return p.Store.Delete(ctx, secretKey(wrongPrefix, account))
}

// byPasskey forgets the wrong codes of an account whose user has used a passkey.
func (p *Proofs) byPasskey(ctx context.Context, account *accounts.Account) error {
	wrong, err := p.wrong(ctx, account)
	if err != nil || wrong == 0 {
		return err
	}
	return p.forgive(ctx, account, wrong >= maxWrongCodes)
}

// wrong returns how many codes of an account were wrong in a row.
func (p *Proofs) wrong(ctx context.Context, account *accounts.Account) (int64, error) {
	if account.Factors.TOTP == nil {
		return 0, nil
	}
	raw, err := record.Find(ctx, p.Store, secretKey(wrongPrefix, account))
	if err != nil {
		return 0, err
	}
	return number(raw)
}

// Stopped reports whether codes of the app of an account do not count any more, because too many were
// wrong. The error is that of the store.
func (p *Proofs) Stopped(ctx context.Context, account *accounts.Account) (bool, error) {
	wrong, err := p.wrong(ctx, account)
	return wrong >= maxWrongCodes, err
}

// Warns reports whether the user of an account must know that codes of the app have stopped to count, or
// had not long ago: somebody may know the password. The error is that of the store.
func (p *Proofs) Warns(ctx context.Context, account *accounts.Account) (bool, error) {
	stopped, err := p.Stopped(ctx, account)
	if err != nil || stopped || account.Factors.TOTP == nil {
		return stopped, err
	}
	raw, err := record.Find(ctx, p.Store, secretKey(warningPrefix, account))
	return raw != nil, err
}
