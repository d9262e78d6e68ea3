package gateway

import (
	"context"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/invitations"
)

// editor changes accounts in accounts.file. It implements endpoint.Editor.
type editor struct {
	gateway *Gateway
	config  *config.Config // of the state that asks
}

// Writable implements endpoint.Editor.
func (e editor) Writable() bool { return e.config.AccountsFile().Writable() }

// Has implements endpoint.Editor.
func (e editor) Has(username string) bool { return e.config.AccountInFile(username) }

// Accounts implements endpoint.Editor.
func (e editor) Accounts() *accounts.Set { return e.gateway.state.Load().mechanisms.Accounts }

// Invitations implements endpoint.Editor.
func (e editor) Invitations() *invitations.Invitations {
	return e.gateway.state.Load().mechanisms.Invited
}

// File implements endpoint.Editor.
func (e editor) File() string { return e.gateway.Config().Accounts.File }

// Edit implements endpoint.Editor.
func (e editor) Edit(ctx context.Context, edit accounts.Edit) error {
	g := e.gateway
	g.reloading.Lock()
	defer g.reloading.Unlock()
	return e.apply(ctx, edit, nil)
}

// EditOwn implements endpoint.Editor.
func (e editor) EditOwn(ctx context.Context, begin func(*login.Overview) (endpoint.OwnEdit, error)) error {
	g := e.gateway
	g.reloading.Lock()
	defer g.reloading.Unlock()
	running := g.state.Load()
	edit, err := begin(mechanism.Overview(running.mechanisms, running.federation))
	if err != nil {
		return err
	}
	return e.apply(ctx, edit.Edit, func(next *state) { edit.ContinueLogin(next.mechanisms.Accounts) })
}

// apply changes an account for a caller that holds gateway.reloading; see reload for ready. The running
// configuration and the file change together: no reload comes in between, and a failure leaves
// the account as it was.
func (e editor) apply(ctx context.Context, edit accounts.Edit, ready func(*state)) error {
	g := e.gateway
	cfg := g.Config()
	edit.Apply = func() error {
		return g.reload(reload{load: cfg.Reread, loaded: g.storage.now(), durable: true, ready: ready,
			edited: edit.Username})
	}
	return cfg.AccountsFile().Edit(ctx, edit)
}

// Reload implements endpoint.Editor.
func (e editor) Reload() error {
	g := e.gateway
	g.reloading.Lock()
	defer g.reloading.Unlock()
	return g.reload(reload{load: g.Config().Reread, loaded: g.storage.now()})
}
