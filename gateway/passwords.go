package gateway

import (
	"context"
	"errors"

	"authgate/gateway/account"
	"authgate/gateway/accounts"
	"authgate/gateway/config"
	"authgate/gateway/mechanism"
)

// passwords changes the passwords of accounts in accounts.file. It implements
// account.Passwords.
type passwords struct {
	gateway *Gateway
	config  *config.Config // of the state that asks
}

// Writable implements account.Passwords.
func (p passwords) Writable() bool { return p.config.AccountsFile().Writable() }

// Has implements account.Passwords.
func (p passwords) Has(username string) bool { return p.config.AccountInFile(username) }

// Set implements account.Passwords. The running configuration, the file and the
// logins change together: no reload comes in between, and a failure leaves the
// password as it was.
func (p passwords) Set(
	ctx context.Context, change account.PasswordChange,
) (changed account.ChangedPassword, err error) {
	g, id, verified := p.gateway, change.Identity, change.Verified
	g.reloading.Lock()
	defer g.reloading.Unlock()
	running := g.state.Load()
	cfg, local := running.config, running.mechanisms
	owner, ok := local.Accounts.Lookup(verified.Username)
	if !ok || owner.Version() != verified.Version() {
		return changed, account.ErrPasswordChanged
	}
	overview := mechanism.Overview(local, running.federation)
	// First, so that nothing has changed if the store does not answer. A login with the
	// old password that begins after it ends with the old password.
	endOthers := func() (err error) {
		changed.Ended, err = overview.EndOthers(ctx, id)
		return err
	}
	renew := func(next *state) {
		owner, ok := next.mechanisms.Accounts.Lookup(owner.Username)
		if !ok { // an operator has disabled it meanwhile
			return
		}
		var err error
		if changed.Renewed, err = overview.Renew(ctx, id, owner, change.Give); err != nil {
			g.service.Logger.Warn("a password is changed, and the login that changed it has ended", "login", id.Login,
				"error", err.Error())
		}
	}
	reload := func() error { return g.reload(cfg.Reread, g.storage.now(), renew) }
	err = cfg.AccountsFile().Edit(ctx, accounts.Edit{
		Username: owner.Username, Change: accounts.SetPasswordHash(owner.Hash.Encoded(), change.Hash),
		Ready: endOthers, Apply: reload,
	})
	switch {
	case errors.Is(err, accounts.ErrOtherHash):
		return changed, account.ErrPasswordChanged
	case errors.Is(err, accounts.ErrNotInFile), errors.Is(err, accounts.ErrElsewhere),
		errors.Is(err, accounts.ErrNotWritable):
		g.service.Logger.Warn("a user cannot change their password", "subject", id.Subject, "file", cfg.Accounts.File,
			"error", err.Error())
		return changed, account.ErrPasswordFixed
	}
	return changed, err
}
