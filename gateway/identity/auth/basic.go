package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/people/accounts"
	"authgate/policy"
)

// Basic is the mechanism for HTTP Basic authentication with shared credentials
// (RFC 7617). Its users have no roles and no sessions, and are separate from the
// local accounts.
type Basic struct {
	users      *accounts.Set
	verifier   *Verifier
	challenge  Challenge
	identities map[string]*policy.Identity // by Account.Username, made once
}

// NewBasic returns the mechanism for users in realm.
func NewBasic(realm string, users *accounts.Set, verifier *Verifier) *Basic {
	b := &Basic{
		users:      users,
		verifier:   verifier,
		challenge:  BasicChallenge(realm),
		identities: make(map[string]*policy.Identity),
	}
	for username := range users.All() {
		b.identities[username] = &policy.Identity{
			Username:  username,
			Subject:   policy.BasicProvider + ":" + username,
			Mechanism: policy.Basic,
			Provider:  policy.BasicProvider,
		}
	}
	return b
}

// Identity returns the identity of a user, nil if there is none of that name.
func (b *Basic) Identity(username string) *policy.Identity {
	if account, ok := b.users.Lookup(username); ok {
		return b.identities[account.Username]
	}
	return nil
}

// Authenticate implements Authenticator.
func (b *Basic) Authenticate(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	if creds.Scheme != "basic" {
		return nil, ErrNoCredentials
	}
	username, password, err := ParseBasic(creds.Value)
	if err != nil {
		return nil, &Rejection{Detail: DetailWrongPassword, Reason: err.Error()}
	}
	account, err := b.verifier.Check(ctx, string(policy.Basic), b.users, username, password, creds.Client)
	if errors.Is(err, ErrRejected) {
		return nil, &Rejection{Detail: DetailWrongPassword, Reason: "wrong Basic username or password"}
	}
	if err != nil {
		return nil, err
	}
	id, ok := b.identities[account.Username]
	if !ok {
		return nil, &Rejection{Detail: DetailWrongPassword, Reason: "no Basic user of that name"}
	}
	creds.basicVersion = account.Version()
	return id, nil
}

// Alive implements Authenticator. A verified password stays valid while the
// stored hash is the same.
func (b *Basic) Alive(_ context.Context, creds *Credentials) (*policy.Identity, error) {
	if creds.Scheme != "basic" {
		return nil, ErrNoCredentials
	}
	username, _, err := ParseBasic(creds.Value)
	if err != nil {
		return nil, &Rejection{Detail: DetailWrongPassword, Reason: err.Error()}
	}
	account, ok := b.users.Lookup(username)
	if !ok || creds.basicVersion == "" || account.Version() != creds.basicVersion {
		return nil, &Rejection{
			Detail: DetailWrongPassword, Reason: "the Basic user was removed or has another password",
		}
	}
	return b.identities[account.Username], nil
}

// Challenge implements Authenticator.
func (b *Basic) Challenge(*Credentials) Challenge { return b.challenge }

// EnteredName returns the user name that a user or a program entered, without the space around it
// and in the form in which names are compared.
func EnteredName(name string) string { return policy.NormalName(strings.TrimSpace(name)) }

// ParseBasic decodes the value of Basic credentials (RFC 7617, section 2). The
// user name ends at the first colon; see EnteredName. Both parts must be UTF-8 without
// control characters.
func ParseBasic(value string) (username, password string, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || strings.ContainsAny(value, "\r\n") { // base64 skips line breaks
		return "", "", errors.New("basic credentials are not valid base64")
	}
	text := string(raw)
	username, password, ok := strings.Cut(text, ":")
	switch {
	case !ok:
		return "", "", errors.New("basic credentials hold no colon")
	case !utf8.ValidString(text):
		return "", "", errors.New("basic credentials are not valid UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }),
		strings.ContainsFunc(username, unicode.IsControl): // as in a configuration
		return "", "", errors.New("basic credentials hold a control character")
	}
	return EnteredName(username), password, nil
}
