package gateway

import (
	"context"
	"errors"

	"authgate/gateway/account"
	"authgate/gateway/accounts"
	"authgate/gateway/login"
	"authgate/gateway/mechanism"
)

// ownAccounts changes accounts in accounts.file for their users. It implements
// account.Accounts.
type ownAccounts struct{ gateway *Gateway }

// SetPassword implements account.Accounts.
func (a ownAccounts) SetPassword(
	ctx context.Context, change account.PasswordChange,
) (changed account.ChangedAccount, err error) {
	verified := change.Verified
	err = a.edit(ctx, &changed, ownChange{
		Owner:  change.Owner,
		change: accounts.SetPasswordHash(verified, change.Hash),
		same:   func(running *accounts.Account) bool { return running.Version() == verified.Version() },
		goOn: func(o *login.Overview, owner *accounts.Account) (*login.Login, error) {
			return o.Renew(ctx, change.Identity, owner, change.Give)
		},
	})
	if errors.Is(err, accounts.ErrOtherHash) {
		err = account.ErrChanged
	}
	return changed, err
}

// SetFactors implements account.Accounts.
func (a ownAccounts) SetFactors(
	ctx context.Context, change account.FactorChange,
) (changed account.ChangedAccount, err error) {
	var used []string
	err = a.edit(ctx, &changed, ownChange{
		Owner: change.Owner,
		change: func(owner *accounts.Account) error {
			before := owner.Factors
			err := change.Change(owner)
			used = owner.Factors.Added(before)
			return err
		},
		same:  func(running *accounts.Account) bool { return running.LoginVersion() == change.Verified.LoginVersion() },
		alive: change.Alive,
		goOn: func(o *login.Overview, owner *accounts.Account) (*login.Login, error) {
			return o.Keep(ctx, change.Identity, owner, used...)
		},
	})
	return changed, err
}

// ownChange is how a user changes their account.
type ownChange struct {
	account.Owner
	change func(*accounts.Account) error
	// same reports whether the running account is still the one that the user has proved
	// to have.
	same func(running *accounts.Account) bool
	// alive returns why the login that changes the account must not do so any more; nil: the
	// user has given the password with the change.
	alive func() error
	// goOn makes that login go on under the changed account.
	goOn func(*login.Overview, *accounts.Account) (*login.Login, error)
}

// edit changes an account. The running configuration, the file and the logins change
// together: no reload comes in between, and a failure leaves the account as it was.
func (a ownAccounts) edit(ctx context.Context, changed *account.ChangedAccount, c ownChange) error {
	g := a.gateway
	g.reloading.Lock()
	defer g.reloading.Unlock()
	running := g.state.Load()
	cfg, local := running.config, running.mechanisms
	owner, ok := local.Accounts.Lookup(c.Verified.Username)
	if !ok || !c.same(owner) {
		return account.ErrChanged
	}
	overview := mechanism.Overview(local, running.federation)
	// First, so that nothing has changed if the store does not answer. A login with what the
	// account had, which begins after it, ends with that.
	ready := func() (err error) {
		if c.alive != nil {
			if err := c.alive(); err != nil {
				return err
			}
		}
		changed.Ended, err = overview.EndOthers(ctx, c.Identity)
		return err
	}
	renew := func(next *state) {
		owner, ok := next.mechanisms.Accounts.Lookup(owner.Username)
		if !ok { // an operator has disabled it meanwhile
			return
		}
		var err error
		if changed.Renewed, err = c.goOn(overview, owner); err != nil {
			g.service.Logger.Warn("a user has changed their account, and the login that changed it has ended", "login",
				c.Identity.Login, "error", err.Error())
		}
	}
	reload := func() error { return g.reload(cfg.Reread, g.storage.now(), renew) }
	err := cfg.AccountsFile().Edit(ctx, accounts.Edit{
		Username: owner.Username, Change: c.change, Ready: ready, Apply: reload,
	})
	switch {
	case errors.Is(err, accounts.ErrNotInFile), errors.Is(err, accounts.ErrElsewhere),
		errors.Is(err, accounts.ErrNotWritable):
		g.service.Logger.Warn("a user cannot change their account", "subject", c.Identity.Subject,
			"file", cfg.Accounts.File, "error", err.Error())
		return account.ErrFixed
	}
	return err
}
