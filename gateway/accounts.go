package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/policy"
)

// users are the users of a configuration.
type users struct{ local, basic []accounts.Account }

func usersOf(cfg *config.Config) users {
	return users{slices.Clone(cfg.Accounts.Users), mechanism.BasicUsers(cfg)}
}

// apply removes the accounts and roles that other instances have withdrawn since the configuration
// was loaded, and returns their names.
func (u users) apply(c *accounts.Changes, loaded time.Time) (withdrawn []string) {
	return slices.Concat(c.Apply(accounts.KindLocal, u.local, loaded), c.Apply(accounts.KindBasic, u.basic, loaded))
}

// shares reports whether other instances may use the store.
func shares(cfg *config.Config) bool { return cfg.Store.Driver == config.StoreRedis }

// effectiveUsers returns the users of a configuration without the accounts and roles that other
// instances have withdrawn since it was loaded. At the start, there is nothing. If the store does
// not answer, that is left to followChanges, unless the configuration runs already.
func (g *Gateway) effectiveUsers(
	cfg *config.Config, loaded time.Time, old *state,
) (u users, withdrawn []string, err error) {
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

// isRebuildOf reports whether st has the configuration of old, which served.
func (st *state) isRebuildOf(old *state) bool {
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

// followEvery is the time between looks at the record of accounts in Redis. As a rule it is in
// memory. A user who is out on one instance is out on all within this time, the time between two
// checks of a stream and streams.EndingTime, which together are a second.
const followEvery = 250 * time.Millisecond

// changesFollower takes over from Redis the changes of the accounts of this instance.
type changesFollower struct {
	gateway *Gateway
	logged  string // the failure that was logged last
}

// run looks at the record in Redis until ctx ends.
func (f *changesFollower) run(ctx context.Context) {
	g := f.gateway
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		running := g.state.Load()
		if !running.gate.IsOpen() {
			continue // settle reads everything
		}
		// Redis may have lost the key. An outage is reported elsewhere.
		_ = running.mechanisms.Decoys.Share(ctx, g.storage.raw)
		err := f.followChanges(ctx, running)
		if text := fmt.Sprint(err); err != nil && text != f.logged {
			g.service.Logger.Warn("what Redis has about accounts cannot be taken over; the gateway tries again",
				"error", text)
			f.logged = text
		}
	}
}

// followChanges takes over from Redis how accounts have changed: the withdrawals by other
// instances, and since when accounts are as they are. Redis may come back without that, and another
// instance that starts then begins anew. Until all agree, each refuses the logins of the others.
func (f *changesFollower) followChanges(ctx context.Context, running *state) error {
	g, local := f.gateway, running.mechanisms.Accounts
	changes, err := local.FollowChanges(ctx, g.storage.raw)
	if err != nil || changes == nil {
		return nil // an outage is reported elsewhere, and a damaged record by the reload
	}
	withdrawn, disagrees := usersOf(running.config).apply(changes, running.loaded), local.Disagrees(changes)
	if !disagrees && slices.Equal(withdrawn, running.withdrawn) {
		local.Agree(changes)
		return nil
	}
	if err := g.rebuild(running); err != nil {
		return err
	}
	if disagrees {
		g.service.Logger.Warn("the account epochs are taken over from Redis: it has lost data, " +
			"or another instance was reloaded with other accounts")
	}
	if !slices.Equal(withdrawn, running.withdrawn) {
		g.service.Logger.Warn("another instance was reloaded with other accounts, and what it has withdrawn ends here "+
			"too; reload this instance", "withdrawn", withdrawn)
	}
	return nil // the next look compares with the new state
}

// auditAccounts records which accounts a new configuration adds, removes, disables, enables or gives
// other roles, but for edited. An account that has ended is as if disabled, and has no role that has ended.
func (g *Gateway) auditAccounts(old, st *state, who, edited string) {
	if old.config == st.config || old.isNone() {
		return
	}
	now := g.service.Now()
	off := func(a *accounts.Account) bool { return a.Disabled || a.Ended(now) }
	record := func(change string, a *accounts.Account) {
		attrs := []slog.Attr{slog.String("change", change), slog.String("by", who),
			slog.String("subject", policy.LocalProvider+":"+a.Username)}
		if change == "add" || change == "roles" {
			roles, _ := a.Current(now)
			attrs = append(attrs, slog.Any("roles", roles))
		}
		g.service.Events.Record("account_changed", attrs...)
	}
	before := map[string]*accounts.Account{}
	for i := range old.config.Accounts.Users {
		a := &old.config.Accounts.Users[i]
		before[policy.NormalName(a.Username)] = a
	}
	for i := range st.config.Accounts.Users {
		a := &st.config.Accounts.Users[i]
		name := policy.NormalName(a.Username)
		was := before[name]
		delete(before, name)
		switch {
		case name == policy.NormalName(edited):
			continue
		case was == nil:
			record("add", a)
			continue
		case a.Disabled && !was.Disabled, off(a) && !off(was):
			record("disable", a)
		case was.Disabled && !a.Disabled, off(was) && !off(a):
			record("enable", a)
		}
		if !sameRoles(was, a, now) {
			record("roles", a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if name != policy.NormalName(edited) {
			record("remove", before[name])
		}
	}
}

func sameRoles(a, b *accounts.Account, now time.Time) bool {
	of, _ := a.Current(now)
	others, _ := b.Current(now)
	return slices.Equal(slices.Sorted(slices.Values(of)), slices.Sorted(slices.Values(others)))
}

// outdatedTime is the time limit for ending the logins of accounts that a reload has changed.
const outdatedTime = time.Minute

// endOutdated ends the logins of those accounts that st does not have any more as old has
// them: removed, disabled, or with another password. They open nothing under st, so this only
// tells those who wait for the end of a login. An instance that only follows another ends none:
// the other does.
func (g *Gateway) endOutdated(old, st *state) {
	if old.config == st.config {
		return
	}
	g.background.Go(func() {
		var outdated []string
		for name, before := range old.mechanisms.Accounts.All() {
			now, ok := st.mechanisms.Accounts.Lookup(name)
			if !ok || now.LoginVersion() != before.LoginVersion() {
				outdated = append(outdated, name)
			}
		}
		g.endLoginsOf(outdated)
	})
}

// endLoginsOf ends those logins of accounts that open nothing any more.
func (g *Gateway) endLoginsOf(outdated []string) {
	if len(outdated) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(g.backgroundCtx, outdatedTime)
	defer cancel()
	running := func() *login.Overview {
		now := g.state.Load() // another one, after the next reload
		return mechanism.Overview(now.mechanisms, now.federation)
	}
	if err := login.EndOutdated(ctx, running, outdated); err != nil {
		g.service.Logger.Warn("logins of accounts that have changed could not all be ended; they open nothing, "+
			"but applications are not told", "error", err.Error())
	}
}

// followEnds tells of accounts and roles when they end by themselves, until ctx does. They do so without it.
func (g *Gateway) followEnds(ctx context.Context) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for last := g.storage.now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := g.storage.now()
		if ended := g.state.Load().mechanisms.Accounts.Ends(last, now); len(ended) > 0 {
			g.tellEnds(ctx, ended)
		}
		if now.After(last) {
			last = now
		}
	}
}

// tellEnds tells the audit log of accounts and roles that have ended, and ends the logins of the accounts.
// Those of an account that ends later at another instance with a newer configuration stay.
func (g *Gateway) tellEnds(ctx context.Context, ended []accounts.End) {
	var names []string
	for _, end := range ended {
		subject := slog.String("subject", policy.LocalProvider+":"+end.Username)
		if end.Role != "" {
			g.service.Events.Record("role_ended", subject, slog.String("role", end.Role))
			continue
		}
		g.service.Events.Record("account_ended", subject)
		names = append(names, end.Username)
	}
	if len(names) == 0 {
		return
	}
	g.background.Go(func() {
		local := g.state.Load().mechanisms.Accounts
		if changes, err := accounts.ReadChanges(ctx, g.storage.raw); err == nil {
			names = slices.DeleteFunc(names, func(name string) bool { return local.PutOff(changes, name) })
		}
		g.endLoginsOf(names)
	})
}
