package endpoint

import (
	"context"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/invitations"
)

// ChangeTime bounds how long the change of an account waits for others, and for the file.
const ChangeTime = 30 * time.Second

// Editor changes the accounts of the file of accounts.
type Editor interface {
	// Writable reports whether the file can be changed.
	Writable() bool
	// Has reports whether the account of that name is in the file.
	Has(username string) bool
	// Edit changes one account, as accounts.File.Edit does, whose errors it returns. The change
	// applies when Edit returns without an error; e.Apply must be nil.
	Edit(ctx context.Context, e accounts.Edit) error
	// EditOwn is Edit for a user who changes their own account and whose login goes on. It calls
	// begin with the logins and accounts that are in use, which stay so during the edit. An error
	// of begin prevents the edit.
	EditOwn(ctx context.Context, begin func(running *login.Overview) (OwnEdit, error)) error
	// File returns the path of the file, for logs.
	File() string
	// Reload puts the accounts of the file in use, after a change that was not an Edit. An
	// error leaves those that are in use.
	Reload() error
	// Accounts returns the local accounts that are in use now, with all changes. During an Edit
	// they do not change.
	Accounts() *accounts.Set
	// Invitations returns those of Accounts.
	Invitations() *invitations.Invitations
}

// OwnEdit is an edit of an account by its user.
type OwnEdit struct {
	accounts.Edit
	// ContinueLogin is called with the accounts after the change, just before they are in use.
	ContinueLogin func(next *accounts.Set)
}
