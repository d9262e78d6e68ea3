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
)

// Keys in the store; see the package comment.
const (
	ceremonyPrefix = "ceremony:"        // + hash of the challenge
	pendingPrefix  = "totp-pending:"    // + hash of the user name
	stepPrefix     = "totp-step:"       // + hash of the encrypted secret
	counterPrefix  = "passkey-counter:" // + hash of the credential id
	signInPrefix   = "signin-step:"     // + hash of the step's secret
	wrongPrefix    = "totp-wrong:"      // + hash of the user name and the encrypted secret
	warningPrefix  = "totp-warning:"    // + the same
)

// stepLife is how long the used step of a TOTP secret is kept. Its codes are valid for about
// a minute; the rest is for clocks that are set back.
const stepLife = 24 * time.Hour

// Errors beside those of package factors.
var (
	// ErrNoFactor: the account has no such factor.
	ErrNoFactor = errors.New("the account has no such factor")
	// ErrNoPending: no TOTP secret of the account waits for its first code.
	ErrNoPending = errors.New("no TOTP secret was begun, or it was begun too long ago, or is confirmed already")
	// ErrUnspent: a recovery code cannot be used up, because the file of accounts cannot be
	// read or changed now. So the code does not count either.
	ErrUnspent = errors.New("the recovery code cannot be used up")
	// ErrOff: the configuration has no such factors.
	ErrOff = errors.New("the configuration does not offer this factor")
)

// Options are the parts of Proofs.
type Options struct {
	Store    store.Store
	Now      func() time.Time // the clock of Store
	Accounts *accounts.Set
	File     *accounts.File
	Key      *Key
	// Site is where passkeys are used; nil: nowhere.
	Site *factors.RelyingParty
	// Issuer is shown by apps for TOTP with the user name; empty: no TOTP can be added.
	Issuer string
}

// Proofs checks the factors of the users of a configuration. It is safe for concurrent use.
type Proofs struct {
	Options
	owners map[string]*accounts.Account // by the id of a passkey
}

// New returns the proofs of the accounts.
func New(o Options) *Proofs {
	p := &Proofs{Options: o, owners: map[string]*accounts.Account{}}
	for _, account := range o.Accounts.All() {
		for _, passkey := range account.Factors.Passkeys {
			p.owners[passkey.ID] = account
		}
	}
	return p
}

// Code checks a TOTP code or a recovery code of a user who has given the password. It
// returns the methods that the login has used, for its proof. The code is spent then. The
// errors are factors.ErrWrongCode, ErrStopped, factors.ErrSealed, ErrUnspent, and those of the
// store.
func (p *Proofs) Code(ctx context.Context, account *accounts.Account, code string) (amr []string, err error) {
	recovery := factors.IsRecoveryCode(code)
	if amr = factors.AMR(factors.Password, factors.OTP); recovery {
		amr = factors.AMR(factors.Password, factors.Multi)
	}
	switch {
	case account.Factors.TOTP != nil:
		err = p.counted(ctx, account, code, recovery)
	case recovery:
		err = p.spendRecovery(ctx, account, code)
	default:
		err = factors.ErrWrongCode
	}
	if err != nil {
		return nil, err
	}
	return amr, nil
}

// counted checks a code of an account with TOTP, whose codes stop to count if many are wrong.
func (p *Proofs) counted(ctx context.Context, account *accounts.Account, code string, recovery bool) error {
	left, err := p.count(ctx, account)
	if err != nil {
		return err
	}
	switch {
	case recovery:
		err = p.spendRecovery(ctx, account, code)
	case left == 0:
		err = ErrStopped
	default:
		err = p.spendStep(ctx, account, code)
	}
	return p.checked(ctx, account, left, err)
}

// spendStep checks a TOTP code, and stores that codes up to its own are used.
func (p *Proofs) spendStep(ctx context.Context, account *accounts.Account, code string) error {
	return store.Update(ctx, p.Store, secretKey(stepPrefix, account), func(kept []byte) (store.Edit, error) {
		last, err := number(kept)
		if err != nil {
			return store.Edit{}, err
		}
		step, err := p.step(account, code, last)
		return store.Edit{Value: strconv.AppendInt(nil, step, 10), Expires: p.Now().Add(stepLife)}, err
	})
}

// step returns the step of a TOTP code that is later than last.
func (p *Proofs) step(account *accounts.Account, code string, last int64) (step int64, err error) {
	boxes, err := p.Key.opening()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", factors.ErrSealed, err)
	}
	err = factors.ErrSealed
	for _, box := range boxes {
		step, err = account.Factors.TOTP.Check(box, account.Username, code, p.Now(), last)
		if !errors.Is(err, factors.ErrSealed) {
			break
		}
	}
	return step, err
}

// number reads a number of the store; nil is 0.
func number(kept []byte) (int64, error) {
	if kept == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(kept), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a record in the store is damaged: %w", err)
	}
	return n, nil
}

// spendRecovery removes a recovery code from the file. The file decides, because another instance
// may have used the code a moment ago.
func (p *Proofs) spendRecovery(ctx context.Context, account *accounts.Account, code string) error {
	nothing := func() error { return nil }
	err := p.File.Edit(ctx, accounts.Edit{
		Username: account.Username,
		Change: func(a *accounts.Account) error {
			rest, ok := a.Factors.Spend(a.Username, code)
			if !ok {
				return factors.ErrWrongCode
			}
			a.Factors = rest
			return nil
		},
		Ready: nothing, Apply: nothing, // a reload follows the file
	})
	switch {
	case err == nil, errors.Is(err, factors.ErrWrongCode):
		return err
	case errors.Is(err, accounts.ErrNotInFile):
		return fmt.Errorf("%w: %w", factors.ErrWrongCode, err)
	}
	return fmt.Errorf("%w: %w", ErrUnspent, err)
}

// An Edit changes the account of a user in the file of accounts, by a change that it passes
// to File.Edit. It sees to the consequences, such as the end of other logins.
type Edit func(ctx context.Context, change func(*accounts.Account) error) error

// RecoveryCodes gives an account new recovery codes in the place of those that it has. The
// errors are ErrNoFactor and those of edit.
func (p *Proofs) RecoveryCodes(ctx context.Context, edit Edit) (codes []string, err error) {
	err = edit(ctx, func(a *accounts.Account) error {
		if !a.Factors.Any() {
			return ErrNoFactor
		}
		a.Factors, codes = a.Factors.WithRecoveryCodes(a.Username)
		return nil
	})
	return codes, err
}
