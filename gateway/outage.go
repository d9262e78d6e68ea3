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
	// openGateEvery is the time between attempts to reach a store that was missing
	// at the start.
	openGateEvery = 250 * time.Millisecond
	// followEvery is the time between looks at what Redis has about accounts. As a rule
	// it is in memory. A user who is out on one instance is out on all within this
	// time, checkEvery and endingTime, which together are a second.
	followEvery = 250 * time.Millisecond
)

// Outage reports whether an error of Reload, or of New, means that the store
// did not answer: the same configuration may be good a moment later.
func Outage(err error) bool {
	_, missing := errors.AsType[*guard.Error](err)
	return missing
}

// openGate records in the store since when the accounts are as they are, and
// opens the gate of st. At the start, the gateway does not wait for a store on
// another machine: the gate stays closed.
func (g *Gateway) openGate(st, old *state) error {
	ctx, cancel := context.WithTimeout(context.Background(), epochTime)
	defer cancel()
	var err error
	if accounts, now := st.mechanisms.Accounts, g.storage.now(); st.rebuilds(old) {
		err = accounts.AdoptEpochs(ctx, g.storage.guarded, now, old.mechanisms.Accounts)
	} else {
		err = accounts.UpdateEpochs(ctx, g.storage.guarded, now)
	}
	if err == nil {
		err = g.publishWithdrawals(ctx, st, old)
	}
	if err == nil {
		// A key that cannot be kept now refuses nobody: it is kept later.
		_ = st.mechanisms.decoys.Share(ctx, g.storage.guarded)
		st.gate.Open()
		return nil
	}
	err = fmt.Errorf("accounts: %w", err)
	if Outage(err) && old == nil && st.config.Store.Driver == config.StoreRedis {
		g.service.Logger.Error("requests that need a login are refused until Redis answers; start it, or correct store.addresses", "error", err.Error())
		return nil
	}
	return err
}

// openGateLater opens the gate when the store answers.
func (g *Gateway) openGateLater(ctx context.Context) {
	logger := g.service.Logger
	ticker := time.NewTicker(openGateEvery)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := g.tryGate(ctx)
		if err == nil {
			logger.Info("Redis answers: logins are accepted")
			return
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			logger.Warn("Redis cannot be used yet", "error", text)
			last = text
		}
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
			continue // openGateLater reads everything
		}
		_ = running.mechanisms.decoys.Share(ctx, g.storage.raw) // Redis may have lost it. An outage is reported elsewhere
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
	g.service.Logger.Warn("the account epochs are taken over from Redis: it has lost data, or another instance was reloaded with other accounts")
	return nil
}

// tryGate opens the gate if the store answers.
func (g *Gateway) tryGate(ctx context.Context) error {
	running := g.state.Load()
	if running.gate.IsOpen() {
		return nil
	}
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
