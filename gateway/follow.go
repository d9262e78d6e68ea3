package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// followEvery is the time between looks at the record of accounts in Redis. As a rule it is in
// memory. A user who is out on one instance is out on all within this time, the time between two
// checks of a stream and streams.EndingTime, which together are a second.
const followEvery = 250 * time.Millisecond

// follower takes over from Redis the changes of the accounts of this instance.
type follower struct {
	gateway *Gateway
	told    string // the failure that was logged last
}

// run looks at the record in Redis until ctx ends.
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
		// Redis may have lost the key. An outage is reported elsewhere.
		_ = running.mechanisms.Decoys.Share(ctx, g.storage.raw)
		err := f.followChanges(ctx, running)
		if text := fmt.Sprint(err); err != nil && text != f.told {
			g.service.Logger.Warn("what Redis has about accounts cannot be taken over; the gateway tries again",
				"error", text)
			f.told = text
		}
	}
}

// followChanges takes over from Redis how accounts have changed: the withdrawals by other
// instances, and since when accounts are as they are. Redis may come back without that, and another
// instance that starts then begins anew. Until all agree, each refuses the logins of the others.
func (f *follower) followChanges(ctx context.Context, running *state) error {
	g, local := f.gateway, running.mechanisms.Accounts
	changes, err := local.FollowChanges(ctx, g.storage.raw)
	if err != nil || changes == nil {
		return nil // an outage is reported elsewhere, and a damaged record by the reload
	}
	taken, moved := usersOf(running.config).apply(changes, running.loaded), local.Moved(changes)
	if !moved && slices.Equal(taken, running.taken) {
		local.Agree(changes)
		return nil
	}
	if err := g.rebuild(running); err != nil {
		return err
	}
	if moved {
		g.service.Logger.Warn("the account epochs are taken over from Redis: it has lost data, " +
			"or another instance was reloaded with other accounts")
	}
	if !slices.Equal(taken, running.taken) {
		g.service.Logger.Warn("another instance was reloaded with other accounts, and what it has withdrawn ends here "+
			"too; reload this instance", "withdrawn", taken)
	}
	return nil // the next look compares with the new state
}
