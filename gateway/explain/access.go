package explain

import (
	"cmp"
	"slices"
	"time"

	"authgate/policy"
)

// Row is a user in a table of access: a local account, or a made-up one that has roles and
// nothing else.
type Row struct {
	User  string   `json:"user,omitempty"`
	Roles []string `json:"roles,omitzero"` // of a made-up user
	// Provider is where the account of a made-up user is; empty: here.
	Provider string `json:"-"`
}

// Cell tells whether a user may open a route, by a login by any mechanism that the route accepts.
type Cell struct {
	Outcome    string // one of the words of policy.Outcome, or one of those below
	StepUp     policy.Demand
	Conditions []string // keys on which the outcome depends
}

// Outcomes of a Cell besides those of decisions.
const (
	OutcomeDepends = "depends" // on the request, or on a claim of the user
	OutcomeAbsent  = "absent"  // the configuration has no such route or user
)

// Changes of a cell, in another configuration.
const (
	ChangeOpens  = "opens"   // some request gets further than before
	ChangeCloses = "closes"  // some request does not get as far, and none gets further
	ChangeOther  = "changes" // anything else
)

// Access has the users and routes of a configuration, and says who may open which.
type Access struct {
	Known  *Known
	Routes []*policy.Route
}

// UseNext puts every next of the policies in place.
func (a *Access) UseNext() {
	for i, route := range a.Routes {
		if planned, _ := route.Next(); planned != nil {
			a.Routes[i] = planned
		}
	}
}

// Route returns the route with a name, nil if there is none.
func (a *Access) Route(name string) *policy.Route {
	at := slices.IndexFunc(a.Routes, func(r *policy.Route) bool { return r.Label() == name })
	if at < 0 {
		return nil
	}
	return a.Routes[at]
}

// visitor is a user who comes to a route. The zero visitor is absent: the configuration lacks the user or the route.
type visitor struct {
	route      *policy.Route
	identities []*policy.Identity // that the user can prove
	off        bool               // the account is disabled or has ended
	claims     bool               // the user may have any claims
}

// visitor returns the user of a row at a route, which may be nil. The error is a *Mistake.
func (a *Access) visitor(row *Row, route *policy.Route) (v visitor, err error) {
	caller := &Caller{User: row.User, Roles: row.Roles, Provider: row.Provider}
	if row.User == "" {
		caller.Provider = cmp.Or(caller.Provider, policy.LocalProvider)
		v.claims = caller.Provider != policy.LocalProvider
	} else if _, known := a.Known.Accounts.Find(row.User); !known {
		return visitor{}, nil
	} else if _, on := a.Known.Accounts.Lookup(row.User); !on {
		return visitor{route: route, off: true}, nil
	}
	if v.identities, err = a.Known.Identities(caller); err != nil {
		return visitor{}, err
	}
	if row.User != "" { // a namesake in basic is another user
		v.identities = slices.DeleteFunc(v.identities, func(id *policy.Identity) bool {
			return id.Provider != policy.LocalProvider
		})
	}
	v.route = route
	return v, nil
}

// verdict is the decision about one request. The zero verdict lets no one in.
type verdict struct {
	outcome policy.Outcome
	demand  policy.Demand
}

// point is a request of a space, by the indexes in its lists.
type point struct{ call, client, claims int }

// decide returns the verdict on a user's request.
func (v *visitor) decide(s *policy.Space, at point) verdict {
	if v.off {
		return verdict{}
	}
	call := &s.Calls[at.call]
	request := &policy.Request{
		Method: call.Method, Message: &call.Message, Client: s.Clients[at.client], Now: time.Unix(0, 0),
	}
	identities := v.identities
	if v.claims {
		identities = make([]*policy.Identity, len(v.identities))
		for i, id := range v.identities {
			with := *id
			with.Claims, identities[i] = s.Claims[at.claims], &with
		}
	}
	_, id := Choose(v.route, request, identities)
	d := v.route.Decide(id, request)
	return verdict{d.Outcome, d.Demand}
}

// verdicts returns those on all requests of a space, nil for an absent visitor.
func (v *visitor) verdicts(s *policy.Space) map[point]verdict {
	if v.route == nil {
		return nil
	}
	all := map[point]verdict{}
	for call := range s.Calls {
		for client := range s.Clients {
			for claims := range s.Claims {
				at := point{call, client, claims}
				all[at] = v.decide(s, at)
			}
		}
	}
	return all
}

// newCell returns the cell of all verdicts. A call with a message differs from the first one in that alone.
func newCell(all map[point]verdict, s *policy.Space) Cell {
	if all == nil {
		return Cell{Outcome: OutcomeAbsent}
	}
	matters := map[string]bool{}
	for at, here := range all {
		byCall := "methods"
		if s.Calls[at.call].Message.Method != "" {
			byCall = "mcp"
		}
		matters[byCall] = matters[byCall] || here != all[point{0, at.client, at.claims}]
		matters["networks"] = matters["networks"] || here != all[point{at.call, 0, at.claims}]
		matters["claims"] = matters["claims"] || here != all[point{at.call, at.client, 0}]
	}
	conditions := slices.DeleteFunc([]string{"networks", "methods", "claims", "mcp"}, func(key string) bool {
		return !matters[key]
	})
	if len(conditions) > 0 {
		return Cell{Outcome: OutcomeDepends, Conditions: conditions}
	}
	return Cell{Outcome: all[point{}].outcome.Word(), StepUp: all[point{}].demand}
}

// Cell returns whether the user of a row may open a route. The error is a *Mistake.
func (a *Access) Cell(row *Row, route *policy.Route) (Cell, error) {
	v, err := a.visitor(row, route)
	if err != nil {
		return Cell{}, err
	}
	s, err := policy.NewSpace(v.claims, route)
	if err != nil {
		return Cell{}, mistake("route %s: %v", route.Label(), err)
	}
	return newCell(v.verdicts(s), s), nil
}

// Difference is a cell that two configurations have otherwise.
type Difference struct {
	Now, Other Cell
	Change     string // empty: they decide each request alike
}

// Compare compares a cell with that of another configuration. The error is a *Mistake. A provider that only
// one of them has is the same as an account that only one has.
func (a *Access) Compare(other *Access, row *Row, name string) (Difference, error) {
	before, err := a.visitor(row, a.Route(name))
	after, errAfter := other.visitor(row, other.Route(name))
	if err != nil && errAfter != nil {
		return Difference{}, err
	}
	s, err := policy.NewSpace(before.claims || after.claims, before.route, after.route)
	if err != nil {
		return Difference{}, mistake("route %s: %v", name, err)
	}
	old, new := before.verdicts(s), after.verdicts(s)
	moved := old != nil && new != nil && before.route.Pattern != after.route.Pattern
	return Difference{newCell(old, s), newCell(new, s), change(old, new, moved)}, nil
}

// change compares verdicts. moved tells that the route has them for other requests than before.
func change(old, new map[point]verdict, moved bool) string {
	opens, closes, differs := false, false, (old == nil) != (new == nil)
	some := old
	if old == nil {
		some = new
	}
	for at := range some {
		was, is := old[at], new[at]
		differs = differs || was != is
		opens = opens || is.goesBeyond(was) || moved && is.goesBeyond(verdict{})
		closes = closes || was.goesBeyond(is) || moved && was.goesBeyond(verdict{})
	}
	switch {
	case opens:
		return ChangeOpens
	case closes:
		return ChangeCloses
	case differs:
		return ChangeOther
	}
	return ""
}

// goesBeyond reports whether a request gets further by v: it is let in, or after a sign-in that is not enough for
// the other verdict.
func (v verdict) goesBeyond(other verdict) bool {
	const stepUp = policy.StepUp
	switch {
	case v.outcome < stepUp:
		return false
	case v.outcome == stepUp && other.outcome == stepUp:
		return v.demand.And(other.demand) != v.demand
	}
	return v.outcome > other.outcome
}

// Choose returns the first identity that the route lets in, or else the first that it accepts; nil
// on a public route, and if it accepts none. shown is the identity to show conditions for: that of
// a caller whom the route does not accept, unless it decides without an identity.
func Choose(rule *policy.Route, request *policy.Request, identities []*policy.Identity) (shown, id *policy.Identity) {
	for _, mechanism := range rule.Mechanisms { // in the order of the operator
		for _, held := range identities {
			if mechanism == policy.None || held.Mechanism != mechanism {
				continue
			}
			allowed := rule.Decide(held, request).Outcome == policy.Allow
			if id == nil || allowed {
				id = held
			}
			if allowed {
				return id, id
			}
		}
	}
	if id != nil {
		return id, id
	}
	if len(identities) > 0 && !rule.AdmitsNobody() {
		shown = identities[0]
	}
	return shown, nil
}
