// Package invitations makes links by which users set a password for an account that an
// operator or an administrator has made for them.
//
// # Job
//
// The store has one record for each invited account. Invite writes it, so that a second
// invitation takes the place of the first. The link has the name of the record and a secret;
// the record has a hash of the secret. Find shows whose invitation a link is, and leaves it
// as it is. Redeem uses it up: of many calls with one link at once, one succeeds. A page
// calls Find for a GET, and for a POST Redeem as the last step before the file of accounts
// is changed: as Ready of accounts.Edit, so that a password that is refused costs no
// invitation.
//
// # Limits and threats
//
// A link is a credential for its lifetime. It opens nothing by itself: with it, a password is set.
// It counts only while its account is as it was when it was invited: an account that is
// removed, disabled or has another password has no invitation any more, also if an account of
// that name is there again.
package invitations

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// lifetime is how long an invitation can be used.
const lifetime = 72 * time.Hour

// Page is the path of the page of an invitation below endpoints.prefix, and TokenField is
// the field of its query that has the token.
const (
	Page       = "signin/invite"
	TokenField = "token"
)

const keyPrefix = "invitation:" // + name of the record

// Sizes in bytes. The name comes from the user name, which it does not tell.
const (
	nameBytes   = 16
	secretBytes = 32
)

var (
	// ErrNoAccount: there is no account of that name that could be invited, or it is disabled.
	ErrNoAccount = errors.New("no account of that name can be invited")
	// ErrEnded is the ErrNoAccount of an account that has ended, and is not disabled.
	ErrEnded = fmt.Errorf("%w: it has ended", ErrNoAccount)
	// ErrInvalid: the link is wrong, used, replaced by another or too old, or its account is
	// not as it was.
	ErrInvalid = errors.New("the invitation is wrong, used or too old")
)

// Options say where invitations are kept and which accounts they are for.
type Options struct {
	Store    store.Store
	Now      func() time.Time // the clock of the store
	Accounts *accounts.Set
	Base     string // public_url and endpoints.prefix, with a final slash
}

// Invitations makes invitations, and knows whose they are.
type Invitations struct{ Options }

// New returns Invitations.
func New(o Options) *Invitations { return &Invitations{o} }

// invitation is the record of an account that is invited.
type invitation struct {
	Username string    `json:"user"`
	Version  string    `json:"version"` // of the account, see accounts.Account.Version
	Since    time.Time `json:"since"`   // when the account had changed last
	Secret   string    `json:"secret"`  // hashed; empty: it is used
	Expires  time.Time `json:"expires"`
}

// Invite makes an invitation for an account, and returns its link. An earlier one of the
// account is not valid any more. The error is ErrNoAccount if there is none.
func (i *Invitations) Invite(ctx context.Context, username string) (link string, err error) {
	account, ok := i.Accounts.Find(username)
	switch {
	case !ok || account.Disabled:
		return "", ErrNoAccount
	case account.Ended(i.Now()):
		return "", fmt.Errorf("%w at %s", ErrEnded, account.Until.UTC().Format(time.RFC3339))
	}
	name, secret := nameOf(account.Username), make([]byte, secretBytes)
	rand.Read(secret) // never fails
	made := invitation{
		Username: account.Username, Version: account.Version(), Since: account.Changed(),
		Secret: record.Hash(secret), Expires: i.Now().Add(lifetime),
	}
	if end := account.End(); !end.IsZero() && end.Before(made.Expires) {
		made.Expires = end
	}
	// An Update, so that it cannot overwrite one that is used at the same time.
	err = store.Update(ctx, i.Store, keyPrefix+encode(name), func([]byte) (store.Edit, error) {
		return record.Edited(made, made.Expires)
	})
	if err != nil {
		return "", fmt.Errorf("storing an invitation: %w", err)
	}
	query := url.Values{TokenField: {encode(append(name, secret...))}}
	return i.Base + Page + "?" + query.Encode(), nil
}

// Find returns the account that an invitation is for, and leaves the invitation as it is.
// The error is ErrInvalid if it is not valid.
func (i *Invitations) Find(ctx context.Context, token string) (*accounts.Account, error) {
	key, secret, err := split(token)
	if err != nil {
		return nil, err
	}
	raw, err := record.Find(ctx, i.Store, key)
	if err != nil {
		return nil, err
	}
	account, _, err := i.checkInvitation(raw, secret)
	return account, err
}

// Redeem is Find, and uses the invitation up.
func (i *Invitations) Redeem(ctx context.Context, token string) (*accounts.Account, error) {
	key, secret, err := split(token)
	if err != nil {
		return nil, err
	}
	var account *accounts.Account
	err = store.Update(ctx, i.Store, key, func(raw []byte) (store.Edit, error) {
		var used *invitation
		if account, used, err = i.checkInvitation(raw, secret); err != nil {
			return store.Edit{}, err
		}
		used.Secret = ""
		return record.Edited(used, used.Expires)
	})
	if err != nil {
		return nil, err
	}
	return account, nil
}

// checkInvitation returns the account and the record of an invitation if it is valid now.
func (i *Invitations) checkInvitation(raw, secret []byte) (*accounts.Account, *invitation, error) {
	if raw == nil {
		return nil, nil, ErrInvalid
	}
	made, err := record.Decode[invitation](raw)
	if err != nil {
		return nil, nil, err
	}
	right := subtle.ConstantTimeCompare([]byte(made.Secret), []byte(record.Hash(secret))) == 1
	account, there := i.Accounts.Lookup(made.Username)
	if !right || !there || !account.Unchanged(made.Version, made.Since) || !i.Now().Before(made.Expires) {
		return nil, nil, ErrInvalid
	}
	return account, made, nil
}

// nameOf returns the name of the record of an account.
func nameOf(username string) []byte {
	sum := sha256.Sum256([]byte("authgate invitation\x00" + policy.NormalName(username)))
	return sum[:nameBytes]
}

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// split returns the store key and the secret of a token.
func split(token string) (key string, secret []byte, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != nameBytes+secretBytes {
		return "", nil, ErrInvalid
	}
	return keyPrefix + encode(raw[:nameBytes]), raw[nameBytes:], nil
}
