package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
)

// users are the users of a configuration.
type users struct{ local, basic []accounts.Account }

func usersOf(cfg *config.Config) users {
	return users{slices.Clone(cfg.Accounts.Users), mechanism.BasicUsers(cfg)}
}

// apply removes the accounts and roles that other instances have withdrawn since the configuration
// was loaded, and returns their names.
func (u users) apply(c *accounts.Changes, loaded time.Time) (taken []string) {
	return slices.Concat(c.Apply(accounts.KindLocal, u.local, loaded), c.Apply(accounts.KindBasic, u.basic, loaded))
}

// shares reports whether other instances may use the store.
func shares(cfg *config.Config) bool { return cfg.Store.Driver == config.StoreRedis }

// effectiveUsers returns the users of a configuration without the accounts and roles that other
// instances have withdrawn since it was loaded. At the start, there is nothing. If the store does
// not answer, that is left to followChanges, unless the configuration runs already.
func (g *Gateway) effectiveUsers(
	cfg *config.Config, loaded time.Time, old *state,
) (u users, taken []string, err error) {
	u = usersOf(cfg)
	if old.isNone() || !shares(cfg) {
		return u, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	changes, err := accounts.ReadChanges(ctx, g.storage.guarded)
	switch {
	case err == nil:
		return u, u.apply(changes, loaded), nil
	case old.config != cfg:
		return u, nil, nil
	}
	return users{}, nil, fmt.Errorf("accounts: %w", err)
}

// rebuilds reports whether st has the configuration of old, which served.
func (st *state) rebuilds(old *state) bool {
	return old.config == st.config && old.gate.IsOpen()
}

// changes returns the changes that the other instances must learn: those since the last
// announcement, and at the start the disabled accounts.
func (st *state) changes() []accounts.Change {
	if !shares(st.config) || st.announced == st.config {
		return nil
	}
	now := usersOf(st.config)
	local := accounts.Change{Kind: accounts.KindLocal, After: now.local}
	basic := accounts.Change{Kind: accounts.KindBasic, After: now.basic}
	if st.announced != nil {
		before := usersOf(st.announced)
		local.Before, basic.Before = before.local, before.basic
	}
	return []accounts.Change{local, basic}
}
