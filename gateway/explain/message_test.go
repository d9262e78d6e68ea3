package explain_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"authgate/gateway/explain"
	"authgate/internal/test/rig"
)

// A described message is decided on as one that is sent. Without one, a POST has a message that no list refuses,
// and the explanation says so.
func TestExplainMessages(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig+`
  - {match: /mcp, upstream: app, auth: [session, bearer], mcp: true, policy: {roles: [admin], mcp: {tools: ["get_*"], methods: ["*", "!*/log"]}}}
`))
	alice := &Caller{User: "alice"}
	for _, c := range []struct {
		method, mcpMethod, mcpName string
		caller                     *Caller
		header                     http.Header
		verify                     bool
		want                       string // outcome and status
		reason                     string
	}{
		{"POST", "tools/call", "get_page", alice, nil, false, "allow 200", "met"},
		{"POST", "tools/call", "delete_all", alice, nil, false, "forbid 200", "a tool that matches get_*"},
		{"POST", "tools/call", "delete_all", nil, nil, false, "challenge 401", "no identity"},
		{"POST", "tools/call", "", alice, nil, false, "bad_request 400", "lack a name that is a string"},
		{"POST", "tools/call", "", nil, nil, false, "challenge 401", "no identity"},
		{"POST", "Tools/Call", "get_page", alice, nil, false, "bad_request 400", "by case"},
		{"POST", "tools/call", "get_page", alice, http.Header{"mcp-name": {"x"}}, false, "bad_request 400", "differs"},
		{"POST", "ping", "", alice, nil, false, "allow 200", "met"},
		{"POST", "debug/log", "", alice, nil, false, "forbid 200", "a method that matches"},
		{"POST", "notifications/log", "", alice, nil, false, "forbid 403", "a method that matches"},
		{"POST", "", "", alice, nil, false, "allow 200", "met"},
		{"GET", "", "", alice, nil, false, "allow 200", "met"},
		{"PUT", "", "", alice, nil, false, "bad_request 405", "GET, POST"},
		{"POST", "", "", alice, nil, true, "forbid 403", "mcp: true"},
	} {
		x, err := e.Explain(&Request{
			Method: c.method, URL: "/mcp", Caller: c.caller, MCPMethod: c.mcpMethod, MCPName: c.mcpName,
			Header: c.header, Verify: c.verify,
		})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := fmt.Sprintf("%s %d", x.Outcome, x.Status); got != c.want || !strings.Contains(x.Reason, c.reason) {
			t.Errorf("%+v: %s, %s", c, got, x.Reason)
		}
		assumes := c.method == "POST" && c.mcpMethod == "" && !c.verify
		if got := strings.Contains(x.Note, "no list of mcp refuses"); got != assumes {
			t.Errorf("%+v: the note is %q", c, x.Note)
		}
	}
	for _, mistaken := range []Request{
		{Method: "POST", URL: "/any", Caller: alice, MCPMethod: "ping"},
		{Method: "GET", URL: "/mcp", Caller: alice, MCPMethod: "ping"},
		{Method: "POST", URL: "/mcp", Caller: alice, MCPName: "get_page"},
	} {
		x, err := e.Explain(&mistaken)
		if _, ok := errors.AsType[*explain.Mistake](err); !ok {
			t.Errorf("%+v: %+v, %v", mistaken, x, err)
		}
	}
}
