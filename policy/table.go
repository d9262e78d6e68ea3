package policy

import (
	"fmt"
	"net/http"
	"slices"
)

// Route is a kind of request together with the mechanisms and the policy that it
// needs. The zero Route forbids every request.
type Route struct {
	// Name is the name in logs, metrics and reasons. If it is empty they use
	// Pattern.
	Name string
	// Pattern has the syntax of patterns of net/http.ServeMux:
	// "[METHOD ][HOST]/[PATH]". A HOST like "*.example.org" matches all names
	// with one label more than example.org.
	Pattern string
	// Mechanisms are the accepted mechanisms. None alone makes the route
	// public, and None after others also lets in a request without credentials,
	// if Policy holds without an identity.
	Mechanisms []Mechanism
	// EncodedSlashes are the paths of several readings that the route takes; empty: none.
	EncodedSlashes EncodedSlashes
	// Policy must hold. A nil Policy allows every identity that one of
	// Mechanisms proved.
	Policy *Policy

	reasons *reasons // set in a Table
}

// Public reports whether the route has no identities.
func (r *Route) Public() bool { return len(r.Mechanisms) == 1 && r.Mechanisms[0] == None }

// Accepts reports whether the route accepts an identity proved by m. None proves
// nothing and is never accepted.
func (r *Route) Accepts(m Mechanism) bool { return m.proves() && slices.Contains(r.Mechanisms, m) }

// Label returns Name, or Pattern if it has none.
func (r *Route) Label() string {
	if r.Name == "" {
		return r.Pattern
	}
	return r.Name
}

// Table finds the route of a request. It does not change. The zero Table has no
// routes.
type Table struct {
	hosts  hosts
	routes []*Route
}

// Match is the result of Table.Match.
type Match struct {
	// Index is the index of the route in the argument of NewTable.
	Index int
	// Route is the table's own copy of the route. It must not be changed.
	Route *Route
}

// NewTable returns a table of copies of routes. The error is an Errors with paths
// like "routes[1].match", in the order of the routes. It takes time in proportion
// to the number of routes, times that of the different forms of their patterns,
// such as "GET /literal/{wildcard}/".
func NewTable(routes []Route) (*Table, error) {
	var errs Errors
	patterns, failures := parsePatterns(routes)
	known := newConflicts(patterns)
	names := make(map[string]int, len(routes))
	t := &Table{hosts: hosts{}, routes: make([]*Route, len(routes))}
	for i, r := range routes {
		r.Mechanisms = slices.Clone(r.Mechanisms)
		r.reasons = newReasons(&r)
		t.routes[i] = &r
		if p := patterns[i]; p == nil {
			errs.add(key(i, "match"), "%q: %v", r.Pattern, failures[i])
		} else if first, found := known.first(p); found {
			errs.add(key(i, "match"), "%q: conflicts with %q of routes[%d]: %s",
				r.Pattern, routes[first].Pattern, first, describeConflict(p, patterns[first]))
		} else {
			known.add(i, p)
			t.hosts.add(p, &Match{Index: i, Route: &r})
		}
		name := r.Label()
		if first, taken := names[name]; !taken {
			names[name] = i
		} else if name != r.Pattern || name != routes[first].Pattern { // of equal patterns the conflict is enough
			errs.add(key(i, "name"), "routes[%d] already has the name %q; logs and metrics need different names",
				first, name)
		}
		checkAuth(&errs, i, &r)
	}
	if err := errs.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// parsePatterns returns the patterns of routes. A pattern is nil if it is
// refused, for a reason in failures.
func parsePatterns(routes []Route) (patterns []*pattern, failures map[int]error) {
	patterns, failures = make([]*pattern, len(routes)), map[int]error{}
	for i, r := range routes {
		p, err := parsePattern(r.Pattern)
		if err != nil {
			failures[i] = err
			continue
		}
		patterns[i] = p
	}
	return patterns, failures
}

// key returns the path of a key of a route.
func key(route int, name string) string { return fmt.Sprintf("routes[%d].%s", route, name) }

// Routes returns the table's own copies of the routes, in the order in which
// NewTable got them. They must not be changed.
func (t *Table) Routes() []*Route { return slices.Clone(t.routes) }

// checkAuth checks the mechanisms and the policy of a route.
func checkAuth(errs *Errors, route int, r *Route) {
	if len(r.Mechanisms) == 0 {
		errs.add(key(route, "auth"), "no mechanism is accepted; list some of basic, session, bearer, oidc, "+
			"certificate, or [none] for a public route")
	}
	for i, m := range r.Mechanisms {
		switch {
		case m != None && !m.proves():
			errs.add(fmt.Sprintf("%s[%d]", key(route, "auth"), i),
				"%q is not a mechanism; expected basic, session, bearer, oidc, certificate or none", m)
		case slices.Contains(r.Mechanisms[:i], m):
			errs.add(fmt.Sprintf("%s[%d]", key(route, "auth"), i), "%q is listed twice", m)
		}
	}
	if i := slices.Index(r.Mechanisms, None); i >= 0 && slices.ContainsFunc(r.Mechanisms[i:], Mechanism.proves) {
		errs.add(fmt.Sprintf("%s[%d]", key(route, "auth"), i),
			"none means a request without credentials, so it comes after all mechanisms; move it to the end")
	}
	if r.Public() && r.Policy != nil {
		errs.add(key(route, "policy"), "a public route has no identities, so its policy can never apply; "+
			"name a mechanism in auth or remove the policy")
	}
}

// Match finds the route of req by the rules of net/http.ServeMux: the most
// specific pattern wins, and GET patterns match HEAD. A pattern with the host
// itself wins over one with a wildcard for it, which wins over one without a host. If a ServeMux would
// redirect "/app" to "/app/", Match returns the route of "/app/": the
// application decides which form is right. Match returns false if no route
// matches path and method. CONNECT never matches.
//
// Match allocates nothing.
func (t *Table) Match(req *Request) (Match, bool) {
	path := req.Path.Decoded
	if req.Method == "" || req.Method == http.MethodConnect || !isClean(path, req.Path.Opaque) {
		return Match{}, false
	}
	found, exact := t.hosts.findMatch(req.Host, req.Method, path, false)
	if !exact && path[len(path)-1] != '/' {
		if below, exact := t.hosts.findMatch(req.Host, req.Method, path, true); exact {
			found = below
		}
	}
	if found == nil {
		return Match{}, false
	}
	return *found, true
}
