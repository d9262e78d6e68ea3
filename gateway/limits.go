package gateway

import (
	"errors"
	"log/slog"

	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/rate"
)

// newLimiters returns the limiters of the routes of st with a rate, by the names of the
// routes. A limiter whose rate is the same in old is taken over with its counts, so
// that a reload lets no additional requests through. shared has the counts of all
// instances; nil: they share none.
func (st *state) newLimiters(old *state, shared *rate.Shared) map[string]*rate.Limiter {
	known := map[string]*rate.Limiter{}
	for i := range old.routing.routes {
		if r := &old.routing.routes[i]; r.limiter != nil {
			known[rateName(r.config)] = r.limiter
		}
	}
	limiters := map[string]*rate.Limiter{}
	for i := range st.config.Routes {
		c := &st.config.Routes[i]
		limit := rate.Limit{Requests: c.Rate.Requests, Per: c.Rate.Per}
		if limit.Requests == 0 {
			continue
		}
		limiter := known[rateName(c)]
		if limiter == nil || limiter.Limit() != limit {
			limiter = rate.New(rateName(c), limit, st.site.Service.Now, shared)
		}
		limiters[c.Name] = limiter
	}
	return limiters
}

// rateName is the name under which instances share the counts of a route.
func rateName(c *config.Route) string { return c.Rate.By + ":" + c.Name }

// limit counts a request if the route counts by that, and refuses it if it is beyond the rate.
func (r *route) limit(ex *web.Exchange, by string) error {
	if r.limiter == nil || r.config.Rate.By != by {
		return nil
	}
	key := rate.ClientKey(ex.Canonical.Client)
	if by == config.RateByUser && ex.Identity != nil { // requests without credentials count by address, too
		key = rate.UserKey(ex.Identity.Subject)
	}
	err := r.limiter.Take(&ex.Store, key)
	var limited *rate.LimitedError
	if errors.As(err, &limited) && limited.First { // one event for each window: the access log has them all
		ex.Audit("denied", slog.String("reason", limited.Error()))
	}
	return err
}
