package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Answers of a route to a request without credentials.
const (
	UnauthenticatedAuto     = "auto"
	UnauthenticatedRedirect = "redirect"
)

// Whom a bearer token belongs to that is not the gateway's.
const AuthorizationApplication = "application"

// Treatment of requests that another site makes a browser send.
const CrossOriginAllow = "allow"

// Treatment of service workers: scripts of an application that answer for its
// host in the browser, in place of the gateway.
const serviceWorkersAllow = "allow"

// Treatment of "%2F" in a path.
const (
	EncodedSlashesKeep   = string(policy.KeptSlashes)
	EncodedSlashesOpaque = string(policy.OpaqueSlashes)
)

// Whose the cookies of an application are that scripts cannot read.
const CookiesPerUser = "per_user"

// Route maps requests to an upstream. Without an upstream it is for proxies that
// ask at EndpointVerify. Config.Table has the compiled policies.
type Route struct {
	Match    string             `yaml:"match"`
	Name     string             `yaml:"name" check:"line"` // default: Match
	Upstream string             `yaml:"upstream"`
	Auth     []policy.Mechanism `yaml:"auth"`
	// Policy: each of these must hold. Nil: every authenticated identity may pass.
	Policy             []policy.Ref  `yaml:"policy,single"`
	Timeout            time.Duration `yaml:"timeout" min:"1ns" why:"; remove the key for the timeout of the upstream"`
	Unauthenticated    string        `yaml:"unauthenticated" default:"auto" words:"auto challenge redirect"`
	Authorization      string        `yaml:"authorization" default:"gateway" words:"gateway application"`
	CrossOrigin        string        `yaml:"cross_origin" default:"deny" words:"deny allow"`
	ServiceWorkers     string        `yaml:"service_workers" default:"refuse" words:"refuse allow"`
	EncodedSlashes     string        `yaml:"encoded_slashes" default:"reject" words:"reject keep opaque"`
	Cookies            string        `yaml:"cookies" default:"shared" words:"shared per_user"`
	StripPrefix        string        `yaml:"strip_prefix"`
	Headers            routeHeaders  `yaml:"headers"`
	ForwardCredentials bool          `yaml:"forward_credentials"`
	MaxBody            int64         `yaml:"max_body"` // bytes, 0: no limit
	CORS               CORS          `yaml:"cors"`
	Rate               rate          `yaml:"rate"` // Requests is 0: no limit
	BasicChallenge     bool          `yaml:"basic_challenge"`
	SharedResource     string        `yaml:"resource"`
	Upgrade            []string      `yaml:"upgrade" check:"protocol"` // protocols beside WebSocket
	App                *App          `yaml:"app"`                      // nil: not on the start page
	// MCP: each POST is one message for an MCP server, strictly read.
	MCP bool `yaml:"mcp"`
}

// Words returns the words that keys of a route take.
func (Route) Words() map[string][]string {
	var mechanisms []string
	for _, kind := range policy.Mechanisms() {
		mechanisms = append(mechanisms, string(kind.Mechanism))
	}
	return map[string][]string{"auth": append(mechanisms, string(policy.None))}
}

// complete sets the name, and gives the resource the form that tokens have.
func (route *Route) complete() {
	if route.Name == "" {
		route.Name = route.Match
	}
	if name, err := ResourceName(route.SharedResource); err == nil { // else checker.resources reports it
		route.SharedResource = name
	}
}

// AllowsWorkers reports whether the application may have service workers.
func (route *Route) AllowsWorkers() bool { return route.ServiceWorkers == serviceWorkersAllow }

// routes checks the routes and makes their table.
func (k *checker) routes() {
	c, r := k.cfg, k.report
	table, own := make([]policy.Route, len(c.Routes)), c.OwnEndpoints()
	for i := range c.Routes {
		route, path := &c.Routes[i], fmt.Sprintf("routes[%d]", i)
		compiled := k.refs.compile(path+".policy", route.Policy, route.MCP)
		table[i] = policy.Route{
			Name: route.Name, Pattern: route.Match, Mechanisms: route.Auth, Policy: compiled,
			EncodedSlashes: policy.EncodedSlashes(route.EncodedSlashes),
		}
		if c.Endpoints.isOwnPath(own, literalPath(route.Match)) {
			r.Fault(path+".match",
				"%q can never be reached, because the gateway's own endpoint has this path; "+
					"set endpoints.prefix, for example to /.authgate/, to move the gateway's endpoints", route.Match)
		}
		route.checkRoute(r, path, c)
	}
	checkOpaque(r, c.Routes)
	var err error
	c.table, err = policy.NewTable(table)
	r.PolicyErrors(err)
}

// starSegment returns the first segment of the path of a pattern with a *, which other routers take
// for a wildcard, or "".
func starSegment(match string) string {
	_, path, _ := strings.Cut(match, "/")
	for segment := range strings.SplitSeq(path, "/") {
		if strings.Contains(segment, "*") {
			return segment
		}
	}
	return ""
}

// checkRoute checks everything except the policy.
func (route *Route) checkRoute(r *section.Report, path string, c *Config) {
	if route.Match == "" {
		r.Missing(path+".match", `a pattern is needed, like /app/ or "GET example.org/app/"`)
	}
	if err := section.CheckWildcard(policy.PatternHost(route.Match)); err != nil {
		r.Fault(path+".match", "%v", err)
	}
	if err := policy.CheckReadable(route.Match); err != nil && route.EncodedSlashes != EncodedSlashesOpaque {
		r.Fault(path+".match", "%q: %v", route.Match, err)
	}
	if star := starSegment(route.Match); star != "" {
		r.Warn(path+".match",
			"%q matches the character * alone; a path that ends in / matches all below it, and {name} one "+
				"segment", star)
	}
	for i, m := range route.Auth {
		checkHasUsers(r, fmt.Sprintf("%s.auth[%d]", path, i), m, c)
	}
	switch {
	case route.Unauthenticated != UnauthenticatedRedirect:
	case !route.TakesSessions():
		r.Fault(path+".unauthenticated",
			"redirect leads to the sign-in page, which gives no credential that the route accepts; "+
				"add session or oidc to auth, or use challenge")
	case slices.Contains(route.Auth, policy.None):
		r.Fault(path+".unauthenticated",
			"redirect leads away the requests without credentials that none in auth lets in; use auto, or remove none")
	}
	if route.Authorization == AuthorizationApplication && route.public() {
		r.Fault(path+".authorization",
			"has no effect, because on a public route Authorization is the application's in any case; remove this key")
	}
	if route.Cookies == CookiesPerUser && route.public() {
		r.Fault(path+".cookies",
			"per_user needs users, and a public route has none; remove this key, or name mechanisms in auth")
	}
	if route.BasicChallenge && !slices.Contains(route.Auth, policy.Bearer) {
		r.Fault(path+".basic_challenge",
			"asks for an API token, which the route does not accept; add bearer to auth, or remove this key")
	}
	if route.MCP && len(route.Upgrade) > 0 {
		r.Fault(path+".upgrade", "on a route with mcp no request may switch protocols; remove this key")
	}
	route.CORS.checkCORS(r, path+".cors")
	route.checkRate(r, path+".rate")
	route.checkApp(r, path+".app")
	route.checkStripPrefix(r, path+".strip_prefix")
	route.checkUpstream(r, path, c)
	route.Headers.checkHeaders(r, path+".headers", c.Upstreams[route.Upstream], &c.IdentityHeaders)
}

// public reports whether the route has no users.
func (route *Route) public() bool { return len(route.Auth) == 1 && route.Auth[0] == policy.None }

// TakesSessions reports whether the sign-in page gives a credential that the route
// accepts.
func (route *Route) TakesSessions() bool {
	inCookie := func(m policy.Mechanism) bool { return m.Traits().Carrier == policy.InCookie }
	return slices.ContainsFunc(route.Auth, inCookie)
}

// checkProtocol checks a protocol that clients may switch to.
func checkProtocol(protocol string) error {
	name, version, versioned := strings.Cut(protocol, "/")
	switch {
	case !httpguts.ValidHeaderFieldName(name) || versioned && !httpguts.ValidHeaderFieldName(version):
		return errors.New("is not a protocol; expected a name like tailscale-control-protocol or tcp")
	case strings.EqualFold(name, "h2c") || strings.EqualFold(name, "HTTP"):
		return errors.New("would carry requests that no route decides on")
	}
	return nil
}

// checkUpstream checks the upstream of the route at path. A route without one is
// for proxies that ask at EndpointVerify.
func (route *Route) checkUpstream(r *section.Report, path string, c *Config) {
	name, at := route.Upstream, path+".upstream"
	if !r.Given(at) {
		route.checkVerifyOnly(r, path, c)
		return
	}
	if name == "" {
		r.Fault(at,
			"must not be empty; give the name of an upstream, or remove the key if a proxy forwards the "+
				"requests itself and asks the gateway at %s%s", c.Endpoints.Prefix, EndpointVerify)
		return
	}
	if _, ok := c.Upstreams[name]; !ok && !r.Unreadable("upstreams") {
		r.Fault(at, "there is no upstream %q; %s", name,
			strictyaml.Hint(name, "upstreams", slices.Sorted(maps.Keys(c.Upstreams))))
	}
}

// checkVerifyOnly checks a route without an upstream: keys about requests to one
// would do nothing.
func (route *Route) checkVerifyOnly(r *section.Report, path string, c *Config) {
	for _, key := range []string{
		"timeout", "upgrade", "cookies", "strip_prefix", "headers", "forward_credentials", "max_body", "mcp",
	} {
		if at := path + "." + key; r.Given(at) {
			r.Fault(at, "has no effect, because the route has no upstream; add upstream, or remove this key")
		}
	}
	if len(c.Listen.TrustedProxies) == 0 && !r.Broken("listen") {
		r.Warn(path,
			"the route serves no request, because it has no upstream, and no proxy may ask at %s%s; "+
				"add upstream, or the proxies to listen.trusted_proxies", c.Endpoints.Prefix, EndpointVerify)
	}
}

// checkStripPrefix checks that every path of the route begins with the prefix.
func (route *Route) checkStripPrefix(r *section.Report, path string) {
	prefix, pattern := route.StripPrefix, literalPath(route.Match)
	switch {
	case prefix == "":
	case !strings.HasPrefix(prefix, "/"):
		r.Fault(path, "%q does not begin with a slash", prefix)
	case strings.HasSuffix(prefix, "/"):
		r.Fault(path, "%q ends in a slash; remove the slash", prefix)
	case strings.ContainsAny(prefix, "{}"):
		r.Fault(path, "%q contains a brace; only literal segments can be removed", prefix)
	case pattern != "" && pattern != prefix && !strings.HasPrefix(pattern, prefix+"/"):
		r.Fault(path, "%q is not a prefix of the path of match %q in whole segments", prefix, route.Match)
	}
}

// PolicyText returns policies as people read them: a name, or several in brackets.
func PolicyText(refs []policy.Ref) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		if names[i] = ref.Name; ref.Spec != nil {
			names[i] = "a policy in place"
		}
	}
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return "[" + strings.Join(names, ", ") + "]"
}
