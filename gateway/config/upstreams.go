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
func checkUpstreams(r *report, upstreams map[string]Upstream) {
	for _, name := range slices.Sorted(maps.Keys(upstreams)) {
		path := strictyaml.Join("upstreams", name)
		if err := policy.CheckName(name); err != nil {
			r.Fault(path, "the name of the upstream %v", err)
		}
		upstreams[name].check(r, path)
	}
}

// check checks everything except the name.
func (u Upstream) check(r *report, path string) {
	u.checkAddresses(r, path)
	r.positive(path+".timeout", u.Timeout)
	r.positive(path+".connect_timeout", u.ConnectTimeout)
	if r.Given(path + ".identity_headers") { // else those of the top level
		u.IdentityHeaders.check(r, path+".identity_headers")
	}
}

// checkAddresses checks the keys url and urls of an upstream.
func (u Upstream) checkAddresses(r *report, path string) {
	one, several := path+".url", path+".urls"
	switch {
	case r.Given(one) && r.Given(several):
		r.Fault(several, "url is given too; keep one of the two")
	case r.Given(one) && u.URL == nil, r.Given(several) && len(u.URLs) == 0:
		r.Fault(one, "must not be empty; expected an address like http://127.0.0.1:9000")
	case !r.Given(one) && !r.Given(several):
		r.Fault(path, "needs an address; give url, or urls for several addresses")
	case r.Given(one):
		checkUpstreamURL(r, one, u.URL)
	default:
		for i, address := range u.URLs {
			at := fmt.Sprintf("%s[%d]", several, i)
			checkUpstreamURL(r, at, address)
			if address != nil && slices.ContainsFunc(u.URLs[:i], func(other *url.URL) bool { return other != nil && *other == *address }) {
				r.Fault(at, "%q is listed twice", address)
			}
		}
	}
}

// checkUpstreamURL checks one address of an upstream.
func checkUpstreamURL(r *report, path string, u *url.URL) {
	switch {
	case u == nil:
		r.Fault(path, "must not be empty; expected an address like http://127.0.0.1:9000")
	case u.Path != "" && u.Path != "/":
		r.Fault(path, "%q has a path, which is not supported, because requests keep their own path except for strip_prefix of the route; %s", u, addressForm)
	}
}
