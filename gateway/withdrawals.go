package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"authgate/gateway/accounts"
	"authgate/gateway/config"
	"authgate/gateway/mechanism"
)

// users are the users of a configuration.
type users struct{ local, basic []accounts.Account }

func usersOf(cfg *config.Config) users {
	return users{slices.Clone(cfg.Accounts.Users), mechanism.BasicUsers(cfg)}
}

// apply takes away what other instances have withdrawn since the configuration was
// loaded, and returns what that is.
func (u users) apply(w *accounts.Withdrawals, loaded time.Time) (withdrawn []string) {
	return slices.Concat(w.Apply(accounts.KindLocal, u.local, loaded), w.Apply(accounts.KindBasic, u.basic, loaded))
}

// shares reports whether other instances may use the store.
func shares(cfg *config.Config) bool { return cfg.Store.Driver == config.StoreRedis }

// effectiveUsers returns the users of a configuration without what other instances
// have withdrawn since it was loaded. At the start, there is nothing. If the store does not
// answer, that is left to followWithdrawals, unless the configuration runs already.
func (g *Gateway) effectiveUsers(
	cfg *config.Config, loaded time.Time, old *state,
) (u users, withdrawn []string, err error) {
	u = usersOf(cfg)
	if old == nil || !shares(cfg) {
		return u, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), epochTime)
	defer cancel()
	w, err := accounts.ReadWithdrawals(ctx, g.storage.guarded)
	switch {
	case err == nil:
		return u, u.apply(w, loaded), nil
	case old.config != cfg:
		return u, nil, nil
	}
	return users{}, nil, fmt.Errorf("accounts: %w", err)
}

// rebuilds reports whether st has the configuration of old, which served.
func (st *state) rebuilds(old *state) bool {
	return old != nil && old.gate.IsOpen() && old.config == st.config
}

// publishWithdrawals tells the other instances what st takes from users: compared
// with what they were told last, and at the start that accounts are disabled.
func (g *Gateway) publishWithdrawals(ctx context.Context, st *state) error {
	if !shares(st.config) || st.told == st.config {
		return nil
	}
	now := usersOf(st.config)
	local := accounts.Change{Kind: accounts.KindLocal, After: now.local}
	basic := accounts.Change{Kind: accounts.KindBasic, After: now.basic}
	if st.told != nil {
		before := usersOf(st.told)
		local.Before, basic.Before = before.local, before.basic
	}
	if err := accounts.UpdateWithdrawals(ctx, g.storage.guarded, st.loaded, local, basic); err != nil {
		return err
	}
	st.told = st.config
	return nil
}

// lastLook is what followOthers found last.
type lastLook struct {
	state     *state // which agrees with withdrawn
	withdrawn *accounts.Withdrawals
	told      string // the failure that was logged
}

// followWithdrawals applies what other instances have withdrawn.
func (g *Gateway) followWithdrawals(ctx context.Context, running *state, last *lastLook) error {
	w, err := accounts.ReadWithdrawals(ctx, g.storage.raw)
	if err != nil {
		return nil // an outage is reported elsewhere, and a damaged record by the reload
	}
	if w.Missing() && last.withdrawn != nil {
		_ = last.withdrawn.Restore(ctx, g.storage.raw) // Redis has lost data. If this fails, the next time
		return nil
	}
	if last.state == running && w.Equal(last.withdrawn) {
		return nil
	}
	withdrawn := usersOf(running.config).apply(w, running.loaded)
	if !slices.Equal(withdrawn, running.withdrawn) {
		if err := g.rebuild(running); err != nil {
			return err
		}
		g.service.Logger.Warn("another instance was reloaded with other accounts, and what it has withdrawn ends here "+
			"too; reload this instance", "withdrawn", withdrawn)
		return nil // the next look compares with the new state
	}
	last.state, last.withdrawn = running, w
	return nil
}
