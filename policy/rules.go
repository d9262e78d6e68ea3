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
	need   string   // what the rule needs, before the values
	check  func(value string) error
	rule   func(values []string) func(*Identity, *Request) bool // of values that passed check
}

// leaves returns the leaves of s in the order of its fields.
func leaves(s *Spec) []leaf {
	return []leaf{
		{"roles", s.Roles, "needs one of", CheckRole, anyRole},
		{"all_roles", s.AllRoles, "needs all of", CheckRole, allRoles},
		{"users", s.Users, "needs one of", checkUser, anyUser},
		{"email_domains", s.EmailDomains, "needs an address at one of", checkDomain, anyDomain},
		{scopesKey, s.Scopes, "needs one of", CheckScope, anyScope},
		{"mechanisms", s.Mechanisms, "needs authentication by one of", checkMechanism, anyMechanism},
		{"providers", s.Providers, "needs an account at one of", CheckName, anyProvider},
		{"networks", s.Networks, "needs a client in one of", checkNetwork, anyNetwork},
		{"methods", s.Methods, "needs one of", checkMethod, anyMethod},
	}
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
