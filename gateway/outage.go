package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
)

const (
	// epochTime bounds how long a build waits for the store.
	epochTime = 5 * time.Second
	// settleEvery is the time between attempts to reach a store that was missing at the
	// start, or could not be written at a reload.
	settleEvery = 250 * time.Millisecond
	// recordEvery is the same while users are served: no request waits for it.
	recordEvery = 2 * time.Second
	// followEvery is the time between looks at what Redis has about accounts. As a rule
	// it is in memory. A user who is out on one instance is out on all within this
	// time, streams.CheckEvery and streams.EndingTime, which together are a second.
	followEvery = 250 * time.Millisecond
)

// isOutage reports whether an error of a build means that the store
// did not answer: the same configuration may be good a moment later.
func isOutage(err error) bool {
	_, missing := errors.AsType[*guard.Error](err)
	return missing
}

// openGate records in the store since when the accounts are as they are, and
// opens the gate of st. What cannot be recorded applies here all the same, because a
// removed account must not stay for that; settle records it later. With strict it is an
// error. At the start, the gateway does not wait for a store on another machine: the gate
// stays closed.
func (g *Gateway) openGate(st, old *state, strict bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), epochTime)
	defer cancel()
	err := g.record(ctx, st, old)
	accounts := st.mechanisms.Accounts
	switch {
	case err == nil:
		g.shareDecoys(ctx, st)
		st.gate.Open()
		return nil
	case strict:
		return err
	case old != nil && old.config == st.config && (old.gate.IsOpen() || !accounts.Known()):
		return err // the same runs already
	case accounts.Known():
		st.gate.Open()
		g.service.Logger.Error("the accounts apply as they are configured, "+
			"but what has changed cannot be recorded in the store; it is tried again", "error", err.Error())
		return nil
	case isOutage(err) && st.config.Store.Driver == config.StoreRedis:
		if old == nil {
			g.service.Logger.Error("requests that need a login are refused until Redis answers; "+
				"start it, or correct store.addresses", "error", err.Error())
		}
		return nil
	}
	return err
}

// shareDecoys makes unknown names cost the same on all instances. A key that cannot be kept
// refuses no request, so it is only told, and kept by the next reload or start.
func (g *Gateway) shareDecoys(ctx context.Context, st *state) {
	if err := st.mechanisms.Decoys.Share(ctx, g.storage.guarded); err != nil {
		g.service.Logger.Warn("what unknown user names cost may differ from other instances, or change at a restart",
			"error", err.Error())
	}
}

// record records the accounts of st in the store, and what they take from users.
func (g *Gateway) record(ctx context.Context, st, old *state) error {
	var err error
	accounts, now := st.mechanisms.Accounts, g.storage.now()
	switch {
	case old == nil:
		err = accounts.UpdateEpochs(ctx, g.storage.guarded, now)
	case st.rebuilds(old) && old.mechanisms.Accounts.Stored():
		err = accounts.AdoptEpochs(ctx, g.storage.guarded, now, old.mechanisms.Accounts)
	default:
		err = accounts.ReplaceEpochs(ctx, g.storage.guarded, now, old.mechanisms.Accounts)
	}
	if err == nil {
		err = g.publishWithdrawals(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	return nil
}

// settled reports whether the store has what there is to record about st.
func (st *state) settled() bool {
	return st.gate.IsOpen() && st.mechanisms.Accounts.Stored() && (!shares(st.config) || st.told == st.config)
}

// settle opens the gate, and records what could not be recorded, when the store answers.
func (g *Gateway) settle(ctx context.Context) {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	var last string
	var tried time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		running := g.state.Load()
		if running.settled() || running.gate.IsOpen() && time.Since(tried) < recordEvery {
			continue
		}
		tried = time.Now()
		err := g.trySettle(ctx, running)
		switch {
		case err == nil:
			last = ""
			g.logSettled(running, g.state.Load())
		case err.Error() != last && ctx.Err() == nil:
			last = err.Error()
			g.service.Logger.Warn("the store cannot be used yet", "error", last)
		}
	}
}

// logSettled logs what has become possible between two states. Another reload may have
// replaced the first one, and may have recorded nothing.
func (g *Gateway) logSettled(before, now *state) {
	switch {
	case now.gate.IsOpen() && !before.gate.IsOpen():
		g.service.Logger.Info("Redis answers: logins are accepted")
	case now.settled():
		g.service.Logger.Info("the store can be used: what has changed about accounts is recorded")
	}
}

// followOthers takes over from Redis what concerns the accounts of this instance.
func (g *Gateway) followOthers(ctx context.Context) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	var last lastLook
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
		err := cmp.Or(g.followEpochs(ctx, running), g.followWithdrawals(ctx, g.state.Load(), &last))
		if text := fmt.Sprint(err); err != nil && text != last.told {
			g.service.Logger.Warn("what Redis has about accounts cannot be taken over; the gateway tries again", "error", text)
			last.told = text
		}
	}
}

// followEpochs keeps the account epochs the same here and in Redis. Redis may come
// back without them, and another instance that starts then begins new ones. Until
// all have the same, each refuses the logins of the others.
func (g *Gateway) followEpochs(ctx context.Context, running *state) error {
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

// trySettle rebuilds the running state if the store can be written.
func (g *Gateway) trySettle(ctx context.Context, running *state) error {
	if pinger, ok := g.storage.raw.(store.Pinger); ok { // costs less than a build
		if err := pinger.Ping(ctx); err != nil {
			return err
		}
	}
	return g.rebuild(running)
}

// rebuild reloads the configuration of running, unless another reload has replaced it.
func (g *Gateway) rebuild(running *state) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if g.state.Load() != running {
		return nil
	}
	return g.reload(func() (*config.Config, error) { return running.config, nil }, running.loaded, nil)
}
