package gateway

import (
	"context"

	"authgate/gateway/accounts"
	"authgate/gateway/config"
	"authgate/gateway/mechanism"
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

// Local implements endpoint.Editor.
func (e editor) Local() *mechanism.Local { return e.gateway.state.Load().mechanisms }

// Edit implements endpoint.Editor. The running configuration and the file change together: no
// reload comes in between, and a failure leaves the account as it was.
func (e editor) Edit(ctx context.Context, edit accounts.Edit) error {
	g := e.gateway
	g.reloading.Lock()
	defer g.reloading.Unlock()
	cfg := g.state.Load().config
	edit.Apply = func() error {
		// With a function that is called, so that a store that cannot record it is an error.
		return g.reload(cfg.Reread, g.storage.now(), func(*state) {})
	}
	return cfg.AccountsFile().Edit(ctx, edit)
}

// Follow implements endpoint.Editor.
func (e editor) Follow() error {
	g := e.gateway
	g.reloading.Lock()
	defer g.reloading.Unlock()
	return g.reload(g.state.Load().config.Reread, g.storage.now(), nil)
}
