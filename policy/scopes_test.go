package policy

import (
	"slices"
	"testing"
)

// A token that lacks a scope and nothing else can be replaced by one with the scope: the client
// is told which. A client whose token lacks a role, too, is not.
func TestLackedScopes(t *testing.T) {
	t.Parallel()
	scoped := &Spec{Scopes: []string{"write", "admin"}}
	for _, c := range []struct {
		name   string
		spec   *Spec
		id     Identity
		lacked []string
	}{
		{"only the scope", &Spec{Scopes: []string{"write"}, Roles: []string{"editor"}},
			Identity{Roles: []string{"editor"}, Mechanism: Bearer}, []string{"write"}},
		{"another scope", scoped, Identity{Scopes: []string{"read"}, Mechanism: Bearer}, []string{"admin", "write"}},
		{"the role too", &Spec{Scopes: []string{"write"}, Roles: []string{"editor"}},
			Identity{Roles: []string{"user"}, Mechanism: Bearer}, nil},
		{"the owner's role", &Spec{Scopes: []string{"write"}, Roles: []string{"editor"}},
			Identity{Roles: []string{"editor"}, Owner: &Identity{Mechanism: Bearer}, Mechanism: Bearer}, nil},
		{"a session", scoped, Identity{Mechanism: Session}, nil},
		{"no scopes named", &Spec{Roles: []string{"editor"}}, Identity{Mechanism: Bearer}, nil},
		{"in any and all", &Spec{Any: []Ref{{Spec: scoped}, {Spec: &Spec{All: []Ref{{Spec: &Spec{Scopes: []string{"x"}}}}}}}},
			Identity{Mechanism: Bearer}, []string{"admin", "write", "x"}},
		{"in none", &Spec{Roles: []string{"editor"}, None: []Ref{{Spec: scoped}}},
			Identity{Mechanism: Bearer}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			policy, err := (&Set{}).Policy("policy", []Ref{{Spec: c.spec}})
			if err != nil {
				t.Fatal(err)
			}
			table, err := NewTable([]Route{{Pattern: "/", Mechanisms: []Mechanism{Bearer, Session}, Policy: policy}})
			if err != nil {
				t.Fatal(err)
			}
			request := &Request{Method: "GET"}
			route := table.Routes()[0]
			if decision := route.Decide(&c.id, request); decision.Outcome != Forbid {
				t.Fatalf("decided %v", decision)
			}
			if got := route.LackedScopes(&c.id, request); !slices.Equal(got, c.lacked) {
				t.Errorf("lacks %q, want %q", got, c.lacked)
			}
		})
	}
}
