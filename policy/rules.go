package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// leaf is a key of a Spec that holds a list of values.
type leaf struct {
	key    string
	values []string // nil if the key is not given
	need   string   // the need of the rule, before the values
	check  func(value string) error
	rule   func(values []string) func(*Identity, *Request) bool // of values that passed check
	kind   func(values []string) func(*Kind) verdict            // rule.kind for values
	// request tells that the rule is about the request alone, and user that it is about who the
	// user is.
	request, user bool
}

// networksKey is the key that is about the client's address, and methodsKey that about the method.
const (
	networksKey = "networks"
	methodsKey  = "methods"
)

// leaves returns the leaves of s in the order of its fields.
func leaves(s *Spec) []leaf {
	return append([]leaf{
		{key: "roles", values: s.Roles, need: "needs one of", check: CheckRole, rule: anyRole, user: true,
			kind: kindWithRoles},
		{key: "all_roles", values: s.AllRoles, need: "needs all of", check: CheckRole, rule: allRoles, user: true,
			kind: kindWithRoles},
		{key: "users", values: s.Users, need: "needs one of", check: checkUser, rule: anyUser, kind: kindOfUsers,
			user: true},
		{key: "actors", values: s.Actors, need: "needs one of", check: checkActor, rule: anyActor, kind: kindWithActor},
		{key: "email_domains", values: s.EmailDomains, need: "needs an address at one of", check: checkDomain,
			rule: anyDomain, user: true, kind: kindWithAddress},
		{key: scopesKey, values: s.Scopes, need: "needs one of", check: CheckScope, rule: anyScope,
			kind: kindWithScopes},
		{key: "mechanisms", values: s.Mechanisms, need: "needs authentication by one of", check: CheckMechanism,
			rule: anyMechanism, kind: kindByMechanism},
		{key: "providers", values: s.Providers, need: "needs an account at one of", check: CheckName, rule: anyProvider,
			kind: kindAtProviders, user: true},
		{key: networksKey, values: s.Networks, need: "needs a client in one of", check: checkNetwork, rule: anyNetwork,
			request: true},
		{key: methodsKey, values: s.Methods, need: "needs one of", check: checkMethod, rule: anyMethod, request: true},
	}, s.MCP.leaves()...)
}

func anyRole(roles []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool {
		return slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(id.Roles, r) })
	}
}

func allRoles(roles []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool {
		for _, r := range roles {
			if !slices.Contains(id.Roles, r) {
				return false
			}
		}
		return true
	}
}

func anyUser(entries []string) func(*Identity, *Request) bool {
	type user struct{ provider, name string }
	users := make([]user, len(entries))
	for i, e := range entries {
		provider, name := splitUser(e)
		users[i] = user{provider, NormalName(name)}
	}
	return func(id *Identity, _ *Request) bool {
		return slices.Contains(users, user{id.Provider, NormalName(id.Username)})
	}
}

func anyActor(actors []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool { return slices.Contains(actors, id.Actor) }
}

func anyDomain(domains []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool {
		local, domain, _ := strings.Cut(id.Email, "@")
		if local == "" || strings.Contains(domain, "@") {
			return false
		}
		return slices.ContainsFunc(domains, func(d string) bool { return equalFoldASCII(d, domain) })
	}
}

// equalFoldASCII compares without the case of ASCII letters. Unicode case
// folding would accept other characters in place of some of them.
func equalFoldASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lowerASCII(a[i]) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func anyScope(scopes []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool {
		return slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(id.Scopes, s) })
	}
}

func anyMechanism(mechanisms []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool { return slices.Contains(mechanisms, string(id.Mechanism)) }
}

func anyProvider(providers []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool { return slices.Contains(providers, id.Provider) }
}

func anyNetwork(entries []string) func(*Identity, *Request) bool {
	networks := make([]netip.Prefix, len(entries))
	for i, e := range entries {
		networks[i], _ = parseNetwork(e) // passed checkNetwork; a zero Prefix contains nothing
	}
	return func(_ *Identity, req *Request) bool {
		client := req.Client.Unmap().WithZone("")
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(client) })
	}
}

func anyMethod(methods []string) func(*Identity, *Request) bool {
	return func(_ *Identity, req *Request) bool { return slices.Contains(methods, req.Method) }
}
