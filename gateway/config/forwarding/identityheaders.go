package forwarding

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/headername"
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
	Actor     string `yaml:"actor"`
	// Claims are claims of the provider by the header that has them, each by a dotted path; see
	// policy.LookupClaim.
	Claims map[string]string `yaml:"claims"`
}

// DefaultIdentityHeaders returns the section of an empty file. They are in no tag, because the section of an
// upstream has those of the top level.
func DefaultIdentityHeaders() IdentityHeaders {
	return IdentityHeaders{
		User: "X-Auth-User", Subject: "X-Auth-Subject", Name: "X-Auth-Name", Email: "X-Auth-Email",
		Roles: "X-Auth-Roles", Mechanism: "X-Auth-Mechanism", Provider: "X-Auth-Provider",
		Actor: "X-Auth-Actor",
	}
}

// ByKey returns pointers to the names by their keys.
func (h *IdentityHeaders) ByKey() map[string]*string {
	return map[string]*string{
		"user": &h.User, "subject": &h.Subject, "name": &h.Name, "email": &h.Email,
		"roles": &h.Roles, "mechanism": &h.Mechanism, "provider": &h.Provider,
		"actor": &h.Actor,
	}
}

// Has reports whether a folded name is that of one of the headers.
func (h *IdentityHeaders) Has(folded string) bool {
	for _, name := range h.ByKey() {
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

// AboutRequest reports whether a header X-Forwarded-* is about the client or the
// original request. Others are about the identity.
func AboutRequest(folded string) bool {
	return strings.HasPrefix(folded, "X-Forwarded-") && headername.Of(folded) != headername.Identity
}

// HasMeaning reports whether a header with that folded name says something else than who the
// user is.
func HasMeaning(folded string) bool { return headername.OfHTTP(folded) || AboutRequest(folded) }

// Check checks the names of the section at path.
func (h *IdentityHeaders) Check(r *section.Report, path string) {
	taken := map[string]string{}
	names := h.ByKey()
	for _, key := range slices.Sorted(maps.Keys(names)) {
		name, at := *names[key], strictyaml.Join(path, key)
		if name == "" {
			continue
		}
		folded := headername.Fold(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			r.Fault(at, "%q is not the name of a header; use letters, digits and -", name)
		case HasMeaning(folded):
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
func (h *IdentityHeaders) checkClaims(r *section.Report, path string, taken map[string]string) {
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
		case HasMeaning(folded):
			r.Fault(at, "%q has another meaning and cannot contain a claim; choose another name", name)
		case other != "":
			r.Fault(at,
				"%q is already the header of %s; names must differ in more than case and separators like - _ and .",
				name, other)
		default:
			if err := policy.CheckClaim(h.Claims[name]); err != nil {
				r.Fault(at, "%q %v", h.Claims[name], err)
			}
		}
	}
}
