package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// checkUpstreams checks the applications behind the gateway.
func (l *loader) checkUpstreams() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Upstreams)) {
		u, path := l.cfg.Upstreams[name], join("upstreams", name)
		if problem := nameProblem(name); problem != "" {
			l.fault(l.main, path, "the name of the upstream %s", problem)
		}
		l.checkAddresses(path, u)
		if u.Timeout == 0 {
			l.fault(l.main, path+".timeout", "must be longer than 0")
		}
		if u.ConnectTimeout == 0 {
			l.fault(l.main, path+".connect_timeout", "must be longer than 0")
		}
		if l.main.given(path + ".identity_headers") {
			l.checkIdentityHeaders(path+".identity_headers", *u.IdentityHeaders)
		}
	}
}

// checkAddresses checks where an upstream is: url or urls.
func (l *loader) checkAddresses(path string, u Upstream) {
	one, several := path+".url", path+".urls"
	switch {
	case l.main.given(one) && l.main.given(several):
		l.fault(l.main, several, "url is given as well; keep one of the two")
	case l.main.given(one) && u.URL == "", l.main.given(several) && len(u.URLs) == 0:
		l.fault(l.main, one, "must not be empty; expected an address like http://127.0.0.1:9000")
	case !l.main.given(one) && !l.main.given(several):
		l.fault(l.main, path, "needs an address: url, or urls for several")
	case l.main.given(one):
		l.checkAddress(one, u.URL)
	default:
		for i, address := range u.URLs {
			at := fmt.Sprintf("%s[%d]", several, i)
			l.checkAddress(at, address)
			if slices.Contains(u.URLs[:i], address) {
				l.fault(l.main, at, "%q is listed twice", address)
			}
		}
	}
}

// checkAddress checks one address of an upstream.
func (l *loader) checkAddress(path, address string) {
	const expected = "expected http://HOST:PORT or https://HOST:PORT"
	u, err := httpURL(address)
	switch {
	case err != nil:
		l.fault(l.main, path, "%v; %s", err, expected)
	case u.Path != "" && u.Path != "/":
		l.fault(l.main, path, "%q has a path, which is not supported: requests keep the path they came with, less a route's strip_prefix; %s", address, expected)
	}
}

// hopByHop are the headers of one connection (RFC 9110, section 7.6.1), in
// lower case.
var hopByHop = []string{
	"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
	"te", "trailer", "transfer-encoding", "upgrade",
}

// ownHeaders are the headers with a meaning of their own in every request,
// which cannot carry an identity as well.
var ownHeaders = []string{
	"accept", "authorization", "cache-control", "content-encoding", "content-length", "content-type",
	"cookie", "date", "expect", "forwarded", "host", "origin", "range", "referer", "set-cookie",
	"user-agent", "via", "x-request-id",
}

// foldHeader is a header name as an application may see it: CGI and its kin
// tell neither case nor dashes, dots and underscores apart.
func foldHeader(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
}

// checkIdentityHeaders checks the names of headers under a key.
func (l *loader) checkIdentityHeaders(path string, headers IdentityHeaders) {
	taken := map[string]string{}
	names := headers.byKey()
	for _, key := range slices.Sorted(maps.Keys(names)) {
		name, at := *names[key], join(path, key)
		if name == "" {
			continue
		}
		folded := foldHeader(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			l.fault(l.main, at, "%q is not the name of a header; use letters, digits and -", name)
		case slices.Contains(hopByHop, folded) || slices.Contains(ownHeaders, folded) || strings.HasPrefix(folded, "x-forwarded-"):
			l.fault(l.main, at, "%q has a meaning of its own and cannot carry an identity; choose another name", name)
		case taken[folded] != "":
			// Of two that an upstream takes from the top level it is said there.
			if path == "identity_headers" || l.main.given(at) || l.main.given(join(path, taken[folded])) {
				l.fault(l.main, at, "%q is the header of %s already; case, - _ and . do not tell names apart", name, taken[folded])
			}
		default:
			taken[folded] = key
		}
	}
}

// checkRouteHeaders checks the headers that a route sets and removes.
func (l *loader) checkRouteHeaders(path string, r Route) {
	identity := map[string]bool{}
	if u, ok := l.cfg.Upstreams[r.Upstream]; ok {
		for _, name := range u.IdentityHeaders.byKey() {
			identity[foldHeader(*name)] = *name != ""
		}
	}
	taken := map[string]string{}
	check := func(at, name string) {
		folded := foldHeader(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			l.fault(l.main, at, "%q is not the name of a header; use letters, digits and -", name)
		case identity[folded]:
			l.fault(l.main, at, "%q carries the identity and is the gateway's to set; see identity_headers", name)
		case folded == "host" || folded == "content-length" ||
			slices.Contains(hopByHop, folded) || strings.HasPrefix(folded, "x-forwarded-"):
			l.fault(l.main, at, "%q is the gateway's to set", name)
		case taken[strings.ToLower(name)] != "":
			l.fault(l.main, at, "%q stands in %s already", name, taken[strings.ToLower(name)])
		}
		taken[strings.ToLower(name)] = at
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers.Set)) {
		at := join(path+".set", name)
		check(at, name)
		if !httpguts.ValidHeaderFieldValue(r.Headers.Set[name]) {
			l.fault(l.main, at, "the value holds a control character, which no header can carry")
		}
	}
	for i, name := range r.Headers.Remove {
		check(fmt.Sprintf("%s.remove[%d]", path, i), name)
	}
}
