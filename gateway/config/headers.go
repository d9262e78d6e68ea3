package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/headername"
	"authgate/policy"
)

// IdentityHeaders are the names of the headers with the identity. The gateway
// does not send a header with an empty name.
type IdentityHeaders struct {
	User      string `yaml:"user"`
	Subject   string `yaml:"subject"`
	Name      string `yaml:"name"`
	Email     string `yaml:"email"`
	Roles     string `yaml:"roles"`
	Mechanism string `yaml:"mechanism"`
	Provider  string `yaml:"provider"`
	// Claims are claims of the provider by the header that has them, each by a dotted path; see
	// policy.LookupClaim.
	Claims map[string]string `yaml:"claims"`
}

func defaultIdentityHeaders() IdentityHeaders {
	return IdentityHeaders{
		User: "X-Auth-User", Subject: "X-Auth-Subject", Name: "X-Auth-Name", Email: "X-Auth-Email",
		Roles: "X-Auth-Roles", Mechanism: "X-Auth-Mechanism", Provider: "X-Auth-Provider",
	}
}

// byKey returns pointers to the names by their keys.
func (h *IdentityHeaders) byKey() map[string]*string {
	return map[string]*string{
		"user": &h.User, "subject": &h.Subject, "name": &h.Name, "email": &h.Email,
		"roles": &h.Roles, "mechanism": &h.Mechanism, "provider": &h.Provider,
	}
}

// has reports whether a folded name is that of one of the headers.
func (h *IdentityHeaders) has(folded string) bool {
	for _, name := range h.byKey() {
		if *name != "" && headername.Fold(*name) == folded {
			return true
		}
	}
	for name := range h.Claims {
		if headername.Fold(name) == folded {
			return true
		}
	}
	return false
}

// overlaid returns the claims of the top level, with those of an upstream in the place of those
// that have the same header.
func overlaid(top, own map[string]string) map[string]string {
	if len(own) == 0 {
		return top
	}
	all := map[string]string{}
	replaced := map[string]bool{}
	for name, claim := range own {
		all[name], replaced[headername.Fold(name)] = claim, true
	}
	for name, claim := range top {
		if !replaced[headername.Fold(name)] {
			all[name] = claim
		}
	}
	return all
}

// routeHeaders changes the request to the upstream.
type routeHeaders struct {
	Set    map[string]string `yaml:"set"`
	Remove []string          `yaml:"remove"`
	Pass   []string          `yaml:"pass"` // headers that clients may send, which are otherwise removed
}

// hopByHop are the folded names of headers that apply to one connection (RFC
// 9110, section 7.6.1).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// aboutRequest reports whether a header X-Forwarded-* is about the client or the
// original request. Others are about the identity.
func aboutRequest(folded string) bool {
	return strings.HasPrefix(folded, "X-Forwarded-") && headername.Of(folded) != headername.Identity
}

// hasMeaning reports whether a header with that folded name says something else than who the
// user is.
func hasMeaning(folded string) bool { return headername.OfHTTP(folded) || aboutRequest(folded) }

// check checks the names of the section at path.
func (h *IdentityHeaders) check(r *report, path string) {
	taken := map[string]string{}
	names := h.byKey()
	for _, key := range slices.Sorted(maps.Keys(names)) {
		name, at := *names[key], strictyaml.Join(path, key)
		if name == "" {
			continue
		}
		folded := headername.Fold(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			r.Fault(at, "%q is not the name of a header; use letters, digits and -", name)
		case hasMeaning(folded):
			r.Fault(at, "%q has another meaning and cannot contain an identity; choose another name", name)
		case taken[folded] != "":
			// Two names from the top level are reported there only.
			if path == "identity_headers" || r.Given(at) || r.Given(strictyaml.Join(path, taken[folded])) {
				r.Fault(at,
					"%q is already the header of %s; names must differ in more than case and separators like - _ and .",
					name, taken[folded])
			}
		default:
			taken[folded] = key
		}
	}
	h.checkClaims(r, path, taken)
}

// checkClaims checks the headers of claims in the section at path. taken has the keys of the
// others by their folded names.
func (h *IdentityHeaders) checkClaims(r *report, path string, taken map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(h.Claims)) {
		at, folded := strictyaml.Join(path+".claims", name), headername.Fold(name)
		other := taken[folded]
		taken[folded] = "claims." + name
		if !r.Given(at) { // of the top level, which reports all but what an upstream has added
			if key := strictyaml.Join(path, other); other != "" && r.Given(key) {
				r.Fault(key, "%q is already the header of the claim %s; names must differ in more than case and "+
					"separators like - _ and .", name, h.Claims[name])
			}
			continue
		}
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			r.Fault(at, "%q is not the name of a header; use letters, digits and -", name)
		case hasMeaning(folded):
			r.Fault(at, "%q has another meaning and cannot contain a claim; choose another name", name)
		case other != "":
			r.Fault(at, "%q is already the header of %s; names must differ in more than case and separators like - _ and .",
				name, other)
		default:
			if err := policy.CheckClaim(h.Claims[name]); err != nil {
				r.Fault(at, "%q %v", h.Claims[name], err)
			}
		}
	}
}

// check checks the section headers of a route at path. top has the identity headers of the top
// level.
func (h *routeHeaders) check(r *report, path string, upstream Upstream, top *IdentityHeaders) {
	names := routeHeaderNames{report: r, identity: map[string]bool{}, taken: map[string]string{}}
	if upstream.IdentityHeaders != nil { // else the route has no upstream
		names.addIdentity(upstream.IdentityHeaders)
	}
	if a := upstream.Assertion; a != nil {
		names.identity[headername.Fold(a.Header)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(h.Set)) {
		at := strictyaml.Join(path+".set", name)
		names.check(at, name, false)
		checkHeaderValue(r, at, h.Set[name])
	}
	for i, name := range h.Remove {
		names.check(fmt.Sprintf("%s.remove[%d]", path, i), name, false)
	}
	names.addIdentity(top) // no client may send these, even if the upstream has others
	for i, name := range h.Pass {
		at := fmt.Sprintf("%s.pass[%d]", path, i)
		if names.check(at, name, true) {
			names.checkPass(at, name)
		}
	}
}

// checkHeaderValue checks the value of a header for the upstream. It may be a secret, so
// a variable in it must have a text, as in a secret.
func checkHeaderValue(r *report, at, value string) {
	variable, blank := r.BlankVariable(at)
	switch {
	case blank:
		r.Fault(at, `the environment variable %s is blank; set it, or write "" here for an empty header`, variable)
	case !httpguts.ValidHeaderFieldValue(value):
		r.Fault(at, "the value contains a control character, which no header can have")
	case strings.TrimSpace(value) != value:
		r.Fault(at, "the value begins or ends with a space, which HTTP removes; remove it")
	}
}

// routeHeaderNames checks the names of headers under one route.
type routeHeaderNames struct {
	report   *report
	identity map[string]bool   // folded names of identity headers
	taken    map[string]string // paths by folded names
}

// addIdentity adds the names of identity headers.
func (c *routeHeaderNames) addIdentity(headers *IdentityHeaders) {
	for _, name := range headers.byKey() {
		c.identity[headername.Fold(*name)] = *name != ""
	}
	for name := range headers.Claims {
		c.identity[headername.Fold(name)] = true
	}
}

// check checks a name and reports whether a route may use it. Only headers that
// clients may send (pass) can be about the request, such as X-Forwarded-Prefix.
func (c *routeHeaderNames) check(at, name string, pass bool) bool {
	folded := headername.Fold(name)
	problem := ""
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		problem = "%q is not the name of a header; use letters, digits and -"
	case c.identity[folded]:
		problem = "%q is an identity header, which only the gateway sets; see identity_headers"
	case folded == "Host" || folded == "Content-Length" || slices.Contains(hopByHop, folded),
		aboutRequest(folded) && !pass:
		problem = "only the gateway sets %q"
	case c.taken[folded] != "":
		c.report.Fault(at, "%q is already listed in %s", name, c.taken[folded])
		return false
	}
	c.taken[folded] = at
	if problem != "" {
		c.report.Fault(at, problem, name)
	}
	return problem == ""
}

// checkPass checks the name of a header that the route lets clients send.
func (c *routeHeaderNames) checkPass(at, name string) {
	switch headername.Of(headername.Fold(name)) {
	case headername.Own:
		c.report.Fault(at, "%q is the gateway's alone, and no client may send it to an application", name)
	case headername.Free, headername.Framed:
		c.report.Fault(at, "%q has no effect, because clients may send it anyway; remove it, or correct its spelling", name)
	}
}
