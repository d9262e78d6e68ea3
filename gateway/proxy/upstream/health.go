package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxCheckBody is how much of the answer to a check is read, in bytes.
const maxCheckBody = 64 << 10

// watch runs the active checks of an upstream.
type watch struct {
	once   sync.Once
	cancel context.CancelFunc // nil: it has not begun
	ended  sync.WaitGroup
}

// Watch begins the active checks, if the configuration has any. Close ends them.
// It does nothing if they run already. It must not be called concurrently with
// Close.
func (u *Upstream) Watch() {
	if u.config.Health.Path == "" {
		return
	}
	u.checks.once.Do(func() {
		cfg := u.config
		cfg.ReuseConnections = false // a check shows that the target accepts connections
		u.watchBy(newTransport(cfg, cfg.Health.Timeout, &u.strays, u.freeDescriptors))
	})
}

// watchBy begins the checks.
func (u *Upstream) watchBy(way *transport) {
	ctx, cancel := context.WithCancel(context.Background())
	u.checks.cancel = cancel
	for _, t := range u.targets {
		u.checks.ended.Go(func() { u.watch(ctx, way, t) })
	}
}

// Close ends the active checks and closes the idle connections.
func (u *Upstream) Close() {
	if u.checks.cancel != nil {
		u.checks.cancel()
		u.checks.ended.Wait()
	}
	u.CloseIdle()
}

// watch checks a target again and again.
func (u *Upstream) watch(ctx context.Context, way *transport, t *target) {
	defer way.CloseIdleConnections()
	ticker := time.NewTicker(u.config.Health.Interval)
	defer ticker.Stop()
	for failures := 0; ; {
		err := u.checkTarget(ctx, way, t)
		if ctx.Err() != nil {
			return
		}
		u.metrics.Checked(err == nil)
		if err == nil {
			failures = 0
			u.recover(t)
		} else if failures++; failures >= u.config.Health.Failures && !t.sick.Swap(true) {
			u.log.Warn("a target of an upstream is unhealthy", u.attributes(t, err)...)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// recover notes that a check succeeded.
func (u *Upstream) recover(t *target) {
	t.strikes.Store(0)
	t.resting.Store(0)
	rested, sick := t.untested.Swap(false), t.sick.Swap(false)
	if rested || sick {
		t.back.Store(max(1, int64(u.elapsed())))
		u.log.Info("a target of an upstream is healthy again", u.attributes(t, nil)...)
	}
}

// checkTarget sends one check to a target.
func (u *Upstream) checkTarget(ctx context.Context, way *transport, t *target) error {
	health := &u.config.Health
	ctx, cancel := context.WithTimeout(ctx, health.Timeout)
	defer cancel()
	path, query, hasQuery := strings.Cut(health.Path, "?")
	r := &http.Request{
		Method: http.MethodGet, Host: t.ownHost(), Header: http.Header{"User-Agent": {"authgate-health-check"}},
		URL: &url.URL{RawQuery: query, ForceQuery: hasQuery},
	}
	t.address(r, path)
	if health.Host != "" {
		r.Host = health.Host
	}
	response, err := valid(way.roundTrip(r.WithContext(ctx), false))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < health.From || response.StatusCode > health.To {
		return fmt.Errorf("the status is %d, not in %s", response.StatusCode, health.Status)
	}
	_, err = io.CopyN(io.Discard, response.Body, maxCheckBody)
	if err == io.EOF {
		return nil
	}
	return err
}

// targetStatus is the state of a target.
type targetStatus struct {
	Target   string // its URL
	Up       bool
	InFlight int64 // requests; only counted if there are several targets
}

// Targets returns the state of each target.
func (u *Upstream) Targets() []targetStatus {
	now := int64(u.elapsed())
	all := make([]targetStatus, len(u.targets))
	for i, t := range u.targets {
		all[i] = targetStatus{Target: t.name, Up: t.up(now), InFlight: t.inFlight.Load()}
	}
	return all
}

// succeeded notes that a target answered.
func (u *Upstream) succeeded(t *target) {
	if t.strikes.Load() == 0 && !t.untested.Load() { // without reading the clock
		return
	}
	if t.succeeded(int64(u.elapsed())) {
		u.log.Info("a target of an upstream answers again", u.attributes(t, nil)...)
	}
}

// failed notes that a request failed at a target.
func (u *Upstream) failed(t *target, err error) {
	if t.failed(int64(u.elapsed()), err) {
		u.log.Warn("a target of an upstream fails; others are preferred for now", u.attributes(t, err)...)
	}
}

// attributes returns the attributes of a target for the log.
func (u *Upstream) attributes(t *target, err error) []any {
	all := []any{slog.String("upstream", u.name), slog.String("target", t.name)}
	if err != nil {
		all = append(all, slog.String("error", Unquoted(err.Error())))
	}
	return all
}
