package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// checkRoutes checks the routes and makes their table.
func (l *loader) checkRoutes() {
	table := make([]policy.Route, len(l.cfg.Routes))
	for i, r := range l.cfg.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		table[i] = policy.Route{Name: r.Name, Pattern: r.Match, Mechanisms: r.Auth}
		var err error
		table[i].Policy, err = l.policies.Policy(path+".policy", r.Policy)
		l.policyErrors(err)
		for j, ref := range r.Policy {
			at := path + ".policy"
			if len(r.Policy) > 1 {
				at = fmt.Sprintf("%s[%d]", at, j)
			}
			l.checkReferences(at, ref.Spec)
		}
		l.checkRoute(path, r)
	}
	var err error
	l.cfg.table, err = policy.NewTable(table)
	l.policyErrors(err)
}

func (l *loader) checkRoute(path string, r Route) {
	if r.Match == "" {
		l.missing(path+".match", `a pattern is needed, like /app/ or "GET example.org/app/"`)
	} else {
		l.checkReachable(path+".match", r.Match)
	}
	if strings.ContainsFunc(r.Name, unicode.IsControl) {
		l.fault(path+".name", "%q contains a control character", r.Name)
	}
	l.checkRouteUpstream(path+".upstream", r.Upstream)
	l.checkRouteAuth(path+".auth", r.Auth)
	if r.Timeout == 0 && l.main.Given(path+".timeout") {
		l.fault(path+".timeout", "must be longer than 0; remove the key for the timeout of the upstream")
	}
	l.oneOf(path+".unauthenticated", r.Unauthenticated,
		UnauthenticatedAuto, UnauthenticatedChallenge, UnauthenticatedRedirect)
	if r.Unauthenticated == UnauthenticatedRedirect && !slices.Contains(r.Auth, policy.Session) && !slices.Contains(r.Auth, policy.OIDC) {
		l.fault(path+".unauthenticated", "redirect leads to the sign-in page, which gives no credential that the route accepts; add session or oidc to auth, or use challenge")
	}
	l.oneOf(path+".cross_origin", r.CrossOrigin, CrossOriginDeny, CrossOriginAllow)
	l.checkStripPrefix(path+".strip_prefix", r)
	l.checkRouteHeaders(path+".headers", r)
}

func (l *loader) checkRouteUpstream(path, name string) {
	if name == "" {
		l.fault(path, "the name of an upstream is needed")
		return
	}
	if _, ok := l.cfg.Upstreams[name]; !ok && !l.main.Unreadable("upstreams") {
		l.fault(path, "there is no upstream %q; %s", name,
			strictyaml.Hint(name, "upstreams", slices.Sorted(maps.Keys(l.cfg.Upstreams))))
	}
}

// checkRouteAuth checks that each mechanism has users. A file of users may be
// empty: its last user may be removed while the gateway runs.
func (l *loader) checkRouteAuth(path string, mechanisms []policy.Mechanism) {
	for i, m := range mechanisms {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch m {
		case policy.Basic:
			if len(l.basic) == 0 && l.cfg.Basic.Htpasswd == "" && !l.main.Broken("basic") {
				l.fault(at, "basic has no users; give basic.users or basic.htpasswd")
			}
		case policy.Session:
			if l.noAccounts() {
				l.fault(at, "session has no users; give accounts.users or accounts.file")
			}
		case policy.Bearer:
			if l.noAccounts() && len(l.cfg.Token.TrustedIssuers) == 0 && !l.main.Broken("token.trusted_issuers") {
				l.fault(at, "bearer has no users; give accounts.users, accounts.file or token.trusted_issuers")
			}
		case policy.OIDC:
			if len(l.cfg.Providers) == 0 && !l.main.Broken("providers") {
				l.fault(at, "oidc has no users; give providers")
			}
		}
	}
}

// noAccounts reports whether there can be no account.
func (l *loader) noAccounts() bool {
	return len(l.accounts) == 0 && l.cfg.Accounts.File == "" && !l.main.Broken("accounts")
}

// checkStripPrefix checks that every path of the route begins with the prefix.
func (l *loader) checkStripPrefix(path string, r Route) {
	prefix, pattern := r.StripPrefix, literalPath(r.Match)
	switch {
	case prefix == "":
	case !strings.HasPrefix(prefix, "/"):
		l.fault(path, "%q does not begin with a slash", prefix)
	case strings.HasSuffix(prefix, "/"):
		l.fault(path, "%q ends in a slash; remove the slash", prefix)
	case strings.ContainsAny(prefix, "{}"):
		l.fault(path, "%q contains a brace; only literal segments can be removed", prefix)
	case pattern != "" && pattern != prefix && !strings.HasPrefix(pattern, prefix+"/"):
		l.fault(path, "%q is not a prefix of the path of match %q in whole segments", prefix, r.Match)
	}
}
