package policy_test

import (
	"fmt"
	"net/netip"

	"authgate/policy"
)

// Policies refer to each other by name. A decision names the rule that decided.
func ExampleRoute_Decide() {
	set, err := policy.Compile(map[string]*policy.Spec{
		"admin":  {Roles: []string{"admin"}},
		"office": {Networks: []string{"192.0.2.0/24"}, Any: []policy.Ref{{Name: "admin"}, {Spec: &policy.Spec{Methods: []string{"GET"}}}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	office, err := set.Policy("policy", []policy.Ref{{Name: "office"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	route := policy.Route{Name: "files", Mechanisms: []policy.Mechanism{policy.Session}, Policy: office}

	req := &policy.Request{Method: "POST", Client: netip.MustParseAddr("192.0.2.7")}
	for _, id := range []*policy.Identity{
		nil,
		{Username: "bob", Mechanism: policy.Session},
		{Username: "alice", Roles: []string{"admin"}, Mechanism: policy.Session},
	} {
		d := route.Decide(id, req)
		fmt.Println(d.Outcome, "by", d.Rule)
		fmt.Println(" ", d.Reason)
	}
	// Output:
	// challenge by auth
	//   route files: auth: no identity is proved; accepts session
	// forbid by policy office: any
	//   route files: policy office: any: needs at least one of policy admin, (methods needs one of GET)
	// allow by policy office
	//   route files: policy office: met
}

// The most specific pattern wins, in any order of routes.
func ExampleTable_Match() {
	public := []policy.Mechanism{policy.None}
	table, err := policy.NewTable([]policy.Route{
		{Pattern: "/", Mechanisms: public},
		{Pattern: "GET /files/{name}", Mechanisms: public},
		{Pattern: "admin.example.org/", Mechanisms: public},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range []struct{ method, host, target string }{
		{"GET", "example.org", "/files/a%20b"},
		{"PUT", "example.org", "/files/a"},
		{"GET", "Admin.Example.org:443", "/files/a"},
	} {
		host, err := policy.CanonicalHost(r.host)
		if err != nil {
			fmt.Println(err)
			continue
		}
		path, err := policy.ParseTarget(r.target)
		if err != nil {
			fmt.Println(err)
			continue
		}
		match, ok := table.Match(&policy.Request{Method: r.method, Host: host, Path: path})
		fmt.Println(ok, match.Route.Pattern)
	}
	// Output:
	// true GET /files/{name}
	// true /
	// true admin.example.org/
}

// A path with more than one meaning is refused.
func ExampleParseTarget() {
	for _, target := range []string{"/a%20b?c=d", "/a/../b", "/a%2fb", "/%252e%252e/b"} {
		path, err := policy.ParseTarget(target)
		fmt.Printf("%q %v\n", path.Decoded, err)
	}
	// Output:
	// "/a b" <nil>
	// "" the path holds a segment "." or ".."
	// "" the path holds an encoded slash
	// "" the path holds a segment "." or ".."
}

func ExampleLookupClaim() {
	claims := map[string]any{
		"realm_access":              map[string]any{"roles": []any{"admin"}},
		"https://example.org/roles": []any{"user"},
	}
	fmt.Println(policy.LookupClaim(claims, "realm_access.roles"))
	fmt.Println(policy.LookupClaim(claims, "https://example.org/roles"))
	// Output:
	// [admin]
	// [user]
}
