package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"authgate/gateway/accounts"
)

// followEvery is the time between looks at what Redis has about accounts. As a rule
// it is in memory. A user who is out on one instance is out on all within this time,
// the time between two checks of a stream and streams.EndingTime, which together are a
// second.
const followEvery = 250 * time.Millisecond

// follower takes over from Redis what concerns the accounts of this instance.
type follower struct {
	gateway   *Gateway
	state     *state                // which agrees with withdrawn
	withdrawn *accounts.Withdrawals // as the follower read them last; nil: not yet
	told      string                // the failure that was logged last
}

// run looks at what Redis has until ctx ends.
func (f *follower) run(ctx context.Context) {
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
		_ = running.mechanisms.Decoys.Share(ctx, g.storage.raw) // Redis may have lost it. An outage is reported elsewhere
		err := cmp.Or(f.followEpochs(ctx, running), f.followWithdrawals(ctx, g.state.Load()))
		if text := fmt.Sprint(err); err != nil && text != f.told {
			g.service.Logger.Warn("what Redis has about accounts cannot be taken over; the gateway tries again", "error", text)
			f.told = text
		}
	}
}

// followEpochs keeps the account epochs the same here and in Redis. Redis may come
// back without them, and another instance that starts then begins new ones. Until
// all have the same, each refuses the logins of the others.
func (f *follower) followEpochs(ctx context.Context, running *state) error {
	g := f.gateway
	// An outage is reported elsewhere, and a damaged record by the reload.
	if moved, err := running.mechanisms.Accounts.FollowEpochs(ctx, g.storage.raw); err != nil || !moved {
		return nil
	}
	if err := g.rebuild(running); err != nil {
		return err
	}
	g.service.Logger.Warn("the account epochs are taken over from Redis: it has lost data, or another instance was " +
		"reloaded with other accounts")
	return nil
}

// followWithdrawals applies what other instances have withdrawn.
func (f *follower) followWithdrawals(ctx context.Context, running *state) error {
	g := f.gateway
	w, err := accounts.ReadWithdrawals(ctx, g.storage.raw)
	if err != nil {
		return nil // an outage is reported elsewhere, and a damaged record by the reload
	}
	if w.Missing() && f.withdrawn != nil {
		_ = f.withdrawn.Restore(ctx, g.storage.raw) // Redis has lost data. If this fails, the next look tries again
		return nil
	}
	if f.state == running && w.Equal(f.withdrawn) {
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
	f.state, f.withdrawn = running, w
	return nil
}
