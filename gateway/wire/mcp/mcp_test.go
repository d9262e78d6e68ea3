package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"authgate/policy"
)

// A message has a method, an id as it was written, and the name of what it is about.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, id, method, name string }{
		{`{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, "1e400", "ping", ""},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x\u0021","arguments":{"Name":1}}}`,
			`"a"`, policy.ToolsCall, "x!"},
		{`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p"}}`, "2", policy.PromptsGet, "p"},
		{`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///a"}}`,
			"2", policy.ResourcesRead, "file:///a"},
		{`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"x:/a../...b?/../#/.."}}`,
			"2", policy.ResourcesRead, "x:/a../...b?/../#/.."},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "notifications/initialized", ""},
		{`{"jsonrpc":"2.0","id":3,"result":{"ID":1,"id":2}}`, "3", "", ""},
		{`{"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{"argument":"\ud83d"}}`, "4", "completion/complete", ""},
	} {
		m, err := Read([]byte(c.body))
		if err != nil || string(m.ID) != c.id || m.Method != c.method || m.Name != c.name {
			t.Errorf("%s: got %+v, %v", c.body, m, err)
		}
	}
	m, err := Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
		"params":{"notifications":{"resourceSubscriptions":["a:b","c:d"]}}}`))
	if err != nil || !slices.Equal(m.Watched, []string{"a:b", "c:d"}) {
		t.Errorf("subscriptions: got %+v, %v", m, err)
	}
}

// A body that lenient servers read differently is refused, with the code and the id of JSON-RPC.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", levels-1) +
			strings.Repeat("]", levels-1) + `}`
	}
	if _, err := Read([]byte(deep(64))); err != nil {
		t.Errorf("64 levels: %v", err)
	}
	call := func(more string) string { return `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + more + `}` }
	read := func(uri string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + uri + `"}}`
	}
	for body, want := range map[string]struct {
		code int
		id   string
	}{
		``: {CodeNoJSON, ""}, `{`: {CodeNoJSON, ""}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}": {CodeNoJSON, ""},
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: {CodeInvalid, ""}, `"x"`: {CodeInvalid, ""},
		deep(65):                                                    {CodeInvalid, "1"},
		`{"id":1,"method":"ping"}`:                                  {CodeInvalid, "1"},
		`{"jsonrpc":2.0,"id":1}`:                                    {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":1,"method":7}`:                       {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                 {CodeInvalid, ""},
		call(`"params":{"name":"a","name":"b"}`):                    {CodeInvalid, "1"},
		call(`"params":{"name":"a","n\u0061me":"b"}`):               {CodeInvalid, "1"},
		call(`"id":1`):                                              {CodeInvalid, ""},
		call(`"params":{"name":"a","Name":"b"}`):                    {CodeInvalid, "1"},
		call(`"params":{"name":"a","name\u0000":"b"}`):              {CodeInvalid, "1"},
		call(`"params":{"name":"a","METHOD\u0000":"b"}`):            {CodeInvalid, "1"},
		call(`"params":{"name":"a"},"Params":{"name":"b"}`):         {CodeInvalid, "1"},
		call(`"params":{"name":"a"},"param\u017f":{}`):              {CodeInvalid, "1"},
		call(`"params":{"name":"a"},"re\u017fult":{}`):              {CodeInvalid, "1"},
		call(`"params":{}`):                                         {CodeInvalid, "1"},
		call(`"params":{"name":["a"]}`):                             {CodeInvalid, "1"},
		call(`"params":["a"]`):                                      {CodeInvalid, "1"},
		call(`"x":1`):                                               {CodeInvalid, "1"},
		call(`"params":{"name":"a\ud800"}`):                         {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":1,"method":"Tools/Call"}`:            {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000"}`:      {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":1,"method":"resources/read"}`:        {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":"\udc00","method":"resources/read"}`: {CodeInvalid, ""},
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"Notifications":{}}}`: {CodeInvalid, "1"},
		read(`file:///docs/../key`):        {CodeInvalid, "1"},
		read(`file:///docs/.`):             {CodeInvalid, "1"},
		read(`file:///docs/.. \u0000`):     {CodeInvalid, "1"},
		read(`file:///docs\\%2E.\\key#`):   {CodeInvalid, "1"},
		read(`file:///docs/.\t%2\ne/key?`): {CodeInvalid, "1"},
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":` +
			`{"resourceSubscriptions":["file:///a","file:///docs/../key"]}}}`: {CodeInvalid, "1"},
	} {
		_, err := Read([]byte(body))
		refused, ok := errors.AsType[*Error](err)
		if !ok || refused.Code != want.code || string(refused.ID) != want.id {
			t.Errorf("%.80s: got %#v, want %v", body, err, want)
		}
	}
}

// Headers repeat the message, and from 2026-07-28 on requests must have them.
func TestCheckHeaders(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ä"}}`
	const meta = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	const task = `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`
	const note = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, c := range []struct {
		body, header string
		good         bool
	}{
		{call, "", true},
		{call, "Mcp-Method=tools/call Mcp-Name=ä", true},
		{call, "Mcp-Name==?base64?w6Q=?=", true},
		{call, "Mcp-Name==?BASE64?w6Q=?=", false},
		{call, "Mcp-Name==?base64?w6Q?=", false},
		{call, "Mcp-Name==?base64?=", false},
		{call, "Mcp-Name=b", false},
		{call, "Mcp-Method=Tools/call", false},
		{call, "Mcp-Method=tools/call Mcp-Method=tools/call", false},
		{call, "Mcp-Protocol-Version=2026-07-28 Mcp-Method=tools/call", false},
		{call, "Mcp-Protocol-Version=2026-07-28 Mcp-Name=ä", false},
		{call, "Mcp-Protocol-Version=2026-07-28 Mcp-Method=tools/call Mcp-Name=ä", true},
		{call, "Mcp-Protocol-Version=2025-11-25", true},
		{meta, "", false},
		{meta, "Mcp-Method=ping", true},
		{meta, "Mcp-Method=ping Mcp-Name=anything", true},
		{meta, "Mcp-Method=ping Mcp-Protocol-Version=2025-11-25", false},
		{task, "Mcp-Name=t", true},
		{task, "Mcp-Name=u", false},
		{note, "Mcp-Protocol-Version=2026-07-28", true},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "Mcp-Protocol-Version=2026-07-28", true},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "Mcp-Method=ping", false},
	} {
		m, err := Read([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		for field := range strings.FieldsSeq(c.header) {
			name, value, _ := strings.Cut(field, "=")
			h.Add(name, value)
		}
		err = m.CheckHeaders(h)
		if refused, ok := errors.AsType[*Error](err); (err == nil) != c.good || ok && refused.Code != CodeHeadersDiffer {
			t.Errorf("%s with %q: %v", c.body, c.header, err)
		}
	}
}

// What Read accepts, encoding/json reads alike, also where it does not look at the case of names. In e2e/mcp, the
// official SDKs read the seeds, and many more, alike.
func FuzzMessage(f *testing.F) {
	seeds, err := os.ReadFile("testdata/messages")
	if err != nil {
		f.Fatal(err)
	}
	for body := range bytes.SplitSeq(seeds, []byte("\n")) {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := Read(body)
		if err != nil {
			return
		}
		var lenient struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(body, &lenient); err != nil || lenient.Method != m.Method ||
			m.ID != nil && string(lenient.ID) != string(m.ID) {
			t.Fatalf("%q: read %+v, encoding/json reads %+v, %v", body, m, lenient, err)
		}
		var exact map[string]any
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.UseNumber()
		if err := d.Decode(&exact); err != nil {
			t.Fatalf("%q is accepted: %v", body, err)
		}
		if method, _ := exact["method"].(string); method != m.Method {
			t.Errorf("%q: the method is %q, not %q", body, method, m.Method)
		}
		if m.Name == "" {
			return
		}
		var params struct{ Name, URI any }
		if err := json.Unmarshal(lenient.Params, &params); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		read, member := params.Name, "name"
		if strings.HasPrefix(m.Method, "resources/") {
			read, member = params.URI, "uri"
		}
		if read != m.Name || exact["params"].(map[string]any)[member] != m.Name {
			t.Errorf("%q: the name is %v, not %q", body, read, m.Name)
		}
	})
}
