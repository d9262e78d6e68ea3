package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// leaf is a key of a Spec that holds a plain list of values.
type leaf struct {
	key     string
	values  []string // nil where the key is not given
	need    string   // what is asked for, before the values
	problem func(value string) string
	rule    func(values []string) func(*Identity, *Request) bool
}

// leaves returns the leaves of s in the order of its fields. The rules are
// made of values in which problem finds nothing wrong.
func leaves(s *Spec) []leaf {
	return []leaf{
		{"roles", s.Roles, "needs one of", roleProblem, anyRole},
		{"all_roles", s.AllRoles, "needs all of", roleProblem, allRoles},
		{"users", s.Users, "needs one of", userProblem, anyUser},
		{"email_domains", s.EmailDomains, "needs an address at one of", domainProblem, anyDomain},
		{"scopes", s.Scopes, "needs one of", scopeProblem, anyScope},
		{"mechanisms", s.Mechanisms, "needs a proof by one of", mechanismProblem, anyMechanism},
		{"providers", s.Providers, "needs an account at one of", nameProblem, anyProvider},
		{"networks", s.Networks, "needs a client in one of", networkProblem, anyNetwork},
		{"methods", s.Methods, "needs one of", methodProblem, anyMethod},
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
		users[i].provider, users[i].name = splitUser(e)
	}
	return func(id *Identity, _ *Request) bool {
		return slices.Contains(users, user{id.Provider, id.Username})
	}
}

// splitUser reads an entry of users: a local account, or PROVIDER:username.
func splitUser(entry string) (provider, name string) {
	provider, name, found := strings.Cut(entry, ":")
	if !found {
		return LocalProvider, entry
	}
	return provider, name
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

// equalFoldASCII compares without the case of ASCII letters. The folding of
// Unicode would let other characters stand for some of them.
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
		networks[i], _ = parseNetwork(e)
	}
	return func(_ *Identity, req *Request) bool {
		client := req.Client.Unmap().WithZone("")
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(client) })
	}
}

func anyMethod(methods []string) func(*Identity, *Request) bool {
	return func(_ *Identity, req *Request) bool { return slices.Contains(methods, req.Method) }
}

// ParseNetwork reads an address or a CIDR. IPv4 within IPv6 becomes IPv4. The
// error tells what is wrong with s.
func ParseNetwork(s string) (netip.Prefix, error) {
	network, problem := parseNetwork(s)
	if problem != "" {
		return netip.Prefix{}, fmt.Errorf("%q %s", s, problem)
	}
	return network, nil
}

// parseNetwork reads an address or a CIDR, and says what is wrong with it.
func parseNetwork(s string) (_ netip.Prefix, problem string) {
	const expected = "is neither an address nor a CIDR; expected one like 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32"
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return netip.Prefix{}, expected
		case addr.Zone() != "":
			return netip.Prefix{}, "has a zone, which means something on one machine only; leave it out"
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, expected
	}
	if p != p.Masked() {
		return netip.Prefix{}, "has bits set beyond the length of its prefix; did you mean " + p.Masked().String() + "?"
	}
	if p.Addr().Is4In6() { // clients are compared unmapped
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), ""
	}
	return p, ""
}

func networkProblem(v string) string {
	_, problem := parseNetwork(v)
	return problem
}

// nameProblem says what is wrong with a name that is compared exactly, and
// so can't be found when something invisible is in it.
func nameProblem(v string) string {
	switch {
	case v == "":
		return "is empty"
	case strings.TrimSpace(v) != v:
		return "has a space before or after it"
	case strings.ContainsFunc(v, unicode.IsControl):
		return "holds a control character"
	}
	return ""
}

func roleProblem(v string) string {
	if strings.Contains(v, ",") {
		return "holds a comma; write each role as an entry of its own"
	}
	return nameProblem(v)
}

func userProblem(v string) string {
	provider, name := splitUser(v)
	switch {
	case v != "" && (provider == "" || name == ""):
		return "lacks a part; expected a local account like alice, or PROVIDER:username"
	case nameProblem(provider) != "":
		return nameProblem(provider)
	}
	return nameProblem(name)
}

func domainProblem(v string) string {
	if strings.Contains(v, "@") {
		return "holds an @; expected the part after it alone, like example.org"
	}
	if problem := hostnameProblem(v); problem != "" {
		return problem + "; expected a domain like example.org"
	}
	return ""
}

// scopeProblem follows scope-token of RFC 6749, section 3.3.
func scopeProblem(v string) string {
	if v == "" {
		return "is empty"
	}
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return `is not one scope; it may hold visible ASCII but no space, " or \`
		}
	}
	return ""
}

func mechanismProblem(v string) string {
	switch m := Mechanism(v); {
	case m == None:
		return "proves nobody's identity; expected basic, session, bearer or oidc"
	case !m.proves():
		return "is not a mechanism; expected basic, session, bearer or oidc"
	}
	return ""
}

// proves reports whether m is a way to prove an identity.
func (m Mechanism) proves() bool {
	switch m {
	case Basic, Session, Bearer, OIDC:
		return true
	}
	return false
}

// methodProblem allows tokens (RFC 9110, section 5.6.2) without lower case:
// methods are case-sensitive, and one in lower case is a slip.
func methodProblem(v string) string {
	if v == "" {
		return "is empty"
	}
	for i := range len(v) {
		c := v[i]
		if 'a' <= c && c <= 'z' {
			return "is not in upper case; did you mean " + strings.ToUpper(v) + "?"
		}
		if !('A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return "is not a method; expected one like GET"
		}
	}
	return ""
}

func claimProblem(v string) string {
	if v == "" {
		return "is empty"
	}
	return ""
}
