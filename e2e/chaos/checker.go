package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// bounds are the documented times that violations goes by.
type bounds struct {
	// Staleness is store.max_staleness: the time for which an instance may accept a
	// login that another instance has ended. The instance measures it by its own
	// clock, so the bound holds on a slow machine too.
	Staleness time.Duration
	// Recovery is the time after a stall in which the store may be unavailable.
	Recovery time.Duration
}

// violation is an event that contradicts a promise.
type violation struct {
	Rule  string
	Event event
	Why   string
}

func (v violation) String() string {
	event, err := json.Marshal(v.Event)
	if err != nil {
		return fmt.Sprintf("%s: %s: %v", v.Rule, v.Why, err)
	}
	return fmt.Sprintf("%s: %s: %s", v.Rule, v.Why, event)
}

// The rules.
const (
	ruleLives    = "a login stays good until its end is asked for"
	ruleDead     = "a login that has ended stays ended on every instance"
	ruleRefresh  = "of all uses of a refresh token exactly one succeeds"
	ruleIdentity = "an answer carries the identity that asked"
	ruleStatus   = "a status is one that is documented"
	ruleOutage   = "the store is unavailable during an outage only"
	ruleAnswer   = "a running instance answers"
)

// violations returns the events that contradict a promise, in the order in which
// they began.
func violations(events []event, bounds bounds) []violation {
	c := newCheck(events, bounds)
	for i := range c.events {
		e := &c.events[i]
		switch e.Kind {
		case kindLogin, kindUse, kindMe, kindRefresh, kindLogout:
			c.answer(e)
			c.identity(e)
		}
		switch e.Kind {
		case kindUse, kindMe, kindLogout:
			c.lives(e)
			c.dead(e)
		case kindRefresh:
			c.dead(e)
		}
	}
	c.refreshes()
	slices.SortStableFunc(c.found, func(a, b violation) int { return cmp.Compare(a.Event.Begin, b.Event.Begin) })
	return c.found
}

// check is one run of violations.
type check struct {
	bounds   bounds
	events   []event
	faults   []*event
	logins   map[int]*life
	handles  map[handle]*refusal
	attempts map[handle][]*event  // refreshes by token
	absences map[string][]absence // of accounts
	found    []violation
}

// handle is a credential of a login.
type handle struct {
	login      int
	credential string
}

// life is the history of a login that was acknowledged.
type life struct {
	began *event
	asked time.Duration // from then on it may have ended
	ends  []end
}

// end is an acknowledged end of a login.
type end struct {
	at    string // the instance that acknowledged it; empty: all did
	after time.Duration
}

// refusal has for each instance when it first answered that it refuses a credential.
type refusal struct {
	at map[string]time.Duration
}

const never = time.Duration(1<<63 - 1)

func newCheck(events []event, bounds bounds) *check {
	c := &check{
		bounds: bounds, events: slices.Clone(events), logins: map[int]*life{},
		handles: map[handle]*refusal{}, attempts: map[handle][]*event{}, absences: map[string][]absence{},
	}
	slices.SortStableFunc(c.events, func(a, b event) int { return cmp.Compare(a.Begin, b.Begin) })
	for i := range c.events {
		e := &c.events[i]
		switch e.Kind {
		case kindLogin:
			if e.good() {
				c.logins[e.Login] = &life{began: e, asked: never}
			}
		case kindDown, kindOutage, kindStall:
			c.faults = append(c.faults, e)
		}
	}
	c.collectAbsences()
	c.collect()
	c.endAbsent()
	return c
}

// collect records the state of the login that each request shows.
func (c *check) collect() {
	for i := range c.events {
		e := &c.events[i]
		l := c.logins[e.Login]
		if l == nil {
			continue
		}
		which := handle{e.Login, e.Credential}
		switch e.Kind {
		case kindRefresh:
			c.attempts[which] = append(c.attempts[which], e)
		case kindLogout:
			l.asked = min(l.asked, e.Begin)
			if e.good() {
				l.ends = append(l.ends, end{e.At, e.End})
			}
		}
		// An instance may refuse a login of an account that it enables after another.
		if e.Status == 401 && e.Kind != kindRefresh && !c.absent(e) {
			r := c.handles[which]
			if r == nil {
				r = &refusal{at: map[string]time.Duration{}}
				c.handles[which] = r
			}
			if first, known := r.at[e.At]; !known || e.End < first {
				r.at[e.At] = e.End
			}
		}
	}
}

// absence is the time in which an account was disabled, with the time that each change
// took. It has no end if the account was not enabled again.
type absence struct {
	disabled, enabled span
}

// span is the time in which a change happened.
type span struct{ begin, end time.Duration }

// collectAbsences records when accounts were disabled.
func (c *check) collectAbsences() {
	for i, e := range c.events {
		if e.Kind != kindDisable {
			continue
		}
		enabled := span{never, never}
		enables := func(next event) bool { return next.Kind == kindEnable && next.User == e.User }
		next := slices.IndexFunc(c.events[i:], enables)
		if next >= 0 {
			enabled = span{c.events[i+next].Begin, c.events[i+next].End}
		}
		c.absences[e.User] = append(c.absences[e.User], absence{span{e.Begin, e.End}, enabled})
	}
}

// endAbsent ends the logins of accounts that were disabled. A login that began
// before the account was enabled again is dead; one that began while it was
// being enabled may be either.
func (c *check) endAbsent() {
	for _, l := range c.logins {
		for _, a := range c.absences[l.began.User] {
			if l.began.Begin >= a.enabled.end {
				continue
			}
			l.asked = min(l.asked, max(a.disabled.begin, l.began.Begin))
			if l.began.End <= a.enabled.begin {
				l.ends = append(l.ends, end{after: max(a.disabled.end, l.began.End)})
			}
		}
	}
}

// absent reports whether the account may be disabled at an instance during an
// event.
func (c *check) absent(e *event) bool {
	return slices.ContainsFunc(c.absences[e.User], func(a absence) bool {
		return a.disabled.begin <= e.End && e.Begin <= a.enabled.end
	})
}

func (c *check) fail(rule string, e *event, format string, args ...any) {
	c.found = append(c.found, violation{rule, *e, fmt.Sprintf(format, args...)})
}

// lives: a credential is not refused before the end of its login is asked for.
func (c *check) lives(e *event) {
	l := c.logins[e.Login]
	if l != nil && e.Status == 401 && e.End <= l.asked {
		c.fail(ruleLives, e, "refused, though the login began at %v and nothing asked for its end", l.began.End)
	}
}

// dead: a credential is not accepted after the end of its login was
// acknowledged, nor after it was refused. A logout by cookie does not accept:
// it succeeds for cookies that open nothing.
func (c *check) dead(e *event) {
	l := c.logins[e.Login]
	if l == nil || !e.good() || e.Kind == kindLogout && e.Credential == session {
		return
	}
	for _, end := range l.ends {
		// A logout is its own end.
		if dead := c.known(end.at, e.At, end.after); e.Begin >= dead {
			c.fail(ruleDead, e, "accepted, though the login ended at %v", end.after)
			return
		}
	}
	if r := c.handles[handle{e.Login, e.Credential}]; r != nil {
		for at, after := range r.at {
			if e.Begin >= c.known(at, e.At, after) {
				c.fail(ruleDead, e, "accepted, though %s refused it by %v", at, after)
				return
			}
		}
	}
}

// known returns from when on an instance must know what another one, or all,
// acknowledged.
func (c *check) known(by, at string, after time.Duration) time.Duration {
	if by == "" || by == at {
		return after
	}
	return after + c.bounds.Staleness
}

// refreshes: of all uses of one refresh token at most one succeeds, and one
// does unless something else ended the login or an answer is unknown.
func (c *check) refreshes() {
	for which, attempts := range c.attempts {
		var successes, unknown int
		var until time.Duration
		for _, e := range attempts {
			until = max(until, e.End)
			switch {
			case e.good():
				if successes++; successes > 1 {
					c.fail(ruleRefresh, e, "success number %d", successes)
				}
			case e.Status != 401 || c.during(e, kindOutage, kindDown, kindStall):
				unknown++
			}
		}
		if successes == 0 && unknown == 0 && until <= c.logins[which.login].asked {
			c.fail(ruleRefresh, attempts[len(attempts)-1], "all %d uses were refused", len(attempts))
		}
	}
}

// identity: the answer and the upstream have the identity of the client, and the
// upstream gets no request that is refused. One request may be both seen and refused
// when the instance stops, because a client sends a GET again. The same holds when its
// login ends meanwhile, because the answer then tells that.
func (c *check) identity(e *event) {
	if e.Kind != kindUse && e.Kind != kindMe {
		return
	}
	if e.good() && (e.Answered == nil || e.Answered.User != e.User || e.Answered.Mechanism != mechanism(e.Credential)) {
		c.fail(ruleIdentity, e, "the answer is for %+v", e.Answered)
	}
	if e.Kind == kindMe {
		return
	}
	for _, seen := range e.Seen {
		if seen.User != e.User || seen.Mechanism != mechanism(e.Credential) {
			c.fail(ruleIdentity, e, "the upstream saw %+v", seen)
		}
	}
	switch {
	case e.good() && len(e.Seen) == 0:
		c.fail(ruleIdentity, e, "the upstream did not see the request")
	case e.good() && e.Answered != nil && e.Answered.Request != e.Request:
		c.fail(ruleIdentity, e, "the answer belongs to request %s", e.Answered.Request)
	case e.Status != 0 && !e.good() && len(e.Seen) > 0 && !c.during(e, kindDown) && !c.endsDuring(e):
		c.fail(ruleIdentity, e, "refused, and the upstream saw it")
	}
}

// endsDuring reports whether the login may have ended while the request ran.
func (c *check) endsDuring(e *event) bool {
	l := c.logins[e.Login]
	return l != nil && l.asked < e.End && !slices.ContainsFunc(l.ends, func(x end) bool { return x.after <= e.Begin })
}

// mechanism returns the mechanism of a credential.
func mechanism(credential string) string {
	if credential == session {
		return "session"
	}
	return "bearer"
}

// answer: there is one, with a status that is documented. The upstream does
// not fail, so nothing is 502 or 504.
func (c *check) answer(e *event) {
	switch {
	case e.Status == 0:
		// An answer in progress is cut off when its login ends.
		if l := c.logins[e.Login]; !c.during(e, kindDown) && (l == nil || e.Kind != kindUse || e.End <= l.asked) {
			c.fail(ruleAnswer, e, "no answer")
		}
	case e.Status == 503:
		if !c.during(e, kindOutage, kindDown, kindStall) {
			c.fail(ruleOutage, e, "unavailable without an outage")
		}
	case e.Status == 401 && e.Kind == kindLogin:
		if !c.absent(e) {
			c.fail(ruleLives, e, "the right password was refused")
		}
	case e.good() || e.Status == 401:
	default:
		c.fail(ruleStatus, e, "status %d", e.Status)
	}
}

// during reports whether an event overlaps a fault of one of the kinds at its
// instance. A stall is measured from outside, so it may last a little longer.
func (c *check) during(e *event, kinds ...kind) bool {
	return slices.ContainsFunc(c.faults, func(f *event) bool {
		until := f.End
		if f.Kind == kindStall {
			until += c.bounds.Recovery
		}
		return slices.Contains(kinds, f.Kind) && (f.At == "" || f.At == e.At) && f.Begin <= e.End && e.Begin <= until
	})
}
