package forwarding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Ways to choose a target of an upstream.
const (
	BalanceRoundRobin    = "round_robin"
	BalanceLeastRequests = "least_requests" // the target with the fewest requests in flight
	BalanceClient        = "client"         // the same client, the same target
)

// Hosts that an upstream gets.
const (
	HostClient = "client" // what the client asked for
	HostTarget = "target" // that of the target's URL
)

// Upstream is an application behind the gateway.
type Upstream struct {
	URL *url.URL `yaml:"url"` // http, https, h2c, unix or unix+h2c; see UnixTarget
	// URLs is always set: to URL alone, if that is given.
	URLs             []*url.URL    `yaml:"urls"` // always set: only URL, if that is given
	Balance          string        `yaml:"balance" default:"round_robin" words:"round_robin least_requests client"`
	Health           Health        `yaml:"health"`
	Retries          int           `yaml:"retries" default:"1"`
	Host             string        `yaml:"host" default:"client"`
	TLS              UpstreamTLS   `yaml:"tls"` // of https targets
	RewriteResponses bool          `yaml:"rewrite_responses"`
	Timeout          time.Duration `yaml:"timeout" default:"30s" min:"1ns"`
	ConnectTimeout   time.Duration `yaml:"connect_timeout" default:"5s" min:"1ns"`
	ConnectionAge    time.Duration `yaml:"connection_age" default:"5m"`
	ReuseConnections bool          `yaml:"reuse_connections" default:"true"`
	FastPath         bool          `yaml:"fast_path" default:"true"`
	// IdentityHeaders is always set: keys that are not given come from the top level.
	IdentityHeaders *IdentityHeaders `yaml:"identity_headers"`
	Assertion       *Assertion       `yaml:"assertion"` // nil: none
	// Roles is what the application calls a role; others have their own names there.
	Roles map[string]string `yaml:"roles"`
}

// UpstreamTLS configures the connections to https targets.
type UpstreamTLS struct {
	CA          string `yaml:"ca" file:"public"`          // file with certificates in PEM; empty: those of the system
	Certificate string `yaml:"certificate" file:"public"` // of the gateway as a client, in PEM
	Key         string `yaml:"key" file:"secret"`
	ServerName  string `yaml:"server_name" check:"server-name"` // empty: the host of the URL
	Fingerprint string `yaml:"fingerprint"`                     // trusts this certificate alone: "sha256:HEX"
	// IgnoreUnexpectedEOF takes a connection that ends without a close_notify for the end of an answer.
	IgnoreUnexpectedEOF bool `yaml:"ignore_unexpected_eof"`

	CAContent          []byte            `yaml:"-"` // of the files
	CertificateContent []byte            `yaml:"-"`
	KeyContent         strictyaml.Secret `yaml:"-"`

	SHA256 []byte `yaml:"-"` // of the certificate that Fingerprint names
}

// Complete sets URLs, and the identity headers that are not given to those of
// the top level.
func (u *Upstream) Complete(r *section.Report, path, name string, top IdentityHeaders) {
	if a := u.Assertion; a != nil && !r.Given(path+".assertion.audience") {
		a.Audience = name
	}
	if u.URL != nil && len(u.URLs) == 0 {
		u.URLs = []*url.URL{u.URL}
	}
	u.Health.complete()
	u.TLS.complete()
	if u.IdentityHeaders != nil {
		own := u.IdentityHeaders.ByKey()
		for key, header := range top.ByKey() {
			if r.Given(path + ".identity_headers." + key) {
				*header = *own[key]
			}
		}
		top.Claims = overlaid(top.Claims, u.IdentityHeaders.Claims)
	}
	u.IdentityHeaders = &top
}

// Check checks the section upstreams.
func Check(r *section.Report, upstreams map[string]Upstream) {
	for _, name := range slices.Sorted(maps.Keys(upstreams)) {
		path := strictyaml.Join("upstreams", name)
		if err := policy.CheckName(name); err != nil {
			r.Fault(path, "the name of the upstream %v", err)
		}
		upstreams[name].checkUpstream(r, path)
	}
}

// checkUpstream checks everything except the name and the files of tls.
func (u Upstream) checkUpstream(r *section.Report, path string) {
	u.checkAddresses(r, path)
	u.Health.checkHealth(r, path+".health")
	u.checkHost(r, path+".host")
	u.checkTLS(r, path+".tls")
	u.checkRewriteResponses(r, path+".rewrite_responses")
	if r.Given(path + ".identity_headers") { // else those of the top level
		u.IdentityHeaders.Check(r, path+".identity_headers")
	}
	if u.Assertion != nil {
		u.Assertion.checkAssertion(r, path+".assertion", u.IdentityHeaders)
	}
	for _, role := range slices.Sorted(maps.Keys(u.Roles)) {
		for _, name := range []string{role, u.Roles[role]} {
			if err := policy.CheckRole(name); err != nil {
				r.Fault(strictyaml.Join(path+".roles", role), "%q %v", name, err)
			}
		}
	}
}

// checkAddresses checks the keys url and urls of an upstream.
func (u Upstream) checkAddresses(r *section.Report, path string) {
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
			same := func(other *url.URL) bool { return other != nil && sameTarget(other, address) }
			switch {
			case address == nil:
				r.Fault(at, "must not be empty; expected an address like http://127.0.0.1:9000")
			case slices.ContainsFunc(u.URLs[:i], same):
				r.Fault(at, "%q is listed twice", address)
			}
		}
	}
}

// sameTarget reports whether two URLs differ in nothing but a slash at the end.
func sameTarget(a, b *url.URL) bool {
	return strings.TrimSuffix(a.String(), "/") == strings.TrimSuffix(b.String(), "/")
}

// checkHost checks the Host that the upstream gets.
func (u Upstream) checkHost(r *section.Report, path string) {
	switch u.Host {
	case HostClient, HostTarget:
		return
	case "":
		r.Fault(path, "must not be empty; expected client, target or a name like app.example.org")
		return
	}
	if err := section.CheckHostPort(u.Host); err != nil {
		r.Fault(path, "%q %v; expected client, target or a name like app.example.org", u.Host, err)
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
func (u Upstream) checkTLS(r *section.Report, path string) {
	if reflect.ValueOf(u.TLS).IsZero() {
		return
	}
	if !slices.ContainsFunc(u.URLs, func(target *url.URL) bool { return target != nil && target.Scheme == "https" }) {
		r.Fault(path, "has no effect, because no address of this upstream begins with https://")
	}
	for _, pair := range [2]struct{ key, other, own string }{
		{"key", u.TLS.Certificate, u.TLS.Key}, {"certificate", u.TLS.Key, u.TLS.Certificate},
	} {
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
		r.Fault(path+".fingerprint",
			"trusts one certificate without its signature, so ca has no effect; keep one of the two")
	}
}

// checkRewriteResponses checks that responses name one place, whatever target
// they come from.
func (u Upstream) checkRewriteResponses(r *section.Report, path string) {
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

// Read reads the files of the upstreams' TLS.
func Read(s section.Files, upstreams map[string]Upstream) {
	for name, u := range upstreams {
		path, t := strictyaml.Join("upstreams", name)+".tls", &u.TLS
		if t.CA != "" {
			t.CAContent = s.Authorities(path+".ca", t.CA)
		}
		if t.Certificate != "" && t.Key != "" {
			certificate, key := s.Pair(path, t.Certificate, t.Key)
			t.CertificateContent, t.KeyContent = certificate, strictyaml.Secret(key)
		}
		upstreams[name] = u
	}
}
