package policy_test

import (
	"cmp"
	"reflect"
	"strconv"
	"testing"
	"time"

	"authgate/policy"
)

// A condition on who somebody is tells two people apart. One on the request, such as its address,
// does not, unless it is an alternative to such a condition, or an exception from it.
func TestOpensMore(t *testing.T) {
	t.Parallel()
	network, fresh := spec{Networks: []string{"192.0.2.0/24"}}, spec{MaxAge: time.Minute}
	root, staff := spec{Users: []string{"root"}}, spec{Roles: []string{"staff"}}
	helper := policy.Identity{
		Username: "helen", Provider: "local", Roles: []string{"staff", "helpdesk"}, Email: "h@a.example",
		Claims: map[string]any{"site": "x"},
	}
	atSite := spec{Claims: map[string][]string{"site": {"x"}}}
	someone := policy.Identity{Username: "sam", Provider: "local"}
	named := func(name string) policy.Identity { return policy.Identity{Username: name, Provider: "local"} }
	for name, c := range map[string]struct {
		id   policy.Identity
		spec spec
		want bool
	}{
		"the same":                   {helper, spec{Users: []string{"helen"}, None: []policy.Ref{inline(network)}}, false},
		"a role fewer":               {someone, staff, false},
		"a role more":                {policy.Identity{Roles: []string{"root"}}, spec{Roles: []string{"root"}}, true},
		"all of some roles":          {policy.Identity{Roles: []string{"a", "b"}}, spec{AllRoles: []string{"a", "b"}}, true},
		"a name":                     {named("root"), root, true},
		"a name in another form":     {named("e\u0301"), spec{Users: []string{"\u00e9"}}, true},
		"another name":               {someone, root, false},
		"a name at a provider":       {policy.Identity{Username: "root", Provider: "idp"}, root, false},
		"an address":                 {policy.Identity{Email: "s@b.ex"}, spec{EmailDomains: []string{"B.ex"}}, true},
		"a claim":                    {someone, atSite, false},
		"a provider":                 {policy.Identity{Provider: "idp"}, spec{Providers: []string{"idp"}}, true},
		"without a claim":            {someone, spec{None: []policy.Ref{inline(atSite)}}, true},
		"without a role":             {someone, spec{None: []policy.Ref{inline(staff)}}, true},
		"not without a role":         {someone, spec{None: []policy.Ref{inline(root)}}, false},
		"without a role, but named":  {someone, spec{Users: []string{"helen"}, None: []policy.Ref{inline(staff)}}, false},
		"an address of the client":   {someone, network, false},
		"and a name":                 {named("root"), spec{Users: root.Users, Networks: network.Networks}, true},
		"or a name":                  {named("root"), spec{Any: []policy.Ref{inline(network), inline(root)}}, true},
		"or a role that both have":   {someone, spec{Any: []policy.Ref{inline(network), inline(staff)}}, false},
		"or a fresh sign-in":         {named("root"), spec{Any: []policy.Ref{inline(fresh), inline(root)}}, true},
		"not at an address":          {someone, spec{None: []policy.Ref{inline(network)}}, false},
		"a name, and not at address": {named("root"), spec{Users: root.Users, None: []policy.Ref{inline(network)}}, true},
		"not a role at an address": {
			someone, spec{None: []policy.Ref{inline(spec{Roles: staff.Roles, Networks: network.Networks})}}, true},
		"with two factors":   {named("root"), spec{Users: root.Users, Factors: 2}, true},
		"by a mechanism":     {named("root"), spec{Users: root.Users, Mechanisms: []string{"bearer"}}, true},
		"by a scope alone":   {someone, spec{Scopes: []string{"read"}}, false},
		"by a method alone":  {someone, spec{Methods: []string{"GET"}}, false},
		"all of two, nested": {named("root"), spec{All: []policy.Ref{inline(spec{All: []policy.Ref{inline(root)}})}}, true},
	} {
		route := policyRoute(t, nil, inline(c.spec))
		if got := route.OpensMore(&c.id, &helper); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if open := (&policy.Route{Mechanisms: []policy.Mechanism{policy.Session}}); open.OpensMore(&someone, &helper) {
		t.Error("a route without a policy opens more")
	}
}

// Of each key of a policy it is known whether it is about who the user is.
func TestOpensMoreKnowsAllKeys(t *testing.T) {
	t.Parallel()
	personal := map[string]bool{
		"Roles": true, "AllRoles": true, "Users": true, "EmailDomains": true, "Providers": true, "Claims": true,
		"Actors": false, "Scopes": false, "Mechanisms": false, "Networks": false, "Methods": false, "MCP": false,
		"Factors": false, "MaxAge": false,
	}
	id := &policy.Identity{
		Username: "x", Provider: "x", Email: "x@x", Roles: []string{"x"}, Actor: "client:x", Claims: map[string]any{"x": "x"},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[policy.Spec]()) {
		if field.Type == reflect.TypeFor[[]policy.Ref]() {
			continue
		}
		var s policy.Spec
		switch value := reflect.ValueOf(&s).Elem().FieldByIndex(field.Index).Addr().Interface().(type) {
		case *[]string:
			special := map[string]string{"Mechanisms": "session", "Networks": "192.0.2.1", "Methods": "GET", "Users": "x:x",
				"Actors": "client:x"}
			*value = []string{cmp.Or(special[field.Name], "x")}
		case *map[string][]string:
			*value = map[string][]string{"x": {"x"}}
		case **policy.MCP:
			*value = &policy.MCP{Tools: []string{"x"}}
		case *int:
			*value = 2
		case *time.Duration:
			*value = time.Minute
		}
		want, known := personal[field.Name]
		if got := policyRoute(t, nil, inline(s)).OpensMore(id, &policy.Identity{}); !known || got != want {
			t.Errorf("%s: %t; known: %t", field.Name, got, known)
		}
	}
}

// What OpensMore denies never happens: in the same circumstances, nothing is allowed to the one that is
// not to the other.
func FuzzOpensMore(f *testing.F) {
	addThrows(f, 1000, 80, [32]byte{2})
	more, less := 0, 0
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		id, than := d.identity(), d.identity()
		var named []meaning
		all := specs{}
		for i := range 2 {
			named = append(named, d.policy(2, named))
			all[strconv.Itoa(i)] = &named[i].spec
		}
		m := d.policy(3, named)
		route := policyRoute(t, all, inline(m.spec))
		if route.OpensMore(id, id) {
			t.Fatalf("%+v opens more to %+v than to itself", m.spec, id)
		}
		if route.OpensMore(id, than) {
			more++
			return
		}
		less++
		for range 20 {
			now := d.identity()
			for _, one := range []*policy.Identity{id, than} {
				one.Mechanism, one.Scopes, one.Proof = now.Mechanism, now.Scopes, now.Proof
			}
			req := d.request()
			if m.holds(id, req) && !m.holds(than, req) {
				t.Fatalf("%+v is met by %+v and not by %+v, for %+v", m.spec, id, than, req)
			}
		}
	})
	if more+less > 100 && (more < 50 || less < 50) {
		f.Errorf("of the cases %d open more and %d do not", more, less)
	}
}
