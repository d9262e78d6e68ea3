package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// check checks everything except the name and the files of tls.
func (u Upstream) check(r *report, path string) {
	u.checkAddresses(r, path)
	r.positive(path+".timeout", u.Timeout)
	r.positive(path+".connect_timeout", u.ConnectTimeout)
	u.Health.check(r, path+".health")
	u.checkHost(r, path+".host")
	u.checkTLS(r, path+".tls")
	u.checkRewriteResponses(r, path+".rewrite_responses")
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
	case r.Given(several):
		for i, address := range u.URLs {
			at := fmt.Sprintf("%s[%d]", several, i)
			switch {
			case address == nil:
				r.Fault(at, "must not be empty; expected an address like http://127.0.0.1:9000")
			case slices.ContainsFunc(u.URLs[:i], func(other *url.URL) bool { return other != nil && sameTarget(other, address) }):
				r.Fault(at, "%q is listed twice", address)
			}
		}
	}
}

// sameTarget reports whether two URLs differ in nothing but a slash at the end.
func sameTarget(a, b *url.URL) bool {
	return strings.TrimSuffix(a.String(), "/") == strings.TrimSuffix(b.String(), "/")
}

// complete sets From and To, if Status is valid.
func (h *Health) complete() {
	first, last, ranges := strings.Cut(h.Status, "-")
	if !ranges {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 == nil && err2 == nil && len(first) == 3 && len(last) == 3 && 100 <= from && from <= to && to <= 599 {
		h.From, h.To = from, to
	}
}

// completeHealthHost sets the Host of checks where clients choose that of requests:
// applications answer only for hosts that they know.
func (u *Upstream) completeHealthHost(name string, c *Config) {
	if u.Health.Path == "" || u.Health.Host != "" || u.Host != HostClient {
		return
	}
	for i := range c.Routes {
		host := policy.PatternHost(c.Routes[i].Match)
		if c.Routes[i].Upstream == name && host != "" && !strings.HasPrefix(host, "*") {
			u.Health.Host = host
			return
		}
	}
	if c.PublicURL != nil {
		u.Health.Host = c.PublicURL.Host
	}
}

// check checks an active health check, if there is one.
func (h *Health) check(r *report, path string) {
	if !r.Given(path) {
		return
	}
	if h.Path == "" {
		r.Fault(path, "needs a path, like path: /healthz; without health, only failed requests tell which target is down")
	} else if _, err := policy.ParseTarget(h.Path); err != nil {
		r.Fault(path+".path", "%q is not a path, with or without a query; expected one like /healthz: %v", h.Path, err)
	}
	r.positive(path+".interval", h.Interval)
	r.positive(path+".timeout", h.Timeout)
	if h.To == 0 {
		r.Fault(path+".status", `%q is not a status or a range of them; expected "200" or "200-399"`, h.Status)
	}
	if h.Failures == 0 {
		r.Fault(path+".failures", "must be at least 1")
	}
	if r.Given(path+".host") && !isHost(h.Host) {
		r.Fault(path+".host", "%q is not a host; expected a name like app.example.org", h.Host)
	}
}

// isHost reports whether a Host is a name or an address, with or without a port.
func isHost(host string) bool {
	_, err := httpURL("http://" + host)
	return err == nil && !strings.Contains(host, "/")
}

// checkHost checks the Host that the upstream gets.
func (u Upstream) checkHost(r *report, path string) {
	switch u.Host {
	case HostClient, HostTarget:
		return
	case "":
		r.Fault(path, "must not be empty; expected client, target or a name like app.example.org")
		return
	}
	if !isHost(u.Host) {
		r.Fault(path, "%q is not a host; expected client, target or a name like app.example.org", u.Host)
	}
}

// complete sets SHA256, if Fingerprint is valid. openssl writes colons between the bytes.
func (t *UpstreamTLS) complete() {
	algorithm, digits, _ := strings.Cut(t.Fingerprint, ":")
	sum, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
	if strings.EqualFold(algorithm, "sha256") && err == nil && len(sum) == sha256.Size {
		t.SHA256 = sum
	}
}

// checkTLS checks that there are https targets for the keys of tls.
func (u Upstream) checkTLS(r *report, path string) {
	if u.TLS.CA == "" && u.TLS.Certificate == "" && u.TLS.Key == "" && u.TLS.ServerName == "" && u.TLS.Fingerprint == "" {
		return
	}
	if !slices.ContainsFunc(u.URLs, func(target *url.URL) bool { return target != nil && target.Scheme == "https" }) {
		r.Fault(path, "has no effect, because no address of this upstream begins with https://")
	}
	for _, pair := range [2]struct{ key, other, own string }{{"key", u.TLS.Certificate, u.TLS.Key}, {"certificate", u.TLS.Key, u.TLS.Certificate}} {
		if pair.own == "" && pair.other != "" {
			r.Missing(path+"."+pair.key, "is needed too: certificate and key belong together")
		}
	}
	switch {
	case u.TLS.Fingerprint == "":
	case u.TLS.SHA256 == nil:
		r.Fault(path+".fingerprint", "%q is not a fingerprint; expected sha256: and 64 hexadecimal digits, "+
			"as openssl x509 -noout -fingerprint -sha256 prints them", u.TLS.Fingerprint)
	case u.TLS.CA != "":
		r.Fault(path+".fingerprint", "trusts one certificate without its signature, so ca has no effect; keep one of the two")
	}
	if name := u.TLS.ServerName; name != "" {
		if err := checkHost(name); err != nil {
			r.Fault(path+".server_name", "%q is not the name of a host: %v", name, err)
		}
	}
}

// checkRewriteResponses checks that responses name one place, whatever target
// they come from.
func (u Upstream) checkRewriteResponses(r *report, path string) {
	if !u.RewriteResponses {
		return
	}
	for i, target := range u.URLs {
		if i > 0 && target != nil && u.URLs[0] != nil && TargetPrefix(target) != TargetPrefix(u.URLs[0]) {
			r.Fault(path, "needs one path for all addresses; that of %q differs from that of %q", target, u.URLs[0])
			return
		}
	}
}

// UnixTarget returns the socket of a target's URL, "" if it is not a unix target.
// The URL of a path below the socket is unix:SOCKET:PATH, as in nginx. The scheme
// unix+h2c means HTTP/2 without TLS.
func UnixTarget(u *url.URL) (socket string) {
	if !unixScheme(u.Scheme) {
		return ""
	}
	socket, _, _ = strings.Cut(u.Path, ":/")
	return socket
}

func unixScheme(scheme string) bool { return scheme == "unix" || scheme == "unix+h2c" }

// TargetPrefix returns what begins every path at a target, encoded and without a
// slash at its end.
func TargetPrefix(u *url.URL) string {
	prefix := u.EscapedPath()
	if unixScheme(u.Scheme) {
		_, below, found := strings.Cut(prefix, ":/")
		if !found {
			return ""
		}
		prefix = "/" + below
	}
	return strings.TrimSuffix(prefix, "/")
}

// targetURL parses the URL of a target. The error does not quote credentials.
func targetURL(raw string) (*url.URL, error) {
	if scheme, _, _ := strings.Cut(raw, ":"); !unixScheme(scheme) {
		// h2c is http for all but the protocol.
		rest, h2c := strings.CutPrefix(raw, "h2c://")
		if h2c {
			rest = "http://" + rest
		} else {
			rest = raw
		}
		u, err := httpURL(rest)
		if err != nil {
			return nil, err
		}
		if h2c {
			u.Scheme = "h2c"
		}
		return withPrefix(raw, u)
	}
	u, err := url.Parse(raw)
	switch {
	case strings.Contains(raw, "@"):
		return nil, fmt.Errorf("contains an @, which is not supported in the path of a socket")
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", raw)
	case strings.ContainsAny(raw, "?#"):
		return nil, fmt.Errorf("%q has a query or a fragment, which is not supported", raw)
	case u.Host != "" || !strings.HasPrefix(UnixTarget(u), "/"):
		return nil, fmt.Errorf("%q does not have the absolute path of a socket, like unix:/run/app.sock", raw)
	}
	return withPrefix(raw, u)
}

// withPrefix returns u if its path can begin the paths of requests.
func withPrefix(raw string, u *url.URL) (*url.URL, error) {
	prefix := TargetPrefix(u)
	if prefix == "" {
		return u, nil
	}
	if _, err := policy.ParseTarget(prefix); err != nil || strings.Contains(prefix, "//") {
		return nil, fmt.Errorf("%q has a path that cannot begin the paths of requests", raw)
	}
	return u, nil
}
