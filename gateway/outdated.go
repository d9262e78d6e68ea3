package gateway

import (
	"context"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
)

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
		if len(outdated) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(g.running, outdatedTime)
		defer cancel()
		running := func() *login.Overview {
			now := g.state.Load() // another one, after the next reload
			return mechanism.Overview(now.mechanisms, now.federation)
		}
		if err := login.EndOutdated(ctx, running, outdated); err != nil {
			g.service.Logger.Warn("logins of accounts that have changed could not all be ended; they open nothing, "+
				"but applications are not told", "error", err.Error())
		}
	})
}
