// Package cors is how a route shares its responses with the scripts of other
// origins (CORS, Fetch standard, section 3.2).
//
// A Policy answers preflights and decides the CORS fields of every response,
// whatever the application says in them. It is a value that the gateway asks,
// and no middleware, as the libraries for CORS are: the same decision is needed
// for responses of upstreams, for errors of the gateway, and for the rule about
// requests of other sites.
//
// # Limits and threats
//
// CORS lets scripts read responses; it keeps no request away from the
// application. Origins are compared byte for byte: there are no patterns, and
// the origin "null", which every sandboxed frame has, is never one of a list.
// Preflights for private networks (Access-Control-Request-Private-Network) get no
// permission: browsers have replaced that draft by a question to the user.
package cors

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"authgate/gateway/wire/headername"
	"authgate/policy"
)

// Any means all origins, methods or headers.
const Any = "*"

// Options configure a Policy.
type Options struct {
	Origins     []string // each accepted by CheckOrigin; or Any
	Headers     []string // that requests may have beyond the safelisted ones; or Any
	Methods     []string // beyond GET, HEAD and POST; or Any
	Expose      []string // headers of responses that scripts may read beyond the safelisted ones
	Credentials bool     // requests may carry cookies; not with Any as origin
	MaxAge      time.Duration
}

// Policy is the CORS policy of a route. The nil Policy shares nothing and
// changes nothing. It does not change, and is safe for concurrent use.
type Policy struct {
	origins     map[string]bool
	anyOrigin   bool
	anyMethod   bool
	anyHeader   bool
	credentials bool
	methods     string
	headers     string
	expose      string
	maxAge      string
}

// New returns the policy of options. With Any as origin, credentials are never
// shared.
func New(o Options) *Policy {
	p := &Policy{
		origins: map[string]bool{}, anyOrigin: slices.Contains(o.Origins, Any),
		anyMethod: slices.Contains(o.Methods, Any), anyHeader: slices.Contains(o.Headers, Any),
		methods: strings.Join(o.Methods, ", "), headers: strings.Join(o.Headers, ", "),
		expose: strings.Join(o.Expose, ", "),
		maxAge: strconv.Itoa(int(o.MaxAge.Seconds())),
	}
	p.credentials = o.Credentials && !p.anyOrigin
	for _, origin := range o.Origins {
		p.origins[origin] = true
	}
	return p
}

// CheckOrigin returns an error for a text that is no origin, written as browsers
// send it (RFC 6454, section 6.1).
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	switch {
	case origin == "null":
		return errors.New("is the origin of every sandboxed frame, and allows all sites")
	case err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin:
		return errors.New("is not an origin; expected " +
			"SCHEME://HOST or SCHEME://HOST:PORT, like https://app.example.org")
	case strings.Contains(u.Host, Any):
		return errors.New("has a wildcard, which is not supported; list each origin, or give [\"*\"] for all without " +
			"credentials")
	case origin != strings.ToLower(origin):
		return errors.New("must be in lower case, as browsers send it")
	case u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" ||
		strings.HasSuffix(u.Host, ":"):
		return errors.New("must not have the default port, which browsers leave out")
	}
	if err := policy.CheckASCII(u.Hostname()); err != nil {
		return fmt.Errorf("is not an origin as browsers send it: the host %w", err)
	}
	return nil
}

// IsPreflight reports whether a browser asks whether a script may send a request.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && RequestedMethod(r.Header) != ""
}

// RequestedMethod returns the method of the request that a preflight is about, ""
// unless there is one.
func RequestedMethod(h http.Header) string { return only(h["Access-Control-Request-Method"]) }

// InPreflight reports whether a browser sends a header in a preflight by itself. Scripts can
// add none (Fetch standard, section 4.9).
func InPreflight(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Dnt", "Origin", "Pragma", "Priority",
		"Referer", "Save-Data", "User-Agent":
		return true
	}
	return strings.HasPrefix(name, "Access-Control-Request-") || strings.HasPrefix(name, "Sec-")
}

// ProvesNothing reports whether a header has no credential, which may also come in the header
// token, and none that makes an application take a preflight for another request. An empty
// token is no header.
func ProvesNothing(h http.Header, token string) bool {
	token = headername.Fold(token)
	for name := range h {
		switch folded := headername.Fold(name); folded {
		case "Authorization", "Cookie", "Proxy-Authorization", token:
			return false
		default:
			if headername.Of(folded) == headername.Misleading { // such as another method
				return false
			}
		}
	}
	return true
}

// only returns the one value of a field, or "".
func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// allows reports whether the request is of an origin that the policy names.
func (p *Policy) allows(request http.Header) bool {
	origin := only(request["Origin"])
	return origin != "" && (p.anyOrigin || p.origins[origin])
}

// AllowsCredentials reports whether the scripts of the origin of a request may send
// the user's cookies and read the response.
func (p *Policy) AllowsCredentials(request http.Header) bool {
	return p != nil && p.credentials && p.allows(request)
}

// fields are the fields of a response that belong to the policy.
var fields = [...]string{
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers",
	"Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age",
	"Access-Control-Allow-Private-Network",
}

// SetFields replaces the CORS fields of the response to a request.
func (p *Policy) SetFields(request, response http.Header) {
	if p == nil {
		return
	}
	if p.setOrigin(request, response) && p.expose != "" {
		response["Access-Control-Expose-Headers"] = []string{p.expose}
	}
}

// Expose lets the scripts that may read a response read those headers of it too.
func Expose(response http.Header, names ...string) {
	const field = "Access-Control-Expose-Headers"
	if response["Access-Control-Allow-Origin"] != nil {
		response[field] = []string{strings.Join(append(slices.Clone(response[field]), names...), ", ")}
	}
}

// setOrigin removes all CORS fields, and sets those that tell the origin that it
// may read the response. It reports whether it may.
func (p *Policy) setOrigin(request, response http.Header) bool {
	for _, field := range fields {
		delete(response, field)
	}
	if p.anyOrigin {
		response["Access-Control-Allow-Origin"] = []string{Any}
		return true
	}
	response["Vary"] = append(slices.Clip(response["Vary"]), "Origin")
	if !p.allows(request) {
		return false
	}
	response["Access-Control-Allow-Origin"] = []string{request["Origin"][0]}
	if p.credentials {
		response["Access-Control-Allow-Credentials"] = []string{"true"}
	}
	return true
}

// Preflight sets the fields of the response to a preflight. It reports whether the
// origin may send requests at all. The browser compares the lists with its request.
func (p *Policy) Preflight(request, response http.Header) bool {
	response["Vary"] = append(slices.Clip(response["Vary"]),
		"Access-Control-Request-Method, Access-Control-Request-Headers")
	if !p.setOrigin(request, response) || !p.allows(request) {
		return false
	}
	set := func(name, value string) {
		if value != "" {
			response[name] = []string{value}
		}
	}
	// A literal "*" is no wildcard beside credentials, and never for Authorization.
	methods, headers := p.methods, p.headers
	if p.anyMethod {
		methods = RequestedMethod(request)
	}
	if p.anyHeader {
		headers = only(request["Access-Control-Request-Headers"])
	}
	set("Access-Control-Allow-Methods", methods)
	set("Access-Control-Allow-Headers", headers)
	set("Access-Control-Max-Age", p.maxAge)
	return true
}
