package config

import (
	"fmt"
	"slices"
	"strings"

	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// federation checks by which assertions a client proves who it is.
func (k *checker) federation(path string, client *OAuthClient) {
	c, r, path := k.cfg, k.report, path+".federation"
	if r.Given(path) && len(client.Federation) == 0 && !r.Broken(path) {
		r.Fault(path, "must not be empty; remove it, or name an issuer and its claims")
	}
	known := issuers.TrustedNames(c.Token.TrustedIssuers)
	for i := range client.Federation {
		f, at := &client.Federation[i], fmt.Sprintf("%s[%d]", path, i)
		index := slices.IndexFunc(c.Token.TrustedIssuers, func(t issuers.TrustedIssuer) bool { return t.Name == f.Issuer })
		switch {
		case r.Broken("token.trusted_issuers") || r.Broken(at+".issuer"):
		case f.Issuer == "":
			r.Fault(at+".issuer", "is needed: the name of one of token.trusted_issuers")
		case index < 0:
			r.Fault(at+".issuer", "there is no trusted issuer %q; %s", f.Issuer,
				strictyaml.Hint(f.Issuer, "token.trusted_issuers", known))
		case len(c.Token.TrustedIssuers[index].Audience) > 0:
			r.Warn(at+".issuer", "token.trusted_issuers[%d] has an audience too, so each of its tokens for that audience "+
				"opens the bearer routes that have no policy; remove audience, or give each of these routes one", index)
		}
		f.checkClaims(r, at+".claims")
	}
}

// byName are claims that hold a name which others can get, such as that of a renamed repository,
// with those that stay.
var byName = map[string]string{
	"repository": "repository_id", "repository_owner": "repository_owner_id",
	"project_path": "project_id", "namespace_path": "namespace_id",
}

// settable are claims that everybody can have in a token of a public CI service.
var settable = []string{
	"actor", "base_ref", "environment", "event_name", "head_ref", "job", "pipeline_source", "ref", "ref_path",
	"ref_protected", "ref_type", "repository_visibility", "runner_environment", "workflow",
}

// checkClaims checks which claims an assertion needs.
func (f *Federation) checkClaims(r *section.Report, path string) {
	if r.Broken(path) {
		return
	}
	if len(f.Claims) == 0 {
		r.Fault(path, "is needed: without claims, every token of the issuer would prove the client")
	}
	anybody := len(f.Claims) > 0
	for name, values := range f.Claims {
		at := strictyaml.Join(path, name)
		if err := policy.CheckClaim(name); err != nil {
			r.Fault(at, "%q %v", name, err)
		}
		if len(values) == 0 {
			r.Fault(at, "has an empty list, which no assertion can meet; name at least one value or remove the key")
		}
		for i, value := range values {
			if value == "" {
				r.Fault(fmt.Sprintf("%s[%d]", at, i), "is empty; remove it")
			}
		}
		anybody = anybody && slices.Contains(settable, name)
	}
	if anybody {
		r.Warn(path, "has only claims that everybody can have in a token of a public service; "+
			"add one that others cannot have, such as repository_id, project_id or sub")
	}
	f.warnOfNames(r, path)
}

// warnOfNames warns of names without an identifier beside them.
func (f *Federation) warnOfNames(r *section.Report, path string) {
	for _, id := range byName {
		if f.Claims[id] != nil {
			return
		}
	}
	for _, name := range []string{"repository", "repository_owner", "project_path", "namespace_path"} {
		if f.Claims[name] != nil {
			r.Warn(strictyaml.Join(path, name), "is a name, which others can set when it becomes free; use %s, which stays",
				byName[name])
			return
		}
	}
}

// checkFederationGrant checks that a grant by assertions can be used.
func (c *OAuthClient) checkFederationGrant(r *section.Report, path string) {
	if slices.Contains(c.Grants, GrantJWTBearer) && !r.Given(path+".federation") {
		r.Fault(fmt.Sprintf("%s.grants[%d]", path, slices.Index(c.Grants, GrantJWTBearer)),
			"needs federation: which tokens of which trusted issuer prove the client; give that, or remove this grant")
	}
}

// ownGrants are the grants by which a client acts for itself, for messages.
var ownGrants = strings.Join([]string{GrantClientCredentials, GrantJWTBearer}, " or ")
