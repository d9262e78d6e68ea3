package policy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Route is a kind of request together with the mechanisms and the policy that it
// needs. The zero Route forbids every request.
type Route struct {
	// Name is the name in logs, metrics and reasons. If it is empty they use
	// Pattern.
	Name string
	// Pattern is a pattern of net/http.ServeMux: "[METHOD ][HOST]/[PATH]".
	Pattern string
	// Mechanisms are the accepted mechanisms. None alone makes the route
	// public.
	Mechanisms []Mechanism
	// Policy must hold. A nil Policy allows every identity that one of
	// Mechanisms proved.
	Policy *Policy

	reasons *reasons // set in a Table
}

// Public reports whether the route needs no identity.
func (r *Route) Public() bool { return len(r.Mechanisms) == 1 && r.Mechanisms[0] == None }

// Accepts reports whether the route accepts an identity proved by m. None proves
// nothing and is never accepted.
func (r *Route) Accepts(m Mechanism) bool { return m.proves() && slices.Contains(r.Mechanisms, m) }

func (r *Route) label() string {
	if r.Name == "" {
		return r.Pattern
	}
	return r.Name
}

// Table finds the route of a request. It does not change. The zero Table has no
// routes.
type Table struct {
	mux    *http.ServeMux // finds handlers of type entry and never serves them
	routes []*Route
}

// Match is the result of Table.Match.
type Match struct {
	// Index is the index of the route in the argument of NewTable.
	Index int
	// Route is the table's own copy of the route. It must not be changed.
	Route *Route
}

// entry is a route as a handler of the ServeMux.
type entry struct {
	index int
	route *Route
}

// ServeHTTP implements http.Handler. It is never called: Table only looks entries
// up.
func (entry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

// NewTable returns a table of copies of routes. The error is an Errors with paths
// like "routes[1].match", in the order of the routes.
func NewTable(routes []Route) (*Table, error) {
	var errs Errors
	reg := registry{mux: http.NewServeMux(), routes: routes}
	names := make(map[string]int, len(routes))
	t := &Table{mux: reg.mux}
	for i, r := range routes {
		at := fmt.Sprintf("routes[%d]", i)
		r.Mechanisms = slices.Clone(r.Mechanisms)
		r.reasons = newReasons(&r)
		t.routes = append(t.routes, &r)
		if err := reg.add(entry{i, &r}); err != nil {
			errs.add(at+".match", "%q: %v", r.Pattern, err)
		}
		name := r.label()
		if first, taken := names[name]; !taken {
			names[name] = i
		} else if name != r.Pattern || name != routes[first].Pattern { // of equal patterns the conflict is enough
			errs.add(at+".name", "routes[%d] already has the name %q; logs and metrics need different names", first, name)
		}
		checkAuth(&errs, at, &r)
	}
	if err := errs.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// Routes returns the table's own copies of the routes, in the order in which
// NewTable got them. They must not be changed.
func (t *Table) Routes() []*Route { return slices.Clone(t.routes) }

// checkAuth checks the mechanisms and the policy of a route.
func checkAuth(errs *Errors, at string, r *Route) {
	if len(r.Mechanisms) == 0 {
		errs.add(at+".auth", "no mechanism is accepted; list some of basic, session, bearer, oidc, or [none] for a public route")
	}
	for i, m := range r.Mechanisms {
		switch path := fmt.Sprintf("%s.auth[%d]", at, i); {
		case m != None && !m.proves():
			errs.add(path, "%q is not a mechanism; expected basic, session, bearer, oidc or none", m)
		case slices.Contains(r.Mechanisms[:i], m):
			errs.add(path, "%q is listed twice", m)
		}
	}
	if slices.Contains(r.Mechanisms, None) && slices.ContainsFunc(r.Mechanisms, Mechanism.proves) {
		errs.add(at+".auth", "none makes a route public and cannot be combined with another mechanism")
	}
	if r.Public() && r.Policy != nil {
		errs.add(at+".policy", "a public route has no identities, so its policy can never apply; name a mechanism in auth or remove the policy")
	}
}

// Match finds the route of req by the rules of net/http.ServeMux: the most
// specific pattern wins, and GET patterns match HEAD. If a ServeMux would
// redirect "/app" to "/app/", Match returns the route of "/app/": the
// application decides which form is right. Match returns false if no route
// matches path and method. CONNECT never matches.
func (t *Table) Match(req *Request) (Match, bool) {
	if t.mux == nil || req.Method == "" || req.Method == http.MethodConnect || req.Path.Decoded == "" {
		return Match{}, false
	}
	handler, pattern := t.lookup(req, req.Path.Decoded)
	e, ok := handler.(entry)
	if !ok && pattern != "" { // a redirect of the ServeMux
		handler, _ = t.lookup(req, req.Path.Decoded+"/")
		e, ok = handler.(entry)
	}
	if !ok {
		return Match{}, false
	}
	return Match{Index: e.index, Route: e.route}, true
}

// CheckParameters returns a *TargetError if the path without the parameters of
// its segments (RFC 3986, section 3.3) matches another route than found. Some
// upstreams drop what follows a ";", so it must not choose between two policies.
func (t *Table) CheckParameters(req *Request, found Match) error {
	if !strings.Contains(req.Path.Decoded, ";") {
		return nil
	}
	segments := strings.Split(req.Path.Decoded, "/")
	left := []string{""} // before the first slash
	for i, segment := range segments[1:] {
		segment, _, cut := strings.Cut(segment, ";")
		if segment == "" && cut && i < len(segments)-2 {
			continue // it leaves two slashes, which many servers merge
		}
		left = append(left, segment)
	}
	bare := *req
	bare.Path.Decoded = strings.Join(left, "/")
	other, ok := t.Match(&bare)
	if !ok || other.Index != found.Index {
		return refuse("what follows a \";\" in the path leads to another route")
	}
	return nil
}

// lookup looks path up in the ServeMux. The ServeMux encodes the path and decodes
// it again by segments, so it compares the decoded path.
func (t *Table) lookup(req *Request, path string) (http.Handler, string) {
	return t.mux.Handler(&http.Request{Method: req.Method, Host: req.Host, URL: &url.URL{Path: path}})
}
