package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/headername"
	"authgate/policy"
)

// checkUpstreams checks the applications behind the gateway.
func (l *loader) checkUpstreams() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Upstreams)) {
		u, path := l.cfg.Upstreams[name], strictyaml.Join("upstreams", name)
		if err := policy.CheckName(name); err != nil {
			l.fault(path, "the name of the upstream %v", err)
		}
		l.checkAddresses(path, u)
		if u.Timeout == 0 {
			l.fault(path+".timeout", "must be longer than 0")
		}
		if u.ConnectTimeout == 0 {
			l.fault(path+".connect_timeout", "must be longer than 0")
		}
		if l.main.Given(path + ".identity_headers") {
			l.checkIdentityHeaders(path+".identity_headers", *u.IdentityHeaders)
		}
	}
}

// checkAddresses checks where an upstream is: url or urls.
func (l *loader) checkAddresses(path string, u Upstream) {
	one, several := path+".url", path+".urls"
	switch {
	case l.main.Given(one) && l.main.Given(several):
		l.fault(several, "url is given as well; keep one of the two")
	case l.main.Given(one) && u.URL == nil, l.main.Given(several) && len(u.URLs) == 0:
		l.fault(one, "must not be empty; expected an address like http://127.0.0.1:9000")
	case !l.main.Given(one) && !l.main.Given(several):
		l.fault(path, "needs an address: url, or urls for several")
	case l.main.Given(one):
		l.checkAddress(one, u.URL)
	default:
		for i, address := range u.URLs {
			at := fmt.Sprintf("%s[%d]", several, i)
			l.checkAddress(at, address)
			if address != nil && slices.ContainsFunc(u.URLs[:i], func(other *url.URL) bool { return other != nil && *other == *address }) {
				l.fault(at, "%q is listed twice", address)
			}
		}
	}
}

// checkAddress checks one address of an upstream.
func (l *loader) checkAddress(path string, u *url.URL) {
	switch {
	case u == nil:
		l.fault(path, "must not be empty; expected an address like http://127.0.0.1:9000")
	case u.Path != "" && u.Path != "/":
		l.fault(path, "%q has a path, which is not supported: requests keep the path they came with, less a route's strip_prefix; %s", u, addressForm)
	}
}

// hopByHop are the headers of one connection (RFC 9110, section 7.6.1),
// folded.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// ownHeaders are the headers with a meaning of their own in every request,
// which cannot carry an identity as well.
var ownHeaders = []string{
	"Accept", "Authorization", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type",
	"Cookie", "Date", "Expect", "Forwarded", "Host", "Origin", "Range", "Referer", "Set-Cookie",
	"User-Agent", "Via", "X-Request-Id",
}

// aboutRequest reports whether a header is one of those X-Forwarded-* that tell
// of the client or of the original request. Others tell who somebody is.
func aboutRequest(folded string) bool {
	return strings.HasPrefix(folded, "X-Forwarded-") && headername.Of(folded) != headername.Identity
}

// checkIdentityHeaders checks the names of headers under a key.
func (l *loader) checkIdentityHeaders(path string, headers IdentityHeaders) {
	taken := map[string]string{}
	names := headers.byKey()
	for _, key := range slices.Sorted(maps.Keys(names)) {
		name, at := *names[key], strictyaml.Join(path, key)
		if name == "" {
			continue
		}
		folded := headername.Fold(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			l.fault(at, "%q is not the name of a header; use letters, digits and -", name)
		case slices.Contains(hopByHop, folded) || slices.Contains(ownHeaders, folded) || aboutRequest(folded):
			l.fault(at, "%q has a meaning of its own and cannot carry an identity; choose another name", name)
		case taken[folded] != "":
			// Of two that an upstream takes from the top level it is said there.
			if path == "identity_headers" || l.main.Given(at) || l.main.Given(strictyaml.Join(path, taken[folded])) {
				l.fault(at, "%q is the header of %s already; case and separators like - _ and . do not tell names apart", name, taken[folded])
			}
		default:
			taken[folded] = key
		}
	}
}

// checkRouteHeaders checks the headers that a route sets, removes and lets
// through.
func (l *loader) checkRouteHeaders(path string, r Route) {
	c := routeHeaders{loader: l, identity: map[string]bool{}, taken: map[string]string{}}
	if u, ok := l.cfg.Upstreams[r.Upstream]; ok {
		c.carry(u.IdentityHeaders)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers.Set)) {
		at := strictyaml.Join(path+".set", name)
		c.check(at, name)
		if !httpguts.ValidHeaderFieldValue(r.Headers.Set[name]) {
			l.fault(at, "the value holds a control character, which no header can carry")
		}
	}
	for i, name := range r.Headers.Remove {
		c.check(fmt.Sprintf("%s.remove[%d]", path, i), name)
	}
	c.carry(&l.cfg.IdentityHeaders) // no client may send these either, even where the upstream has others
	for i, name := range r.Headers.Pass {
		at := fmt.Sprintf("%s.pass[%d]", path, i)
		if c.check(at, name) {
			c.checkPass(at, name)
		}
	}
}

// routeHeaders checks the names of headers under one route.
type routeHeaders struct {
	*loader
	identity map[string]bool   // folded names that carry the identity
	taken    map[string]string // folded names, and where they stand
}

// carry notes the names of headers that carry the identity.
func (c *routeHeaders) carry(headers *IdentityHeaders) {
	for _, name := range headers.byKey() {
		c.identity[headername.Fold(*name)] = *name != ""
	}
}

// check checks a name, and reports whether it is one that a route may give.
func (c *routeHeaders) check(at, name string) bool {
	folded := headername.Fold(name)
	problem := ""
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		problem = "%q is not the name of a header; use letters, digits and -"
	case c.identity[folded]:
		problem = "%q carries the identity and is the gateway's to set; see identity_headers"
	case folded == "Host" || folded == "Content-Length" || slices.Contains(hopByHop, folded) || aboutRequest(folded) && !strings.Contains(at, ".pass["):
		problem = "%q is the gateway's to set"
	case c.taken[folded] != "":
		c.fault(at, "%q is listed in %s already", name, c.taken[folded])
		return false
	}
	c.taken[folded] = at
	if problem != "" {
		c.fault(at, problem, name)
	}
	return problem == ""
}

// checkPass checks the name of a header that clients may send.
func (c *routeHeaders) checkPass(at, name string) {
	switch headername.Of(headername.Fold(name)) {
	case headername.Own:
		c.fault(at, "%q is the gateway's to set, and no client may send it", name)
	case headername.Free, headername.Framed:
		c.fault(at, "%q passes anyway; leave it out, or correct its spelling", name)
	}
}
