package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"authgate/policy"
)

// A list of patterns holds for a name that one of them matches and none after "!" does. A * matches any
// number of any characters, and all others for themselves.
func TestMatchesPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		patterns, good, bad []string
	}{
		{[]string{"get_page"}, []string{"get_page"}, []string{"", "get_page ", "Get_page", "get_pages", "xget_page"}},
		{[]string{"*"}, []string{"", "x", "a\nb", "\x00"}, nil},
		{[]string{"search_*"}, []string{"search_", "search_a\r\nb"}, []string{"search", "xsearch_a"}},
		{[]string{"*_read"}, []string{"_read", "a_read", "_read_read"}, []string{"read", "a_read_"}},
		{[]string{"a*b*c"}, []string{"abc", "axbxc", "abbc", "abcbc"}, []string{"ac", "acb", "ab", "bc"}},
		{[]string{"aa*aa"}, []string{"aaaa"}, []string{"aaa", "aa"}},
		{[]string{"*ab*ab*"}, []string{"abab"}, []string{"aba", "ab"}},
		{[]string{"**"}, []string{"", "x"}, nil},
		{[]string{"*", "!delete_*"}, []string{"get", "x_delete_y", "Delete_x"}, []string{"delete_", "delete_all"}},
		{[]string{"!delete_*", "*"}, []string{"get"}, []string{"delete_all"}},
		{[]string{"a", "!a"}, nil, []string{"a"}},
		{[]string{"!a"}, nil, []string{"a", "b", ""}},
		{[]string{"caf\u00e9"}, []string{"caf\u00e9"}, []string{"cafe\u0301"}},
		{[]string{"x?[a-z].\\*"}, []string{"x?[a-z].\\"}, []string{"xy", "xya.\\"}},
	} {
		for want, names := range map[bool][]string{true: c.good, false: c.bad} {
			for _, name := range names {
				if policy.MatchesPatterns(c.patterns, name) != want {
					t.Errorf("%q matches %q: %t", c.patterns, name, !want)
				}
			}
		}
	}
}

// Each list of mcp is about its own messages, and all lists that are given must hold. What is no message
// with a method meets them all, except a POST whose message is not known.
func TestMCP(t *testing.T) {
	t.Parallel()
	message := func(method string, names ...string) *policy.Message {
		m := &policy.Message{Method: method, Watched: names}
		if len(names) == 1 {
			m.Name = names[0]
		}
		return m
	}
	all := &policy.MCP{
		Methods: []string{"tools/*", "prompts/get", "resources/*", "subscriptions/listen", "initialize"},
		Tools:   []string{"get_*"}, Prompts: []string{"greet"}, Resources: []string{"file:*", "!file:/secret*"},
	}
	for _, c := range []struct {
		lists   *policy.MCP
		method  string // of HTTP
		message *policy.Message
		want    bool
	}{
		{all, "POST", message("initialize"), true},
		{all, "POST", message("ping"), false},
		{all, "POST", message("tools/list"), true},
		{all, "POST", message("tools/call", "get_x"), true},
		{all, "POST", message("tools/call", "greet"), false},
		{all, "POST", message("prompts/get", "greet"), true},
		{all, "POST", message("prompts/get", "get_x"), false},
		{all, "POST", message("resources/read", "file:/a"), true},
		{all, "POST", message("resources/read", "file:/secrets"), false},
		{all, "POST", message("resources/subscribe", "http://x"), false},
		{all, "POST", message("resources/unsubscribe", "http://x"), false},
		{all, "POST", message("resources/templates/list"), true},
		{all, "POST", message("subscriptions/listen"), true},
		{all, "POST", message("subscriptions/listen", "file:/a", "file:/b"), true},
		{all, "POST", message("subscriptions/listen", "file:/a", "file:/secret"), false},
		{all, "POST", &policy.Message{}, true},
		{all, "POST", nil, false},
		{all, "GET", nil, true}, {all, "DELETE", nil, true}, {all, "OPTIONS", nil, true},
		{&policy.MCP{Methods: []string{"ping"}}, "POST", message("tools/call", "x"), false},
		{&policy.MCP{Tools: []string{"x"}}, "POST", message("ping"), true},
	} {
		r := policyRoute(t, nil, inline(spec{MCP: c.lists}))
		id := &policy.Identity{Mechanism: policy.Session}
		d := r.Decide(id, &policy.Request{Method: c.method, Message: c.message})
		if got := d.Outcome == policy.Allow; got != c.want {
			t.Errorf("%+v, %s %+v: %+v", c.lists, c.method, c.message, d)
		}
	}
}

// The message alone is in the way if another one would be let in, or would after another sign-in.
func TestRefusesMessage(t *testing.T) {
	t.Parallel()
	searching := inline(spec{Roles: []string{"user"}, MCP: &policy.MCP{Tools: []string{"search_*"}}})
	careful := inline(spec{Factors: 2, MCP: &policy.MCP{Tools: []string{"delete_*"}}})
	r := policyRoute(t, nil, inline(spec{Any: []policy.Ref{searching, careful}}))
	user := &policy.Identity{Mechanism: policy.Session, Roles: []string{"user"}}
	other := &policy.Identity{Mechanism: policy.Session}
	for _, c := range []struct {
		id       *policy.Identity
		tool     string
		outcome  policy.Outcome
		messages bool
	}{
		{user, "search_x", policy.Allow, false},
		{user, "delete_x", policy.StepUp, false},
		{user, "write_x", policy.Forbid, true},
		{other, "search_x", policy.Forbid, true},
		{nil, "write_x", policy.Challenge, false},
	} {
		req := &policy.Request{Method: "POST", Message: &policy.Message{Method: "tools/call", Name: c.tool}}
		if d := r.Decide(c.id, req); d.Outcome != c.outcome || r.RefusesMessage(c.id, req) != c.messages {
			t.Errorf("%+v, %s: %+v, by the message: %t", c.id, c.tool, d, !c.messages)
		}
	}
	closed := policyRoute(t, nil, searching)
	req := &policy.Request{Method: "POST", Message: &policy.Message{Method: "tools/call", Name: "write_x"}}
	if closed.RefusesMessage(other, req) {
		t.Error("the role is in the way too")
	}
}

// Without a credential, mcp is a condition on the request alone.
func TestMCPOfNobody(t *testing.T) {
	t.Parallel()
	r := policyRoute(t, nil, inline(spec{MCP: &policy.MCP{Tools: []string{"search_*"}}}))
	r.Mechanisms = []policy.Mechanism{policy.Session, policy.None}
	for tool, want := range map[string]policy.Outcome{"search_x": policy.Allow, "write_x": policy.Challenge} {
		req := &policy.Request{Method: "POST", Message: &policy.Message{Method: "tools/call", Name: tool}}
		if d := r.Decide(nil, req); d.Outcome != want {
			t.Errorf("%s: %+v", tool, d)
		}
	}
}

// A mistake in mcp names its place. Under none, mcp would let in what it does not name.
func TestMCPMistakes(t *testing.T) {
	t.Parallel()
	tools := spec{MCP: &policy.MCP{Tools: []string{"x"}}}
	for want, named := range map[string]specs{
		"policies.a.mcp: no list":                 {"a": {MCP: &policy.MCP{}}},
		"policies.a.mcp.tools: the list is empty": {"a": {MCP: &policy.MCP{Tools: []string{}}}},
		`policies.a.mcp.tools[1]: "" is empty`:    {"a": {MCP: &policy.MCP{Tools: []string{"x", ""}}}},
		`policies.a.mcp.methods[0]: "!" excludes`: {"a": {MCP: &policy.MCP{Methods: []string{"!"}}}},
		"policies.a.none[0]: the policy has mcp":  {"a": {None: []policy.Ref{inline(tools)}}},
		"policies.a.any[0].none[0]: the policy has mcp": {
			"a": {Any: []policy.Ref{inline(spec{None: []policy.Ref{{Name: "b"}}})}}, "b": &tools,
		},
		"policies.a.none[1]: the policy has mcp": {
			"a": {None: []policy.Ref{inline(spec{Roles: []string{"x"}}), {Name: "b"}}},
			"b": {All: []policy.Ref{{Name: "c"}}}, "c": &tools,
		},
		"policies.a.next.none[0]: the policy has mcp": {
			"a": {Roles: []string{"x"}, Next: []policy.Ref{inline(spec{None: []policy.Ref{inline(tools)}})}},
		},
		"policies.a.none[0]: the policy has mcp, which ": {
			"a": {None: []policy.Ref{{Name: "b"}}}, "b": {Roles: []string{"x"}, Next: []policy.Ref{inline(tools)}},
		},
	} {
		if _, err := policy.Compile(named); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	set, err := policy.Compile(specs{"b": &tools})
	if err != nil {
		t.Fatal(err)
	}
	none := inline(spec{None: []policy.Ref{{Name: "b"}}})
	if _, err := set.Policy("routes[0].policy", []policy.Ref{none}); err == nil {
		t.Error("a policy in place has mcp under none, by name")
	}
}

// It is known whether a policy looks at messages, by whatever reference, and once every next is in place.
func TestLooksAtMessages(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(specs{
		"tools": {MCP: &policy.MCP{Tools: []string{"x"}}}, "role": {Roles: []string{"x"}},
		"any":  {Any: []policy.Ref{{Name: "role"}, {Name: "tools"}}},
		"next": {Roles: []string{"x"}, Next: []policy.Ref{{Name: "any"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"tools": true, "role": false, "any": true, "next": true} {
		if set.LooksAtMessages([]policy.Ref{{Name: name}}) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

// A space has a message for each difference between the lists of its routes, as long as their patterns are
// not too many.
func TestSpaceOfMessages(t *testing.T) {
	t.Parallel()
	of := func(methods []string, tools ...string) *policy.Route {
		r := policyRoute(t, nil, inline(spec{MCP: &policy.MCP{Methods: methods, Tools: tools}}))
		r.Pattern = "/"
		return r
	}
	for _, c := range [][2]*policy.Route{
		{of(nil, "a*xb", "!ac*b"), of(nil, "a*xb")},
		{of(nil, "get", "search_*"), of(nil, "get", "search_*", "search")},
		{of([]string{"tools/c*"}, "x"), of([]string{"tools/*"}, "x")},
		{of([]string{"tools/call", "ping"}, "*"), of([]string{"*"}, "*")},
	} {
		space, err := policy.NewSpace(false, c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		differ := slices.ContainsFunc(space.Calls, func(call policy.Call) bool {
			id := &policy.Identity{Mechanism: policy.Session}
			req := &policy.Request{Method: call.Method, Message: &call.Message}
			return c[0].Decide(id, req).Outcome != c[1].Decide(id, req).Outcome
		})
		if !differ {
			t.Errorf("%+v", space.Calls)
		}
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("*%d*%d*%d*", i, i*7, i*13))
	}
	_, err := policy.NewSpace(false, of(nil, many...))
	if err == nil || !strings.Contains(err.Error(), "too many names") {
		t.Errorf("of many patterns: %v", err)
	}
}
