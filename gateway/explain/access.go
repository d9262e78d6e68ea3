package explain

import (
	"slices"
	"time"

	"authgate/policy"
)

// Row is a user in a table of access: a local account, or a made-up one that has roles and
// nothing else.
type Row struct {
	User  string
	Roles []string // of a made-up user
	// Provider is where the account of a made-up user is; empty: here.
	Provider string
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

// HasUser reports whether there is a local account with a name, also one that is disabled or has ended.
func (a *Access) HasUser(name string) bool {
	for account := range a.Known.Accounts.Everyone() {
		if policy.NormalName(account.Username) == policy.NormalName(name) {
			return true
		}
	}
	return false
}

// visitor is a user with the identities that they can prove.
type visitor struct {
	identities []*policy.Identity
	off        bool // the account is disabled or has ended
	absent     bool // there is no such account
	claims     bool // the user may have any claims
}

// visitor returns the user of a row. The error is a *Mistake.
func (a *Access) visitor(row *Row) (v visitor, err error) {
	caller := &Caller{User: row.User, Roles: row.Roles, Provider: row.Provider}
	if row.User == "" {
		if caller.Provider == "" {
			caller.Provider = policy.LocalProvider
		}
		v.identities, err = a.Known.Identities(caller)
		v.claims = caller.Provider != policy.LocalProvider
		return v, err
	}
	if !a.HasUser(row.User) {
		return visitor{absent: true}, nil
	}
	if _, on := a.Known.Accounts.Lookup(row.User); !on {
		return visitor{off: true}, nil
	}
	all, err := a.Known.Identities(caller)
	v.identities = slices.DeleteFunc(all, func(id *policy.Identity) bool { // a namesake in basic is another user
		return id.Provider != policy.LocalProvider
	})
	return v, err
}

// verdict is the decision about one request.
type verdict struct {
	outcome policy.Outcome
	demand  policy.Demand
}

// decide returns the verdict on a user's request.
func (v *visitor) decide(route *policy.Route, call int, client int, claims int, s *policy.Space) verdict {
	if v.off {
		return verdict{}
	}
	request := &policy.Request{
		Method: s.Calls[call].Method, Message: &s.Calls[call].Message, Client: s.Clients[client], Now: time.Unix(0, 0),
	}
	identities := v.identities
	if v.claims {
		identities = make([]*policy.Identity, len(v.identities))
		for i, id := range v.identities {
			with := *id
			with.Claims, identities[i] = s.Claims[claims], &with
		}
	}
	_, id := Choose(route, request, identities)
	d := route.Decide(id, request)
	return verdict{d.Outcome, d.Demand}
}

// grid has the verdicts of all requests of a space, by call, client and claims.
type grid [][][]verdict

func (v *visitor) grid(route *policy.Route, s *policy.Space) grid {
	g := make(grid, len(s.Calls))
	for m := range s.Calls {
		g[m] = make([][]verdict, len(s.Clients))
		for c := range s.Clients {
			g[m][c] = make([]verdict, len(s.Claims))
			for k := range s.Claims {
				g[m][c][k] = v.decide(route, m, c, k, s)
			}
		}
	}
	return g
}

// cell returns the cell of all verdicts. A call with a message differs from the first one in that alone.
func (g grid) cell(s *policy.Space) Cell {
	var methods, networks, claims, messages bool
	for m := range g {
		plain := s.Calls[m].Message.Method == ""
		for c := range g[m] {
			for k, here := range g[m][c] {
				methods = methods || plain && here != g[0][c][k]
				messages = messages || !plain && here != g[0][c][k]
				networks = networks || here != g[m][0][k]
				claims = claims || here != g[m][c][0]
			}
		}
	}
	var conditions []string
	for _, key := range []struct {
		name    string
		matters bool
	}{{"networks", networks}, {"methods", methods}, {"claims", claims}, {"mcp", messages}} {
		if key.matters {
			conditions = append(conditions, key.name)
		}
	}
	if conditions != nil {
		return Cell{Outcome: OutcomeDepends, Conditions: conditions}
	}
	first := g[0][0][0]
	return Cell{Outcome: first.outcome.Word(), StepUp: first.demand}
}

// Cell returns whether the user of a row may open a route. The error is a *Mistake.
func (a *Access) Cell(row *Row, route *policy.Route) (Cell, error) {
	v, err := a.visitor(row)
	if err != nil {
		return Cell{}, err
	}
	s, err := policy.NewSpace(v.claims, route)
	if err != nil {
		return Cell{}, mistake("route %s: %v", route.Label(), err)
	}
	return v.grid(route, s).cell(s), nil
}

// Difference is a cell that two configurations have otherwise.
type Difference struct {
	Now, Other Cell
	Change     string // empty: they decide each request alike
}

// Compare compares a cell with that of another configuration. The error is a *Mistake.
func (a *Access) Compare(other *Access, row *Row, name string) (d Difference, err error) {
	before, after, err := visitors(a, other, row)
	if err != nil {
		return d, err
	}
	was, is := a.Route(name), other.Route(name)
	there := slices.DeleteFunc([]*policy.Route{was, is}, func(r *policy.Route) bool { return r == nil })
	s, err := policy.NewSpace(before.claims || after.claims, there...)
	if err != nil {
		return d, mistake("route %s: %v", name, err)
	}
	d.Now, d.Other = Cell{Outcome: OutcomeAbsent}, Cell{Outcome: OutcomeAbsent}
	var old, new grid // nil: absent
	if was != nil && !before.absent {
		old = before.grid(was, s)
		d.Now = old.cell(s)
	}
	if is != nil && !after.absent {
		new = after.grid(is, s)
		d.Other = new.cell(s)
	}
	moved := was != nil && is != nil && was.Pattern != is.Pattern
	d.Change = change(old, new, moved)
	return d, nil
}

// visitors returns the user of a row in two configurations. A provider that only one of them has is the same
// as an account that only one has.
func visitors(a, other *Access, row *Row) (before, after visitor, err error) {
	before, err = a.visitor(row)
	after, otherErr := other.visitor(row)
	if err != nil && otherErr == nil {
		return visitor{absent: true}, after, nil
	}
	if err == nil && otherErr != nil {
		return before, visitor{absent: true}, nil
	}
	return before, after, err
}

// change compares verdicts. moved tells that the route has them for other requests than before.
func change(old, new grid, moved bool) string {
	opens, closes, differs := false, false, (old == nil) != (new == nil)
	some := old
	if old == nil {
		some = new
	}
	for m := range some {
		for c := range some[m] {
			for k := range some[m][c] {
				was, is := old.at(m, c, k), new.at(m, c, k)
				differs = differs || was != is
				opens = opens || is.goesBeyond(was) || moved && is.goesBeyond(verdict{})
				closes = closes || was.goesBeyond(is) || moved && was.goesBeyond(verdict{})
			}
		}
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

// at returns a verdict. An absent cell lets no one in.
func (g grid) at(method, client, claims int) verdict {
	if g == nil {
		return verdict{}
	}
	return g[method][client][claims]
}

// goesBeyond reports whether a request gets further by v: it is let in, or has to prove less for that.
func (v verdict) goesBeyond(other verdict) bool {
	const stepUp = policy.StepUp
	switch {
	case v.outcome < stepUp:
		return false
	case v.outcome == stepUp && other.outcome == stepUp:
		return v.demand != other.demand && v.demand.And(other.demand) == other.demand
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
