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

// The refusal of a message names the scope that the message needs and the scopes of the token, and no scope of
// another tool.
func TestLackedScopesOfMessages(t *testing.T) {
	t.Parallel()
	by := func(scope string, tools ...string) Ref {
		return Ref{Spec: &Spec{Scopes: []string{scope}, MCP: &MCP{Tools: tools}}}
	}
	any := &Spec{Any: []Ref{by("read", "get_*"), by("write", "set_*"), by("admin", "drop_*")}}
	p, err := (&Set{}).Policy("policy", []Ref{{Spec: any}})
	if err != nil {
		t.Fatal(err)
	}
	route := &Route{Mechanisms: []Mechanism{Bearer}, Policy: p}
	for tool, want := range map[string][]string{
		"set_x": {"read", "write"}, "drop_x": {"admin", "read"}, "other": nil,
	} {
		id := &Identity{Mechanism: Bearer, Scopes: []string{"read"}}
		req := &Request{Method: "POST", Message: &Message{Method: ToolsCall, Name: tool}}
		if got := route.LackedScopes(id, req); !slices.Equal(got, want) {
			t.Errorf("%s lacks %q, want %q", tool, got, want)
		}
	}
	both := &Route{Mechanisms: []Mechanism{Bearer}}
	both.Policy, err = (&Set{}).Policy("policy", []Ref{{Spec: &Spec{Scopes: []string{"a"}, MCP: &MCP{Tools: []string{"x"}},
		All: []Ref{{Spec: &Spec{Scopes: []string{"b"}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	req := &Request{Method: "POST", Message: &Message{Method: ToolsCall, Name: "x"}}
	if got := both.LackedScopes(&Identity{Mechanism: Bearer}, req); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("both scopes are needed, got %q", got)
	}
}
