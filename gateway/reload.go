package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/changes"
)

// closeAfter is how long after a reload the replaced providers and the replaced
// tracer are closed.
const closeAfter = time.Minute

// ErrNeedsRestart is an error of Reload: the configuration is valid, but only a
// restart applies it.
var ErrNeedsRestart = errors.New("need a restart; the running configuration is kept")

// Reload makes the gateway run the configuration that load returns. Everything
// that can fail happens before one swap: after an error the old configuration
// runs on unchanged. A store that cannot be written is no such error: the accounts apply
// as they are configured, and the store learns of it later. Requests in flight end under the configuration that they
// began with, unless the new one no longer lets the user in.
func (g *Gateway) Reload(load func() (*config.Config, error)) error { return g.ReloadBy(ByFile, load) }

// Who changed the accounts of a configuration, as audit events tell.
const (
	ByFile     = "file"     // a change of its files
	ByOperator = "operator" // authgate users
)

// ReloadBy is Reload for a change whose maker is known.
func (g *Gateway) ReloadBy(who string, load func() (*config.Config, error)) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	old := g.state.Load()
	err := g.reload(reload{load: load, loaded: g.storage.now(), who: who})
	if g.service.Metrics.Reload(err); err == nil {
		g.service.Events.Record("reloaded", slog.Any("changes", withoutMail(changes.Between(old.config, g.Config()))))
	}
	return err
}

// withoutMail returns changes, each after its key, with the addresses of mail masked, but for those that are user
// names.
func withoutMail(lines []string) []string {
	address := regexp.MustCompile(`[^\s\[\]{},:"]+@[^\s\[\]{},:"]+`)
	for i, line := range lines {
		if key, change, ok := strings.Cut(line, ": "); ok && !strings.HasSuffix(key, ".users") {
			lines[i] = key + ": " + address.ReplaceAllLiteralString(change, "[masked]")
		}
	}
	return lines
}

// reload is one change of the configuration that runs.
type reload struct {
	load   func() (*config.Config, error)
	loaded time.Time // when load reads the configuration, or has read it
	// durable makes it an error that the store cannot record the accounts. Otherwise they apply,
	// and the store learns of them later.
	durable bool
	who     string            // changed accounts, but for edited; empty: ByFile
	edited  string            // the account whose change has its own event; empty: none
	ready   func(next *state) // called just before the swap; nil: nothing is
}

// reload is Reload for a caller that holds g.reloading.
func (g *Gateway) reload(r reload) error {
	cfg, err := r.load()
	if err != nil {
		return err
	}
	old := g.state.Load()
	if err := needsRestart(old.config, cfg); err != nil {
		return err
	}
	receivers, err := Receivers(cfg)
	if err != nil {
		return err
	}
	st, err := g.build(cfg, r.loaded, old, r.durable)
	if err != nil {
		return err
	}
	if r.ready != nil {
		r.ready(st)
	}
	g.state.Store(st)
	g.webhooks.Set(receivers)
	g.throttle.SetLimits(cfg.Limits.LoginFailures, cfg.Limits.LoginWindow)
	for name, u := range old.routing.upstreams {
		if st.routing.upstreams[name] != u {
			u.Close()
		}
	}
	for _, u := range st.routing.upstreams {
		u.Watch()
	}
	// Requests in flight may still wait for an old provider, and end old traces. The
	// timer holds nothing else of the old state.
	if closes := old.unused(st, g.service.Logger); len(closes) > 0 {
		time.AfterFunc(closeAfter, func() { closeAll(closes) })
	}
	g.auditAccounts(old, st, cmp.Or(r.who, ByFile), r.edited)
	g.endOutdated(old, st)
	g.inFlight.warn(g.service.Logger, cfg)
	logWarnings(g.service.Logger, cfg)
	return nil
}

// unused returns functions that end the background work of st that kept does not use.
func (st *state) unused(kept *state, logger *slog.Logger) []func() {
	closes := st.federation.Unused(kept.federation)
	if tracer := st.tracer; tracer != kept.tracer {
		closes = append(closes, func() { closeTracer(tracer, logger) })
	}
	return closes
}

func closeAll(closes []func()) {
	for _, end := range closes {
		end()
	}
}

// needsRestart returns an error that names the changed keys that only a restart
// applies.
func needsRestart(old, cfg *config.Config) error {
	keys := old.NeedsRestart(cfg)
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("changes of %s %w", strings.Join(keys, ", "), ErrNeedsRestart)
}

// logWarnings logs the warnings about a configuration that runs.
func logWarnings(logger *slog.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		logger.Warn("the configuration is probably wrong",
			"file", w.File, "line", w.Line, "column", w.Column, "key", w.Key, "problem", w.Message)
	}
	if users := cfg.DemoUsers(); len(users) > 0 {
		logger.Warn("demonstration passwords are configured: they are public", "users", users)
	}
	if clients := cfg.DemoClients(); len(clients) > 0 {
		logger.Warn("the client secret of the demonstration is configured: it is public", "clients", clients)
	}
}
