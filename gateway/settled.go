package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
)

const (
	// settleTime bounds what a build asks of the store.
	settleTime = 5 * time.Second
	// settleEvery is between attempts where the store was not there at the start.
	settleEvery = 250 * time.Millisecond
)

// Outage reports whether an error of Reload, or of New, means that the store
// did not answer: the same configuration may be good a moment later.
func Outage(err error) bool {
	_, missing := errors.AsType[*guard.Error](err)
	return missing
}

// settle finds out in the store since when the accounts are what they are. A
// start need not wait for a store on another machine, see guard.Gate.
func (g *Gateway) settle(st, old *state) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	err := st.accounts.UpdateEpochs(ctx, g.store, g.shared())
	if err == nil {
		st.store.Open()
		return nil
	}
	err = fmt.Errorf("accounts: %w", err)
	if Outage(err) && old == nil && st.config.Store.Driver == config.StoreRedis {
		g.logger.Error("requests that need a login are refused until Redis answers; start it, or correct store.addresses", "error", err.Error())
		return nil
	}
	return err
}

// settleLater settles the accounts as soon as the store is there.
func (g *Gateway) settleLater(ctx context.Context) {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := g.settleNow(ctx)
		if err == nil {
			g.logger.Info("Redis is there: logins are accepted")
			return
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			g.logger.Warn("Redis cannot be used yet", "error", text)
			last = text
		}
	}
}

// settleNow is a reload of the configuration that runs, unless a reload has
// settled the accounts already.
func (g *Gateway) settleNow(ctx context.Context) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	running := g.state.Load()
	if running.store.Check("settle") == nil {
		return nil
	}
	if pinger, ok := g.rawStore.(store.Pinger); ok { // which costs less than a build
		if err := pinger.Ping(ctx); err != nil {
			return err
		}
	}
	return g.reload(func() (*config.Config, error) { return running.config, nil })
}
