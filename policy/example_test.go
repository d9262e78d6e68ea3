package policy_test

import (
	"fmt"
	"log"
	"net/netip"

	"authgate/policy"
)

// The most specific route decides. Policies refer to each other by name, and a
// decision names the rule that decided.
func Example() {
	set, err := policy.Compile(map[string]*policy.Spec{
		"admin": {Roles: []string{"admin"}},
		"office": {
			Networks: []string{"192.0.2.0/24"},
			Any:      []policy.Ref{{Name: "admin"}, {Spec: &policy.Spec{Methods: []string{"GET"}}}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	office, err := set.Policy("policy", []policy.Ref{{Name: "office"}})
	if err != nil {
		log.Fatal(err)
	}
	table, err := policy.NewTable([]policy.Route{
		{Name: "home", Pattern: "/", Mechanisms: []policy.Mechanism{policy.None}},
		{Name: "files", Pattern: "/files/{name}", Mechanisms: []policy.Mechanism{policy.Session}, Policy: office},
	})
	if err != nil {
		log.Fatal(err)
	}
	path, err := policy.ParseTarget("/files/a%20b")
	if err != nil {
		log.Fatal(err)
	}
	req := &policy.Request{Method: "POST", Host: "example.org", Path: path, Client: netip.MustParseAddr("192.0.2.7")}
	match, _ := table.Match(req)
	for _, id := range []*policy.Identity{
		nil,
		{Username: "bob", Mechanism: policy.Session},
		{Username: "alice", Roles: []string{"admin"}, Mechanism: policy.Session},
	} {
		d := match.Route.Decide(id, req)
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
