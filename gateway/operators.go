package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/gateway/store"
	"authgate/policy"
)

// atProviderTime bounds how long an operator waits for a provider to end a login
// too.
const atProviderTime = 10 * time.Second

// Operators has the commands of operators that need a running gateway.
type Operators struct{ gateway *Gateway }

// Operators returns the commands of the gateway for operators.
func (g *Gateway) Operators() Operators { return Operators{g} }

// EachLogin calls f for each live login of all users, in no order, one call at a
// time; see login.Overview.Each. A store that does not answer is an *guard.Error.
func (o Operators) EachLogin(ctx context.Context, f func(*login.UserLogin) error) error {
	st := o.gateway.state.Load()
	return mechanism.Overview(st.mechanisms, st.federation).Each(ctx, f)
}

// EndLogin ends a login by its id for an operator, as a logout does. It returns
// false if there is none. After an error the login may still be valid.
func (o Operators) EndLogin(ctx context.Context, id string) (bool, error) {
	st := o.gateway.state.Load()
	ended, err := o.endLogin(ctx, st, id)
	return ended != nil, err
}

// endLogin is EndLogin, and returns the login.
func (o Operators) endLogin(ctx context.Context, st *state, id string) (*login.Login, error) {
	ended, err := st.mechanisms.Logins.End(store.Ending(ctx), id)
	if err != nil || ended == nil {
		return nil, err
	}
	tellEnded(&o.gateway.service, ended)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atProviderTime)
	defer cancel()
	if _, err := st.federation.SignOut(ctx, ended); err != nil {
		o.gateway.service.Logger.Warn("signing out at the provider failed; the session here has ended",
			"subject", ended.Subject(), "login", ended.ID, "error", err.Error())
	}
	return ended, nil
}

// tellEnded tells metrics and log that an operator has ended a login.
func tellEnded(service *web.Service, ended *login.Login) {
	if ended.HasTokens() {
		service.Metrics.Token(web.TokenRevoked)
	}
	service.Events.Record("logout", slog.String("by", "operator"),
		slog.String("subject", ended.Subject()), slog.String("login", ended.ID))
}

// EndLoginsOf ends all logins of a user for an operator, and returns how many there were. user is
// a local account, or PROVIDER:NAME. API tokens stay. After an error some may still be valid.
func (o Operators) EndLoginsOf(ctx context.Context, user string) (int, error) {
	st := o.gateway.state.Load()
	overview := mechanism.Overview(st.mechanisms, st.federation)
	username := user
	// Logins know the name as the account has it, which may be another form.
	if account, ok := st.mechanisms.Accounts.Lookup(user); ok {
		username = account.Username
	}
	ended, err := overview.EndAll(store.Ending(ctx), username)
	for _, login := range ended {
		tellEnded(&o.gateway.service, login)
	}
	if err != nil || !strings.Contains(user, ":") {
		return len(ended), err
	}
	n, subjects, err := o.endDelegatedOf(ctx, overview, user)
	if st.oauth != nil && len(st.config.OAuth.CrossApp) > 0 {
		// Clients have tokens for the user without a login, too.
		clients, failed := st.oauth.Consents.EndVouched(ctx, user, subjects...)
		n, err = n+clients, errors.Join(err, failed)
	}
	return len(ended) + n, err
}

// endDelegatedOf ends the logins of a provider's user, and returns how many there were, and of whom. The
// name is known from the provider's last claims, so it must look at all logins.
func (o Operators) endDelegatedOf(
	ctx context.Context, overview *login.Overview, user string,
) (n int, subjects []string, err error) {
	var ids []string
	err = overview.Each(ctx, func(l *login.UserLogin) error {
		if l.Provider != policy.LocalProvider && l.User == user {
			ids = append(ids, l.ID)
		}
		return nil
	})
	for _, id := range ids {
		ended, failed := o.endLogin(ctx, o.gateway.state.Load(), id)
		if ended != nil {
			n, subjects = n+1, append(subjects, ended.Subject())
		}
		err = errors.Join(err, failed)
	}
	return n, subjects, err
}

// Invite makes an invitation for an account of accounts.file, and returns its link. The error
// is accounts.ErrNotInFile if there is no such account, or it is disabled, and
// accounts.ErrNotWritable if its password could not be set.
func (o Operators) Invite(ctx context.Context, username string) (string, error) {
	st := o.gateway.state.Load()
	local := editor{o.gateway, st.config}
	account, ok := st.mechanisms.Accounts.Lookup(username)
	switch {
	case !ok || !local.Has(account.Username):
		return "", accounts.ErrNotInFile
	case !local.Writable():
		return "", accounts.ErrNotWritable
	}
	link, err := st.mechanisms.Invited.Invite(ctx, account.Username)
	if err == nil {
		o.gateway.service.Events.Record("invited", slog.String("by", "operator"),
			slog.String("subject", policy.LocalProvider+":"+account.Username))
	}
	return link, err
}
