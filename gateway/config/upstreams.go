package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// checkUpstreams checks the section upstreams.
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

// checkAddresses checks the keys url and urls of an upstream.
func (l *loader) checkAddresses(path string, u Upstream) {
	one, several := path+".url", path+".urls"
	switch {
	case l.main.Given(one) && l.main.Given(several):
		l.fault(several, "url is given too; keep one of the two")
	case l.main.Given(one) && u.URL == nil, l.main.Given(several) && len(u.URLs) == 0:
		l.fault(one, "must not be empty; expected an address like http://127.0.0.1:9000")
	case !l.main.Given(one) && !l.main.Given(several):
		l.fault(path, "needs an address; give url, or urls for several addresses")
	case l.main.Given(one):
		l.checkUpstreamURL(one, u.URL)
	default:
		for i, address := range u.URLs {
			at := fmt.Sprintf("%s[%d]", several, i)
			l.checkUpstreamURL(at, address)
			if address != nil && slices.ContainsFunc(u.URLs[:i], func(other *url.URL) bool { return other != nil && *other == *address }) {
				l.fault(at, "%q is listed twice", address)
			}
		}
	}
}

// checkUpstreamURL checks one address of an upstream.
func (l *loader) checkUpstreamURL(path string, u *url.URL) {
	switch {
	case u == nil:
		l.fault(path, "must not be empty; expected an address like http://127.0.0.1:9000")
	case u.Path != "" && u.Path != "/":
		l.fault(path, "%q has a path, which is not supported, because requests keep their own path except for strip_prefix of the route; %s", u, addressForm)
	}
}
