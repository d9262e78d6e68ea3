package account

import (
	"context"
	"errors"

	"authgate/gateway/endpoint"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/proofs"
	"authgate/policy"
)

// Errors of a change.
var (
	errChanged = errors.New("account: the account was changed at the same moment")
	errNotHere = errors.New("account: the account cannot be changed here")
)

// ownChange is how a user changes their account of the file of accounts. Its functions are called in
// this order, and an error of one ends the change:
//
//  1. isSame, when EditOwn of the gateway has begun: no reload comes in between any more.
//  2. change, when accounts.File.Edit has locked and read the file; again if an editor has saved it.
//  3. checkLogin, when only the disk can still fail. Then the other logins of the account end.
//  4. continueLogin, when the file has changed and a reload has read it, just before that applies.
type ownChange struct {
	identity *policy.Identity              // of the user; its login goes on
	verified *accounts.Account             // the account when its user proved to have it
	change   func(*accounts.Account) error // as that of accounts.Edit
	// isSame reports whether the running account is still the one that the user has proved
	// to have.
	isSame func(running *accounts.Account) bool
	// checkLogin returns why the login that changes the account must not do so any more; nil: the
	// user has given the password with the change.
	checkLogin func() error
	// continueLogin makes that login go on under the changed account.
	continueLogin func(*login.Overview, *accounts.Account) (*login.Login, error)
}

// afterChange has the logins of an account after a change.
type afterChange struct {
	ended []*login.Login // the other logins; also beside an error
	// renewed is the login that goes on. It is nil if it has ended too: the store
	// failed, or an operator has disabled the account.
	renewed *login.Login
}

// changeAccount changes an account, which applies when it returns without an error. The account, the
// file and the logins change together. The errors are errChanged, errNotHere, those of c and
// failures.
func (p *page) changeAccount(ctx context.Context, c ownChange) (after afterChange, err error) {
	editor, logger := p.options.Editor, p.options.Site.Service.Logger
	err = editor.EditOwn(ctx, func(running *login.Overview) (edit endpoint.OwnEdit, err error) {
		owner, ok := running.Accounts.Lookup(c.verified.Username)
		if !ok || !c.isSame(owner) {
			return edit, errChanged
		}
		edit.Username, edit.Change = owner.Username, c.change
		// First, so that nothing has changed if the store does not answer. A login with the account
		// as it was, which begins later, ends with the change.
		edit.Ready = func() (err error) {
			if c.checkLogin != nil {
				if err := c.checkLogin(); err != nil {
					return err
				}
			}
			after.ended, err = running.EndOthers(ctx, c.identity)
			return err
		}
		edit.ContinueLogin = func(next *accounts.Set) {
			owner, ok := next.Lookup(owner.Username)
			if !ok { // an operator has disabled it meanwhile
				return
			}
			var err error
			if after.renewed, err = c.continueLogin(running, owner); err != nil {
				logger.Warn("a user has changed their account, and the login that changed it has ended", "login",
					c.identity.Login, "error", err.Error())
			}
		}
		return edit, nil
	})
	if errors.Is(err, accounts.ErrNotInFile) || errors.Is(err, accounts.ErrElsewhere) ||
		errors.Is(err, accounts.ErrNotWritable) {
		logger.Warn("a user cannot change their account", "subject", c.identity.Subject, "file", editor.File(),
			"error", err.Error())
		return after, errNotHere
	}
	return after, err
}

// MayAddFactor is that of signin.Options.
func MayAddFactor(e endpoint.Editor, p *proofs.Proofs) func(*accounts.Account) bool {
	return func(account *accounts.Account) bool {
		offered := p.Site != nil || p.Issuer != ""
		return offered && !account.Factors.Any() && e.Writable() && e.Has(account.Username)
	}
}
