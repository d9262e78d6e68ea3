package policy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Route is one kind of request and what it takes to make it. The zero Route
// forbids everything.
type Route struct {
	// Name is what logs, metrics and reasons call the route; where it is
	// empty they use Pattern.
	Name string
	// Pattern is as net/http.ServeMux takes it: "[METHOD ][HOST]/[PATH]".
	Pattern string
	// Mechanisms are those that the route accepts; None alone makes it
	// public.
	Mechanisms []Mechanism
	// Policy must allow; nil allows every identity that a mechanism of the
	// route proved.
	Policy *Policy

	reasons *reasons // set in a Table
}

// Public reports whether the route asks nobody who they are.
func (r *Route) Public() bool { return len(r.Mechanisms) == 1 && r.Mechanisms[0] == None }

// Accepts reports whether an identity proved by m counts on this route. None
// proves nothing and never counts.
func (r *Route) Accepts(m Mechanism) bool { return m.proves() && slices.Contains(r.Mechanisms, m) }

func (r *Route) label() string {
	if r.Name == "" {
		return r.Pattern
	}
	return r.Name
}

// Table finds the route of a request. It does not change once made; the zero
// Table has no routes.
type Table struct {
	mux    *http.ServeMux // its handlers are of type entry and are never served
	routes []*Route
}

// Match is what Table.Match found.
type Match struct {
	// Index is the route's place in the list that the table was made of.
	Index int
	// Route is the table's own copy of the route, not to be changed.
	Route *Route
}

// entry is a route as the ServeMux keeps it.
type entry struct {
	index int
	route *Route
}

// ServeHTTP makes entry an http.Handler; the gateway looks entries up and
// does the serving itself.
func (entry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

// NewTable makes a table. The routes are copied. The error is an Errors with
// everything that is wrong, under paths like "routes[1].match", in the order
// of the routes.
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
			errs.add(at+".name", "routes[%d] has the name %q already; names tell routes apart in logs and metrics", first, name)
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

// checkAuth checks what a route says about identities.
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
		errs.add(at+".auth", "none makes a route public and can't stand beside another mechanism")
	}
	if r.Public() && r.Policy != nil {
		errs.add(at+".policy", "a public route asks nobody who they are, so no policy can apply; name a mechanism in auth or remove the policy")
	}
}

// Match finds the route of req by the rules of net/http.ServeMux: the most
// specific pattern wins, and GET patterns match HEAD. Where a ServeMux would
// redirect "/app" to "/app/", "/app" belongs to the route of "/app/": which of
// the two forms is the right one is the application's business. Match returns
// false where no route matches, or none for this method; CONNECT matches none.
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

// CheckParameters returns a *TargetError where a path leads to another route
// than found once the parameters of its segments are cut off (RFC 3986,
// section 3.3). Some upstreams drop what follows a ";", others don't, and what
// is dropped must not choose between two policies.
func (t *Table) CheckParameters(req *Request, found Match) error {
	if !strings.Contains(req.Path.Decoded, ";") {
		return nil
	}
	segments := strings.Split(req.Path.Decoded, "/")
	left := []string{""} // before the first slash
	for i, segment := range segments[1:] {
		segment, _, cut := strings.Cut(segment, ";")
		if segment == "" && cut && i < len(segments)-2 {
			continue // it leaves two slashes, which are one to many
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

// lookup asks the ServeMux. It encodes the decoded path and decodes it again
// by segments, so what it compares is the decoded path.
func (t *Table) lookup(req *Request, path string) (http.Handler, string) {
	return t.mux.Handler(&http.Request{Method: req.Method, Host: req.Host, URL: &url.URL{Path: path}})
}
