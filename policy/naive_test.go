package policy_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"

	"authgate/policy"
)

// naive reads policies as docs/configuration/policies.md says them, word by word, with no thought of speed.
type naive struct {
	named   specs
	planned bool // every next is in place
}

// truth is what is known of a condition. Without an identity, a condition on it neither holds nor fails.
type truth int

const (
	fails truth = iota
	neither
	holds
)

func truthOf(b bool) truth {
	if b {
		return holds
	}
	return fails
}

// every is "all of them hold", any "at least one holds".
func every(truths ...truth) truth { return slices.Min(append(truths, holds)) }
func anyOf(truths ...truth) truth { return slices.Max(append(truths, fails)) }

func contains(list, of []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(of, s) })
}

// policy reads a policy: every key given must hold.
func (n naive) policy(s *spec, id *policy.Identity, req *policy.Request) truth {
	var keys []truth
	about := func(given bool, met func() bool) { // a condition on the identity
		switch {
		case given && id == nil:
			keys = append(keys, neither)
		case given:
			keys = append(keys, truthOf(met()))
		}
	}
	about(s.Roles != nil, func() bool { return contains(s.Roles, id.Roles) })
	about(s.AllRoles != nil, func() bool {
		return !slices.ContainsFunc(s.AllRoles, func(r string) bool { return !slices.Contains(id.Roles, r) })
	})
	about(s.Users != nil, func() bool {
		return slices.ContainsFunc(s.Users, func(u string) bool {
			if !strings.Contains(u, ":") {
				u = "local:" + u
			}
			return norm.NFC.String(u) == norm.NFC.String(id.Provider+":"+id.Username)
		})
	})
	about(s.EmailDomains != nil, func() bool {
		parts := strings.Split(id.Email, "@")
		return len(parts) == 2 && parts[0] != "" && slices.ContainsFunc(s.EmailDomains, func(d string) bool {
			return strings.EqualFold(d, parts[1])
		})
	})
	about(s.Scopes != nil, func() bool { return contains(s.Scopes, id.Scopes) })
	about(s.Mechanisms != nil, func() bool { return slices.Contains(s.Mechanisms, string(id.Mechanism)) })
	about(s.Providers != nil, func() bool { return slices.Contains(s.Providers, id.Provider) })
	about(s.Claims != nil, func() bool {
		for name, values := range s.Claims {
			var is []string
			switch claim := id.Claims[name].(type) {
			case string:
				is = []string{claim}
			case []any:
				for _, one := range claim {
					is = append(is, one.(string))
				}
			}
			if !contains(values, is) {
				return false
			}
		}
		return true
	})
	about(s.Factors != 0, func() bool { return s.Factors == 1 || slices.Contains(id.AMR, "mfa") })
	about(s.MaxAge != 0, func() bool {
		return !id.AuthTime.IsZero() && req.Now.Sub(id.AuthTime) <= s.MaxAge
	})
	if s.Networks != nil {
		keys = append(keys, truthOf(slices.ContainsFunc(s.Networks, func(cidr string) bool {
			return netip.MustParsePrefix(cidr).Contains(req.Client)
		})))
	}
	if s.Methods != nil {
		keys = append(keys, truthOf(slices.Contains(s.Methods, req.Method)))
	}
	if s.MCP != nil {
		keys = append(keys, truthOf(n.message(s.MCP, req)))
	}
	if s.Any != nil {
		keys = append(keys, anyOf(n.refs(s.Any, id, req)...))
	}
	keys = append(keys, n.refs(s.All, id, req)...)
	for _, one := range n.refs(s.None, id, req) {
		keys = append(keys, holds-one)
	}
	return every(keys...)
}

// message reads the key mcp.
func (n naive) message(lists *policy.MCP, req *policy.Request) bool {
	m := req.Message
	if req.Method != "POST" || m != nil && m.Method == "" {
		return true
	}
	matches := func(list []string, name string) bool {
		as := func(pattern string) bool {
			text := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
			return regexp.MustCompile("(?s)^" + text + "$").MatchString(name)
		}
		included, excluded := false, false
		for _, entry := range list {
			if after, ok := strings.CutPrefix(entry, "!"); ok {
				excluded = excluded || as(after)
			} else {
				included = included || as(entry)
			}
		}
		return included && !excluded
	}
	switch {
	case m == nil,
		lists.Methods != nil && !matches(lists.Methods, m.Method),
		lists.Tools != nil && m.Method == "tools/call" && !matches(lists.Tools, m.Name),
		lists.Prompts != nil && m.Method == "prompts/get" && !matches(lists.Prompts, m.Name),
		lists.Resources != nil && strings.HasPrefix(m.Method, "resources/") && m.Name != "" &&
			!matches(lists.Resources, m.Name):
		return false
	}
	for _, uri := range m.Watched {
		if lists.Resources != nil && m.Method == "subscriptions/listen" && !matches(lists.Resources, uri) {
			return false
		}
	}
	return true
}

func (n naive) refs(refs []policy.Ref, id *policy.Identity, req *policy.Request) (truths []truth) {
	for _, ref := range refs {
		s := ref.Spec
		if s == nil {
			s = n.named[ref.Name]
		}
		if ref.Spec == nil && n.planned && s.Next != nil {
			truths = append(truths, every(n.refs(s.Next, id, req)...))
		} else {
			truths = append(truths, n.policy(s, id, req))
		}
	}
	return truths
}

// decide is the outcome of a route that accepts mechanisms.
func (n naive) decide(mechanisms []policy.Mechanism, refs []policy.Ref, id *policy.Identity, req *policy.Request) policy.Outcome {
	held := func(id *policy.Identity) bool { return every(n.refs(refs, id, req)...) == holds }
	switch {
	case slices.Equal(mechanisms, []policy.Mechanism{policy.None}):
		return policy.Allow
	case id == nil && slices.Contains(mechanisms, policy.None) && held(nil):
		return policy.Allow
	case id == nil:
		return policy.Challenge
	case !slices.Contains(mechanisms, id.Mechanism):
		return policy.Forbid
	}
	with := func(factors int, at time.Time) bool { // for the credential, and for the owner of an API token
		proof := policy.Proof{AuthTime: at}
		if factors == 2 {
			proof.AMR = []string{"mfa"}
		}
		probe := *id
		probe.Proof = proof
		if id.Owner == nil {
			return held(&probe)
		}
		owner := *id.Owner
		owner.Proof = proof
		return held(&probe) && held(&owner)
	}
	if held(id) && (id.Owner == nil || held(id.Owner)) {
		return policy.Allow
	}
	for _, factors := range []int{1, 2} { // a sign-in that proves so much, and not more than is needed, is let in
		for _, age := range []time.Duration{0, time.Minute, time.Hour} {
			if age == 0 && factors == 1 || (policy.Demand{Factors: factors, MaxAge: age}).Met(&id.Proof, req.Now) {
				continue
			}
			oldest := req.Now.Add(-age)
			if age == 0 {
				oldest = time.Time{}
			}
			most := max(factors, id.Factors())
			if with(factors, oldest) && with(factors, req.Now) && with(most, oldest) && with(most, req.Now) {
				return policy.StepUp
			}
		}
	}
	return policy.Forbid
}

// anySpec returns a policy of any keys, whose references lead to names.
func (d *dice) anySpec(depth int, names []string) spec {
	var s spec
	for range 1 + d.roll(3) {
		switch d.roll(16) {
		case 0:
			s.Roles = append(d.some("user", "admin", "staff"), "user")
		case 1:
			s.AllRoles = append(d.some("user", "admin"), "staff")
		case 2:
			s.Users = append(d.some("alice", "idp:bob"), "local:caf\u00e9")
		case 3:
			s.EmailDomains = []string{d.one("example.org", "EXAMPLE.net")}
		case 4:
			s.Scopes = append(d.some("read"), "write")
		case 5:
			s.Mechanisms = append(d.some("basic", "oidc"), "bearer")
		case 6:
			s.Providers = append(d.some("local", "basic"), "idp")
		case 7:
			s.Networks = append(d.some("192.0.2.0/25", "2001:db8::/32"), "192.0.2.0/24")
		case 8:
			s.Methods = append(d.some("GET", "HEAD"), "POST")
		case 9:
			s.Claims = map[string][]string{d.one("dept", "team"): append(d.some("x", "y"), "z")}
		case 10:
			s.Factors = 1 + d.roll(2)
		case 14:
			s.MCP = &policy.MCP{Methods: d.some("tools/*", "ping"), Tools: d.some("get_*", "*_*", "!*_all", "ping")}
			s.MCP.Resources = append(d.some("file:*", "!*secret*"), "mem:*")
		case 11:
			s.MaxAge = []time.Duration{time.Minute, time.Hour}[d.roll(2)]
		case 12:
			s.Any = d.refs(depth, names)
		case 13:
			s.All = d.refs(depth, names)
		default:
			s.None = d.refs(depth, names)
		}
	}
	return s
}

// withoutMCP removes the key mcp from policies, also from those that they refer to, and gives them another one.
func withoutMCP(named specs, refs []policy.Ref) {
	for _, ref := range refs {
		s := ref.Spec
		if s == nil {
			s = named[ref.Name]
		}
		if s.MCP != nil {
			s.MCP, s.Roles = nil, []string{"user"}
		}
		for _, more := range [][]policy.Ref{s.Any, s.All, s.None, s.Next} {
			withoutMCP(named, more)
		}
	}
}

// negatedWithoutMCP removes the key mcp from all that is under none.
func negatedWithoutMCP(named specs, refs []policy.Ref) {
	for _, ref := range refs {
		if s := ref.Spec; s != nil {
			withoutMCP(named, s.None)
			for _, more := range [][]policy.Ref{s.Any, s.All, s.None, s.Next} {
				negatedWithoutMCP(named, more)
			}
		}
	}
}

func (d *dice) refs(depth int, names []string) (refs []policy.Ref) {
	for range 1 + d.roll(2) {
		if at := d.roll(len(names) + 1); at < len(names) {
			refs = append(refs, policy.Ref{Name: names[at]})
		} else if depth > 0 {
			refs = append(refs, inline(d.anySpec(depth-1, names)))
		} else {
			refs = append(refs, inline(spec{Roles: []string{"user"}}))
		}
	}
	return refs
}

// The engine decides as a literal reading of the documentation does, now and with every next in place, over
// random policies, routes, identities and requests.
func FuzzNaive(f *testing.F) {
	addThrows(f, 1000, 90, [32]byte{7})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		named, names := specs{}, []string(nil)
		for i := range 3 {
			s := d.anySpec(2, names)
			if d.roll(2) == 0 {
				s.Next = d.refs(1, names)
			}
			names = append(names, strconv.Itoa(i))
			named[names[i]] = &s
		}
		refs := d.refs(2, names)
		for range names { // a policy that is cleared may be under none of one that was not
			for _, name := range names {
				negatedWithoutMCP(named, []policy.Ref{{Spec: named[name]}})
			}
			negatedWithoutMCP(named, refs)
		}
		route := *policyRoute(t, named, refs...)
		route.Mechanisms = [][]policy.Mechanism{
			{policy.Session}, {policy.Session, policy.Bearer, policy.Basic}, {policy.OIDC, policy.Session, policy.None},
		}[d.roll(3)]
		table := newTable(t, policy.Route{Pattern: "/", Name: "r", Mechanisms: route.Mechanisms, Policy: route.Policy})
		decides := table.Routes()[0]
		id, req := d.identity(), d.request()
		if d.roll(4) > 0 {
			method := d.one("", "ping", "tools/call", "resources/read", "subscriptions/listen")
			req.Message = &policy.Message{Method: method}
			req.Message.Name = map[string]string{
				"tools/call":     d.one("get_x", "get_all", "ping", "GET_x\n"),
				"resources/read": d.one("file:a\nb", "mem:secret", "x:"),
			}[req.Message.Method]
			if req.Message.Method == "subscriptions/listen" {
				req.Message.Watched = d.some("file:a", "mem:x", "x:y")
			}
		}
		id.Username = d.one("alice", "bob", "caf\u00e9", "cafe\u0301")
		id.Claims = map[string]any{d.one("dept", "team"): []any{d.one("x", "y", "z", "other")}, "other": "z"}
		switch d.roll(4) {
		case 0:
			id = nil
		case 1:
			id = id.Reduced(d.some("user", "admin"))
		}
		compare := func(n naive, by *policy.Route) {
			got, want := by.Decide(id, req), n.decide(route.Mechanisms, refs, id, req)
			if got.Outcome != want {
				t.Errorf("planned %t: %+v, want %v\nof %+v\nfor %+v, %+v", n.planned, got, want, refs, id, req)
			}
		}
		compare(naive{named, false}, decides)
		planned, leads := decides.Next()
		if planned == nil {
			planned = decides
		}
		compare(naive{named, true}, planned)
		if want := strings.Join(reached(named, refs, map[string]bool{}), ","); leads != want {
			t.Errorf("leads to %q, want %q", leads, want)
		}
	})
}

// reached returns the policies with a next to which refs lead.
func reached(named specs, refs []policy.Ref, seen map[string]bool) (names []string) {
	for _, ref := range refs {
		s := ref.Spec
		if s == nil {
			if s = named[ref.Name]; seen[ref.Name] {
				continue
			}
			if seen[ref.Name] = true; s.Next != nil {
				names = append(names, ref.Name)
			}
		}
		for _, more := range [][]policy.Ref{s.Any, s.All, s.None, s.Next} {
			names = append(names, reached(named, more, seen)...)
		}
	}
	slices.Sort(names)
	return names
}
