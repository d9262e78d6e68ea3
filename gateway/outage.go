package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store/guard"
)

const (
	// recordTime bounds how long a build waits for the store.
	recordTime = 5 * time.Second
	// settleEvery is the time between attempts to reach a store that was missing at the
	// start, or could not be written at a reload.
	settleEvery = 250 * time.Millisecond
	// recordEvery is the same while users are served: no request waits for it.
	recordEvery = 2 * time.Second
)

// isOutage reports whether an error of a build means that the store
// did not answer: the same configuration may be good a moment later.
func isOutage(err error) bool {
	_, missing := errors.AsType[*guard.Error](err)
	return missing
}

// openGate records in the store since when the accounts are as they are, and
// opens the gate of st. A change that cannot be recorded applies here all the same, because a
// removed account must not stay for that; settle records it later. If the change must be durable,
// it is an error. At the start, the gateway does not wait for a store on another machine: the gate
// stays closed.
func (g *Gateway) openGate(st, old *state, durable bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	err := g.record(ctx, st, old)
	local := st.mechanisms.Accounts
	switch {
	case err == nil:
		g.shareDecoys(ctx, st)
		st.gate.Open()
		g.forgetPasskeys(ctx, st, old)
		return nil
	case durable:
		return err
	case old.config == st.config && (old.gate.IsOpen() || !local.HasTimes()):
		return err // the same runs already
	case local.HasTimes():
		st.gate.Open()
		g.service.Logger.Error("the accounts apply as they are configured, "+
			"but what has changed cannot be recorded in the store; it is tried again", "error", err.Error())
		return nil
	case isOutage(err) && st.config.Store.Driver == config.StoreRedis:
		if old.isNone() {
			g.service.Logger.Error("requests that need a login are refused until Redis can be used",
				"error", err.Error())
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

// forgetPasskeys removes the records of passkeys that are gone. A record that cannot be removed
// does no harm, so it is only logged.
func (g *Gateway) forgetPasskeys(ctx context.Context, st, old *state) {
	if old.isNone() {
		return
	}
	if err := st.mechanisms.Proofs.Forget(ctx, old.mechanisms.Proofs); err != nil {
		g.service.Logger.Warn("the counters of removed passkeys stay in the store", "error", err.Error())
	}
}

// record records the accounts of st in the store, and their withdrawals.
func (g *Gateway) record(ctx context.Context, st, old *state) error {
	r := accounts.Reload{Now: g.storage.now(), Loaded: st.loaded, Changes: st.changes()}
	if !old.isNone() {
		r.Running = old.mechanisms.Accounts
		r.Rebuild = st.isRebuildOf(old) && r.Running.Stored()
	}
	if err := st.mechanisms.Accounts.RecordChanges(ctx, g.storage.guarded, r); err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	st.announced = st.config
	return nil
}

// settled reports whether the store has all records about st.
func (st *state) settled() bool {
	return st.gate.IsOpen() && st.mechanisms.Accounts.Stored()
}

// settle opens the gate, and makes up for missing records, when the store answers.
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
		err := g.storage.ping(ctx) // costs less than a build
		if err == nil {
			err = g.rebuild(running)
		}
		switch {
		case err == nil:
			last = ""
			logSettled(g.service.Logger, running, g.state.Load())
		case err.Error() != last && ctx.Err() == nil:
			last = err.Error()
			g.service.Logger.Warn("the store cannot be used yet", "error", last)
		}
	}
}

// logSettled logs the end of an outage between two states. Another reload may have replaced the
// first one, and may have recorded nothing.
func logSettled(logger *slog.Logger, before, now *state) {
	switch {
	case now.gate.IsOpen() && !before.gate.IsOpen():
		logger.Info("Redis answers: logins are accepted")
	case now.settled():
		logger.Info("the store can be used: what has changed about accounts is recorded")
	}
}

// rebuild reloads the configuration of running, unless another reload has replaced it.
func (g *Gateway) rebuild(running *state) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if g.state.Load() != running {
		return nil
	}
	return g.reload(reload{
		load: func() (*config.Config, error) { return running.config, nil }, loaded: running.loaded,
	})
}
