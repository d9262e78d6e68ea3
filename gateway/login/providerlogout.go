package login

import (
	"context"
	"errors"
	"fmt"

	"authgate/gateway/provider"
	"authgate/gateway/store"
)

// ErrReplayed: the logout token was used before.
var ErrReplayed = errors.New("auth: the logout token was used before")

// BackChannel ends the logins that a verified logout token of the provider is
// about, and returns those that were alive (OpenID Connect Back-Channel Logout
// 1.0, section 2.7). After an error that is not ErrReplayed some of them may
// be, and the token can be sent again.
func (u *Users) BackChannel(ctx context.Context, name string, token *provider.LogoutToken) ([]*Login, error) {
	p, ok := u.options.Providers[name]
	if !ok {
		return nil, fmt.Errorf("provider %s: not configured", name)
	}
	used := usedPrefix + hashed([]byte(p.Issuer()+"\x00"+token.ID))
	switch _, err := u.logins.store.Get(ctx, used); {
	case err == nil:
		return nil, ErrReplayed
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("looking for a logout token: %w", err)
	}
	var keys []string
	if token.Session == "" {
		keys = append(keys, personGroup(name, p.Issuer(), token.Subject))
	} else {
		keys = append(keys, sessionGroup(name, p.Issuer(), token.Session))
		if token.Subject != "" { // a login without a session's name may be of this one
			keys = append(keys, unnamedGroup(name, p.Issuer(), token.Subject))
		}
	}
	var ended []*Login
	for _, key := range keys {
		more, err := u.logins.groups.end(ctx, key, true)
		ended = append(ended, more...)
		if err != nil {
			return ended, err
		}
	}
	until := u.logins.now().Add(token.Expires.Sub(u.options.Now())) // from the local clock to that of the store
	if err := u.logins.store.Put(store.Ending(ctx), used, []byte{1}, until); err != nil {
		return ended, fmt.Errorf("noting a logout token: %w", err)
	}
	return ended, nil
}

// FrontChannel ends the logins of one session at the provider, and returns
// those that were alive (OpenID Connect Front-Channel Logout 1.0, section 3).
// Anybody may have asked for it, so a session that is not known leaves no
// trace.
func (u *Users) FrontChannel(ctx context.Context, name, sid string) ([]*Login, error) {
	p, ok := u.options.Providers[name]
	if !ok {
		return nil, fmt.Errorf("provider %s: not configured", name)
	}
	return u.logins.groups.end(ctx, sessionGroup(name, p.Issuer(), sid), false)
}
