package config

import (
	"fmt"
	"maps"
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
		named := func(t issuers.TrustedIssuer) bool { return t.Name == f.Issuer }
		index := slices.IndexFunc(c.Token.TrustedIssuers, named)
		switch {
		case r.Broken("token.trusted_issuers") || r.Broken(at+".issuer"):
		case f.Issuer == "":
			r.Fault(at+".issuer", "is needed: the name of one of token.trusted_issuers")
		case index < 0:
			r.Fault(at+".issuer", "there is no trusted issuer %q; %s", f.Issuer,
				strictyaml.Hint(f.Issuer, "token.trusted_issuers", known))
		case len(c.Token.TrustedIssuers[index].Audience) > 0:
			r.Warn(at+".issuer", "token.trusted_issuers[%d] has an audience too, so each of its tokens for that "+
				"audience opens the bearer routes without a policy; remove audience, or give each of these routes one",
				index)
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
	"actor", "base_ref", "deployment_tier", "environment", "environment_protected", "event_name", "head_ref", "job",
	"job_workflow_ref", "job_workflow_sha", "pipeline_source", "ref", "ref_path", "ref_protected", "ref_type",
	"repository_visibility", "runner_environment", "sha", "workflow",
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
			r.Warn(strictyaml.Join(path, name),
				"is a name, which others can set when it becomes free; use %s, which stays", byName[name])
			return
		}
	}
}

// warnOfStrangers warns of issuers whose tokens a stranger can have, and of the routes that these open.
func (k *checker) warnOfStrangers() {
	if k.cfg.table == nil {
		return
	}
	names := slices.AppendSeq(slices.Clone(settable), maps.Keys(byName))
	for i := range k.cfg.Token.TrustedIssuers {
		t := &k.cfg.Token.TrustedIssuers[i]
		service := t.Service()
		if service == "" || !t.Opens() {
			continue
		}
		var open, named []string
		for _, route := range k.cfg.table.Routes() {
			switch {
			case opensTo(route, t.Name, settable):
				open = append(open, route.Label())
			case opensTo(route, t.Name, names):
				named = append(named, route.Label())
			}
		}
		at := fmt.Sprintf("token.trusted_issuers[%d].audience", i)
		if len(open) > 0 {
			k.report.Warn(at, "everybody can get a token of %s for any audience, which opens %s; give each of these "+
				"routes a policy on a claim that others cannot have, such as repository_id or project_id, or "+
				"remove this key", service, strings.Join(open, ", "))
		}
		if len(named) > 0 {
			k.report.Warn(at, "a token of %s opens %s by names alone, which others can set when they become free; "+
				"add repository_id, project_id or another claim that stays to the policy", service,
				strings.Join(named, ", "))
		}
	}
}

// warnOfSignUps warns of providers at which everybody can have an account, if that opens routes.
func (k *checker) warnOfSignUps() {
	if k.cfg.table == nil {
		return
	}
	var open []string
	for _, route := range k.cfg.table.Routes() {
		if route.Policy == nil && route.Accepts(policy.OIDC) && !slices.Contains(route.Mechanisms, policy.None) {
			open = append(open, route.Label())
		}
	}
	for i := range k.cfg.Providers {
		p := &k.cfg.Providers[i]
		if service := p.Service(); service != "" && len(open) > 0 {
			k.report.Warn(fmt.Sprintf("providers[%d].name", i), "everybody can have an account at %s, and any account "+
				"opens %s; give each of these routes a policy that names who may pass, or {providers: [%s]} if "+
				"everybody may", service, strings.Join(open, ", "), p.Name)
		}
	}
}

// opensTo reports whether a token of an issuer opens a route with nothing but some of these claims.
func opensTo(route *policy.Route, issuer string, claims []string) bool {
	if !route.Accepts(policy.Bearer) || slices.Contains(route.Mechanisms, policy.None) {
		return false
	}
	requests, err := policy.NewSpace(true, route)
	if err != nil {
		return false // too many claims to tell
	}
	for _, held := range requests.Claims {
		for name := range held {
			if !slices.Contains(claims, name) {
				held = nil
			}
		}
		id := &policy.Identity{Mechanism: policy.Bearer, Provider: issuer, Claims: held}
		for _, call := range requests.Calls {
			request := &policy.Request{Method: call.Method, Message: &call.Message}
			if route.Decide(id, request).Outcome == policy.Allow {
				return true
			}
		}
	}
	return false
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

// crossApp checks which providers vouch for their users, and where.
func (k *checker) crossApp() {
	c, r := k.cfg, k.report
	if r.Given("oauth.cross_app") && len(c.OAuth.CrossApp) == 0 && !r.Broken("oauth.cross_app") {
		r.Fault("oauth.cross_app", "must not be empty; remove it, or name a provider and its clients")
	}
	first := map[string]int{}
	for i, x := range c.OAuth.CrossApp {
		at := fmt.Sprintf("oauth.cross_app[%d]", i)
		index := slices.IndexFunc(c.Providers, func(p issuers.Provider) bool { return p.Name == x.Provider })
		before, twice := first[x.Provider]
		switch {
		case r.Broken("providers") || r.Broken(at+".provider"):
		case x.Provider == "":
			r.Fault(at+".provider", "is needed: the name of one of providers")
		case index < 0:
			r.Fault(at+".provider", "there is no provider %q; %s", x.Provider,
				strictyaml.Hint(x.Provider, "providers", issuers.Names(c.Providers)))
		case c.Providers[index].Issuer == "":
			r.Fault(at+".provider", "%q has no issuer, so it signs no assertions", x.Provider)
		case twice:
			r.Fault(at+".provider", "%q is already in oauth.cross_app[%d]; put the clients there", x.Provider, before)
		default:
			first[x.Provider] = i
		}
		if len(x.Clients) == 0 && !r.Broken(at+".clients") {
			r.Fault(at+".clients", "is needed: where the provider vouches for its users")
		}
		for j, id := range x.Clients {
			k.crossAppClient(fmt.Sprintf("%s.clients[%d]", at, j), id)
		}
	}
}

// crossAppClient checks one client at which a provider vouches for its users.
func (k *checker) crossAppClient(path, id string) {
	o, r := &k.cfg.OAuth, k.report
	var ids []string
	for i := range o.Clients {
		ids = append(ids, o.Clients[i].ID)
	}
	at := slices.Index(ids, id)
	switch {
	case r.Broken("oauth.clients"):
	case strings.HasPrefix(id, "https://"):
		if !o.MetadataClients.Enabled {
			r.Fault(path, "%q is the URL of a metadata document, and oauth.metadata_clients.enabled is false", id)
		}
	case at < 0:
		r.Fault(path, "there is no OAuth client %q; %s", id, strictyaml.Hint(id, "oauth.clients", ids))
	case !o.Clients[at].Confidential():
		r.Fault(path, "%q is a public client, which cannot prove that the assertion is for it; give it secret, jwks, "+
			"jwks_uri or federation", id)
	}
}
