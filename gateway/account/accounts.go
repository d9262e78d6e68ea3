package account

import (
	"context"
	"errors"
	"time"

	"authgate/gateway/accounts"
	"authgate/gateway/endpoint"
	"authgate/gateway/login"
	"authgate/gateway/proofs"
	"authgate/policy"
)

// changeTime bounds how long the change of an account waits for others, and for the file.
const changeTime = 30 * time.Second

// Errors of Accounts.
var (
	// ErrChanged: the account is not the one any more that the user has proved to have.
	ErrChanged = errors.New("account: the account was changed at the same moment")
	// ErrFixed: the account cannot be changed here.
	ErrFixed = errors.New("account: the account cannot be changed here")
)

// Accounts changes accounts of the file of accounts for their users.
type Accounts interface {
	// SetPassword gives an account another password hash. It applies when SetPassword
	// returns without an error. The errors are ErrChanged, ErrFixed, and failures.
	SetPassword(ctx context.Context, change PasswordChange) (ChangedAccount, error)
	// SetFactors changes the factors of an account, in the same way. The login goes on with
	// what it has. The errors are also those of the change.
	SetFactors(ctx context.Context, change FactorChange) (ChangedAccount, error)
}

// Owner is a user who changes their account.
type Owner struct {
	Identity *policy.Identity  // of the user; its login goes on
	Verified *accounts.Account // the account when its user proved to have it
}

// PasswordChange is a password that a user wants.
type PasswordChange struct {
	Owner
	Hash string // of the new password
	// Give returns the new values of the login; see login.Overview.Renew.
	Give func(*login.Login) []login.Handle
}

// FactorChange is what a user wants to change of the factors.
type FactorChange struct {
	Owner
	Change func(*accounts.Account) error // as that of accounts.Edit
	// Alive returns why the login must not change the account any more: it has ended since
	// the request began.
	Alive func() error
}

// ChangedAccount tells what became of the logins of an account.
type ChangedAccount struct {
	Ended []*login.Login // the other logins; also beside an error
	// Renewed is the login that goes on. It is nil if it has ended too: the store
	// failed, or an operator has disabled the account.
	Renewed *login.Login
}

// MayAddFactor is that of endpoint.Options.
func MayAddFactor(e endpoint.Editor, p *proofs.Proofs) func(*accounts.Account) bool {
	return func(account *accounts.Account) bool {
		offered := p.Site != nil || p.Issuer != ""
		return offered && !account.Factors.Any() && e.Writable() && e.Has(account.Username)
	}
}
