package gateway

import (
	"log/slog"
	"sync"
	"time"

	"authgate/gateway/proxy/web"
	"authgate/gateway/store/lru"
	"authgate/policy"
)

// next is the decision of a route with every next of its policies in place. It is compared with the
// present decision, and never changes an answer.
type next struct {
	rule     *policy.Route
	policies string // with a next, to which the route leads
	differs  web.NextCounters
}

// newNext returns the next of a route, nil if none of its policies has one.
func (g *Gateway) newNext(rule *policy.Route) *next {
	planned, policies := rule.Next()
	if planned == nil {
		return nil
	}
	return &next{planned, policies, g.service.Metrics.Next(rule.Name)}
}

// compare counts a decision of the route from which that with every next in place differs.
func (n *next) compare(ex *exchange, id *policy.Identity, request *policy.Request, now policy.Outcome) {
	then := n.rule.Decide(id, request)
	if then.Outcome == now {
		return
	}
	n.differs[now][then.Outcome].Inc()
	subject := ""
	if id != nil {
		subject = id.Subject
	}
	if ex.gateway.differences.isDue(subject, n.rule.Name, ex.gateway.service.Now()) {
		ex.Audit("next_differs", slog.String("policy", n.policies), slog.String("now", now.Word()),
			slog.String("next", then.Outcome.Word()), slog.String("rule", then.Rule),
			slog.String("reason", then.Reason), slog.String("subject", subject))
	}
}

const (
	differencePause    = time.Hour // between two events for a subject and a route
	rememberedSubjects = 10_000    // and routes
)

// differences has when there was an event for a subject and a route.
type differences struct {
	mu   sync.Mutex
	last *lru.Unlocked[difference, time.Time]
}

type difference struct{ subject, route string }

func newDifferences() *differences {
	return &differences{last: lru.NewUnlocked[difference, time.Time](rememberedSubjects)}
}

// isDue reports whether there is to be an event now, and takes it that there is one then.
func (d *differences) isDue(subject, route string, now time.Time) bool {
	key := difference{subject, route}
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, known := d.last.Get(key); known && now.Sub(last) < differencePause {
		return false
	}
	d.last.Add(key, now)
	return true
}
