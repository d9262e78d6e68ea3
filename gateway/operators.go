package gateway

import (
	"context"
	"log/slog"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/mechanism"
	"authgate/gateway/store"
	"authgate/gateway/web"
)

// atProviderTime bounds how long an operator waits for a provider to end a login
// too.
const atProviderTime = 10 * time.Second

// EachLogin calls f for each live login of all users, in no order, one call at a
// time; see login.Overview.Each. A store that does not answer is an *guard.Error.
func (g *Gateway) EachLogin(ctx context.Context, f func(*login.UserLogin) error) error {
	st := g.state.Load()
	return mechanism.Overview(st.mechanisms, st.federation).Each(ctx, f)
}

// EndLogin ends a login by its id for an operator, as a logout does. It returns
// false if there is none. After an error the login may still be valid.
func (g *Gateway) EndLogin(ctx context.Context, id string) (bool, error) {
	st := g.state.Load()
	ended, err := st.mechanisms.Logins.End(store.Ending(ctx), id)
	if err != nil || ended == nil {
		return false, err
	}
	if ended.HasTokens() {
		g.service.Metrics.Token(web.TokenRevoked)
	}
	g.service.Logger.LogAttrs(ctx, slog.LevelInfo, "audit", slog.String("event", "logout"), slog.String("by", "operator"),
		slog.String("subject", ended.Subject()), slog.String("login", ended.ID))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atProviderTime)
	defer cancel()
	if _, err := st.federation.SignOut(ctx, ended); err != nil {
		g.service.Logger.Warn("signing out at the provider failed; the session here has ended",
			"subject", ended.Subject(), "login", ended.ID, "error", err.Error())
	}
	return true, nil
}
