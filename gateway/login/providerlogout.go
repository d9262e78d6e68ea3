package login

import (
	"context"
	"errors"
	"fmt"

	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

// BackChannel ends the logins that a verified logout token names, and returns those that
// were valid (OpenID Connect Back-Channel Logout 1.0, section 2.7). The error is
// provider.ErrReplayed if the token was used before. After any other error some logins may remain,
// and the provider can send the token again.
func (u *Users) BackChannel(ctx context.Context, name string, token *provider.LogoutToken) ([]*Login, error) {
	p, ok := u.options.Providers[name]
	if !ok {
		return nil, fmt.Errorf("provider %s: not configured", name)
	}
	used := usedPrefix + record.Hash([]byte(p.Issuer()+"\x00"+token.ID))
	switch _, err := u.logins.store.Get(ctx, used); {
	case err == nil:
		return nil, provider.ErrReplayed
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("looking up a logout token: %w", err)
	}
	var keys []string
	if token.Session == "" {
		keys = append(keys, personGroup(name, p.Issuer(), token.Subject))
	} else {
		keys = append(keys, sessionGroup(name, p.Issuer(), token.Session))
		if token.Subject != "" { // a login without a session identifier may belong to this session
			keys = append(keys, unnamedGroup(name, p.Issuer(), token.Subject))
		}
	}
	var ended []*Login
	for _, key := range keys {
		more, err := u.logins.groups.endLogins(ctx, key, true, "")
		ended = append(ended, more...)
		if err != nil {
			return ended, err
		}
	}
	if token.Subject != "" && u.loggedOut != nil {
		if err := u.loggedOut(ctx, name, token.Subject); err != nil {
			return ended, err
		}
	}
	until := u.logins.now().Add(token.Expires.Sub(u.options.Now())) // the token's time is by the local clock
	if err := u.logins.store.Put(store.Ending(ctx), used, []byte{1}, until); err != nil {
		return ended, fmt.Errorf("storing a logout token: %w", err)
	}
	return ended, nil
}

// FrontChannel ends the logins of one session at the provider, and returns those that were
// valid (OpenID Connect Front-Channel Logout 1.0, section 3). Anyone can send such a
// request, so an unknown session leaves no trace in the store.
func (u *Users) FrontChannel(ctx context.Context, name, sid string) ([]*Login, error) {
	p, ok := u.options.Providers[name]
	if !ok {
		return nil, fmt.Errorf("provider %s: not configured", name)
	}
	return u.logins.groups.endLogins(ctx, sessionGroup(name, p.Issuer(), sid), false, "")
}
