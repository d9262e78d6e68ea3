package rig

import (
	"context"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/invitations"
)

// editor changes accounts in accounts.file, and makes the rig serve them. It implements
// endpoint.Editor.
type editor struct {
	rig    *Rig
	config *config.Config
}

// Writable implements endpoint.Editor.
func (e editor) Writable() bool { return e.config.AccountsFile().Writable() }

// Has implements endpoint.Editor.
func (e editor) Has(username string) bool { return e.config.AccountInFile(username) }

// Accounts implements endpoint.Editor.
func (e editor) Accounts() *accounts.Set { return e.rig.Options.Local.Accounts }

// Invitations implements endpoint.Editor.
func (e editor) Invitations() *invitations.Invitations { return e.rig.Options.Local.Invited }

// Edit implements endpoint.Editor.
func (e editor) Edit(ctx context.Context, edit accounts.Edit) error {
	if before := e.rig.BeforeEdit; before != nil {
		e.rig.BeforeEdit = nil
		before()
	}
	edit.Apply = func() error {
		e.rig.Clock.Advance(e.rig.EditTakes)
		e.rig.Reload(e.rig.yaml)
		return nil
	}
	return e.config.AccountsFile().Edit(ctx, edit)
}

// EditOwn implements endpoint.Editor.
func (e editor) EditOwn(ctx context.Context, begin func(*login.Overview) (endpoint.OwnEdit, error)) error {
	o := e.rig.Options
	edit, err := begin(mechanism.Overview(o.Local, o.Federation))
	if err != nil {
		return err
	}
	if err := e.Edit(ctx, edit.Edit); err != nil {
		return err
	}
	edit.ContinueLogin(e.Accounts())
	return nil
}

// File implements endpoint.Editor.
func (e editor) File() string { return e.config.Accounts.File }

// Reload implements endpoint.Editor. Tests reload the rig when its requests are done.
func (e editor) Reload() error { return nil }
