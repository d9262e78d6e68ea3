package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"authgate/e2e/world"
)

// searching lets alice's agents call the tools search_*, at a server that also has delete_all.
const searching = world.People + `
policies:
  searching: {roles: [user], mcp: {tools: ["search_*"]}}
routes: [{match: /mcp, upstream: app, auth: [bearer], policy: searching, mcp: true}]
`

// mcpGateway is a gateway in front of an MCP server, for all versions of HTTP.
type mcpGateway struct {
	*http3Gateway
	up     *world.Recorder
	access string // of alice, the Authorization header
	ways   map[string]*http.Client
}

func startMCP(t *testing.T) *mcpGateway {
	t.Helper()
	g := &mcpGateway{up: world.Record(t)}
	g.http3Gateway = startHTTP3(t, world.App(g.up.URL)+searching)
	g.access = g.SignIn(g.Stranger(), "alice").Access
	g.ways = map[string]*http.Client{"HTTP/1.1": g.Stranger11(), "HTTP/2": g.Stranger(), "HTTP/3": g.client3()}
	return g
}

// message is a request for an MCP server.
type message struct {
	method  string // POST unless it is set
	kind    string // the Content-Type, application/json unless it is set; "none" for none
	body    string
	headers []string // name, value, ...
	want    int      // the status
	code    int      // of the JSON-RPC error; 0: the body is another one
}

// send sends a message by one version of HTTP, with its length before it or, framed by the protocol alone,
// without.
func (g *mcpGateway) send(t *testing.T, way *http.Client, m message, withLength bool) world.Answer {
	t.Helper()
	var body io.Reader = strings.NewReader(m.body)
	if !withLength {
		body = io.MultiReader(body) // hides its length
	}
	if m.method == "" {
		m.method = "POST"
	}
	request := world.Must(http.NewRequestWithContext(t.Context(), m.method, g.Base+"/mcp", body))(t)
	request.Header.Set("Authorization", g.access)
	if m.kind == "" {
		m.kind = world.TypeJSON
	}
	if m.kind != "none" {
		request.Header.Set("Content-Type", m.kind)
	}
	for i := 0; i+1 < len(m.headers); i += 2 {
		name := m.headers[i]
		request.Header[name] = append(request.Header[name], m.headers[i+1])
	}
	response := world.Must(way.Do(request))(t)
	defer response.Body.Close()
	content := world.Must(io.ReadAll(response.Body))(t)
	return world.Answer{Status: response.StatusCode, Header: response.Header, Body: string(content)}
}

// each sends a message in all ways, and checks the answers.
func (g *mcpGateway) each(t *testing.T, m message, then func(world.Answer)) {
	t.Helper()
	for name, way := range g.ways {
		for _, withLength := range []bool{true, false} {
			a := g.send(t, way, m, withLength)
			if a.Status != m.want || codeOf(a) != m.code {
				t.Errorf("%s, with its length %v: %s %.120q %q: %d %s, want %d with %d", name, withLength, m.method,
					m.body, m.headers, a.Status, a.Body, m.want, m.code)
			}
			then(a)
		}
	}
}

// codeOf is the code of the JSON-RPC error in an answer, 0 for other bodies.
func codeOf(a world.Answer) int {
	var said struct{ Error struct{ Code int } }
	_ = json.Unmarshal([]byte(a.Body), &said) // other bodies have no code
	return said.Error.Code
}

// call is a call of a tool; extra comes after the name.
func call(name, extra string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `"` + extra + `}}`
}

// resource reads a resource.
func resource(uri string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"` + uri + `"}}`
}

// of2026 is a call of a tool as the version 2026-07-28 of the protocol has it.
func of2026(name string) string {
	return call(name, `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
}

func compressed(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text) // into memory
	_ = w.Close()
	return out.String()
}

func inUTF16(text string) string {
	out := []byte{0xfe, 0xff}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = append(out, byte(unit>>8), byte(unit))
	}
	return string(out)
}

// Of JSON-RPC and MCP.
const (
	noJSON  = -32700
	invalid = -32600
	differs = -32020
)

// refused are messages with the same status and code.
func refused(status, code int, bodies ...string) (all []message) {
	for _, body := range bodies {
		all = append(all, message{body: body, want: status, code: code})
	}
	return all
}

// TestToolsAreJudged: a call of a tool reaches the server byte for byte if the policy permits the tool. A call of
// another one does not, and the answer names it.
func TestToolsAreJudged(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	permitted := call("search_notes", `,"arguments":{"n":1e400,"name":"delete_all","text":" ü\u00fc "}`) + "\n"
	g.each(t, message{body: permitted, want: 200}, func(world.Answer) {
		got := g.up.One(t)
		if got.Body != permitted || got.Value(t, "X-Auth-User") != "alice" || len(got.Values("Authorization")) > 0 {
			t.Errorf("the server got %q", got)
		}
	})
	g.each(t, message{body: call("delete_all", ""), want: 200, code: 403}, func(a world.Answer) {
		if a.Header.Get("Content-Type") != world.TypeJSON || !strings.Contains(a.Body, "delete_all") ||
			!strings.Contains(a.Body, `"id":7`) {
			t.Errorf("the agent gets %q %s", a.Header, a.Body)
		}
	})
	notification := strings.Replace(call("delete_all", ""), `"id":7,`, "", 1)
	g.each(t, message{body: notification, want: 403}, func(world.Answer) {})
	for _, m := range []message{{method: "GET", kind: "none", want: 200}, {method: "DELETE", kind: "none", want: 200}} {
		for _, way := range g.ways {
			if a := g.send(t, way, m, true); a.Status != m.want {
				t.Errorf("%s: %d", m.method, a.Status)
			}
			g.up.One(t)
		}
	}
	g.up.None(t)
}

// TestMessageSize: a message of 4 MiB reaches the server. One of a byte more is refused, with what the client
// can read.
func TestMessageSize(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	const most = 4 << 20
	empty := len(call("search_notes", `,"arguments":{"text":""}`))
	largest := call("search_notes", `,"arguments":{"text":"`+strings.Repeat("x", most-empty)+`"}`)
	g.each(t, message{body: largest, want: 200}, func(world.Answer) {
		if got := g.up.One(t).Body; got != largest {
			t.Errorf("the server got %d bytes", len(got))
		}
	})
	// With Expect, a client that waits sees the answer before it sends the body.
	g.each(t, message{body: largest + " ", headers: []string{"Expect", "100-continue"}, want: 413, code: invalid},
		func(world.Answer) {})
	g.up.None(t)
}

// TestHiddenTools: each published way to hide the call of a tool from a gateway for agents. The server must
// get nothing, by whatever version of HTTP.
func TestHiddenTools(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	for _, ways := range []map[string][]message{hiddenInMessages(), hiddenBesideMessages()} {
		for name, messages := range ways {
			t.Run(name, func(t *testing.T) {
				for _, m := range messages {
					g.each(t, m, func(world.Answer) { g.up.None(t) })
				}
			})
		}
	}
}

// hiddenInMessages are ways to hide the name of a tool in a message.
func hiddenInMessages() map[string][]message {
	hidden, permitted := call("delete_all", ""), call("search_notes", "")
	opened := permitted[:len(permitted)-1] // more members may follow
	return map[string][]message{
		"members twice": refused(400, invalid,
			call("search_notes", `,"name":"delete_all"`), call("delete_all", `,"name":"search_notes"`),
			call("search_notes", `,"n\u0061me":"delete_all"`), call("search_notes", `,"arguments":{"a":1,"a":2}`),
			opened+`,"params":{"name":"delete_all"}}`, opened+`,"method":"ping"}`),
		"another case": refused(400, invalid,
			call("search_notes", `,"Name":"delete_all"`), call("search_notes", `,"NAME":"delete_all"`),
			opened+`,"Method":"ping"}`, opened+`,"Params":{"name":"delete_all"}}`,
			opened+`,"paramſ":{"name":"delete_all"}}`,
			strings.Replace(hidden, "method", "Method", 1), strings.Replace(hidden, "tools/call", "Tools/Call", 1)),
		"NULs": refused(400, invalid,
			call("search_notes", `,"name\u0000":"delete_all"`),
			call("search_notes", `,"name\u0000\u0000":"delete_all"`),
			opened+`,"method\u0000":"ping"}`, strings.Replace(hidden, "tools/call", `tools/call\u0000`, 1)),
		"another name": append(refused(200, 403,
			call(`delete_all\u0000`, ""), call(`\u0064elete_all`, ""), call("Search_notes", ""),
			call("ſearch_notes", ""), call(" search_notes", ""), call("", ""),
			strings.Replace(hidden, `"id":7`, `"id":7,"result":{}`, 1)),
			refused(400, invalid, strings.Replace(hidden, `{"name":"delete_all"}`, `["delete_all"]`, 1),
				strings.Replace(hidden, `"delete_all"`, `["delete_all"]`, 1), call(`search_\ud800`, ""),
				strings.Replace(hidden, `"tools/call"`, `["tools/call"]`, 1), strings.Replace(hidden, "2.0", "1.0", 1),
				opened+`,"x":`+strings.Repeat("[", 70)+strings.Repeat("]", 70)+"}")...),
		"another path": refused(400, invalid, resource(`file:///docs/../key`), resource(`file:///docs/%2e%2E/key`),
			resource(`file:///docs\\..\\key`), resource(`file:///docs/.\t./key`)),
		"several messages": append(
			refused(400, invalid, "["+hidden+"]", "["+permitted+","+hidden+"]", "[]", `"tools/call"`, "null"),
			refused(400, noJSON, permitted+hidden, permitted+"\n"+hidden, "", "\ufeff"+hidden, permitted+"\x00",
				hidden[:len(hidden)-1], "name=delete_all", "/**/"+hidden)...),
		"beyond a buffer": refused(200, 403,
			call("delete_all", `,"arguments":{"text":"`+strings.Repeat("x", 1<<20)+`"}`),
			strings.Repeat(" ", 1<<20)+hidden,
			`{"params":{"arguments":{"text":"`+strings.Repeat("x", 1<<20)+`"},"name":"delete_all"},`+
				`"method":"tools/call","id":7,"jsonrpc":"2.0"}`),
	}
}

// hiddenBesideMessages are ways to hide the name of a tool by headers and methods.
func hiddenBesideMessages() map[string][]message {
	hidden, modern := call("delete_all", ""), of2026("search_notes")
	headers := func(body string, headers ...string) message {
		return message{body: body, headers: headers, want: 400, code: differs}
	}
	override := func(method string) []string { return []string{"X-Http-Method-Override", method} }
	kind := func(kind string) message { return message{body: hidden, kind: kind, want: 415} }
	return map[string][]message{
		"encodings": {
			{body: compressed(hidden), headers: []string{"Content-Encoding", "gzip"}, want: 415},
			{body: hidden, headers: []string{"Content-Encoding", "gzip"}, want: 415},
			{body: hidden, headers: []string{"Content-Encoding", "identity"}, want: 415},
			{body: inUTF16(hidden), want: 400, code: noJSON},
			{body: call("search_notes", ",\"x\":\"\xff\""), want: 400, code: noJSON},
			{body: inUTF16(hidden), kind: "application/json; charset=utf-16", want: 415},
			kind("application/json; charset=utf-7"), kind("application/json; charset=utf-8; charset=utf-7"),
			kind("application/json; charset=utf-7; charset*0=utf-8"), kind("application/json; charset*=utf-7''utf-8"),
			kind("application/json; x=y"), kind("application/json, text/plain"), kind("text/plain"),
			kind("application/jsonp"), kind("application/x-www-form-urlencoded"), kind("none"),
			{body: hidden, headers: []string{"Content-Type", "text/plain"}, want: 415}, // beside the right one
		},
		"headers of another tool": {
			headers(hidden, "Mcp-Method", "ping"), headers(hidden, "Mcp-Name", "search_notes"),
			headers(hidden, "Mcp-Name", "delete_all", "Mcp-Name", "search_notes"),
			headers(hidden, "Mcp-Name", base64Of("search_notes")),
			headers(modern), headers(modern, "Mcp-Method", "tools/call"),
			headers(modern, "Mcp-Method", "tools/call", "Mcp-Name", "delete_all"),
			headers(modern, "Mcp-Protocol-Version", "2025-11-25"),
			{body: hidden, headers: []string{"Mcp-Method", "tools/call", "Mcp-Name", base64Of("delete_all")}, want: 200,
				code: 403},
		},
		"another method": {
			{method: "PUT", body: hidden, want: 405}, {method: "PATCH", body: hidden, want: 405},
			{method: "QUERY", body: hidden, want: 405}, {method: "post", body: hidden, want: 400},
			{method: "GET", body: hidden, want: 400, code: invalid},
			{method: "DELETE", body: hidden, want: 400, code: invalid},
			{method: "GET", body: hidden, headers: override("POST"), want: 400, code: invalid},
			{body: hidden, headers: override("GET"), want: 200, code: 403},
		},
	}
}

// base64Of is a name as a header has it that holds other characters than ASCII.
func base64Of(name string) string {
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
}

// TestToolHeadersInOtherSpellings: a server that reads "_" and "." as "-" gets no header of another tool.
func TestToolHeadersInOtherSpellings(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	var headers []string
	for _, name := range []string{"Mcp-Name", "Mcp-Method"} {
		for _, spelling := range world.Spellings(name) {
			if strings.ContainsAny(spelling, "_.") {
				headers = append(headers, spelling, "delete_all")
			}
		}
	}
	g.each(t, message{body: call("search_notes", ""), headers: headers, want: 200}, func(world.Answer) {
		if got := g.up.One(t); len(got.Values("Mcp-Name"))+len(got.Values("Mcp-Method")) > 0 {
			t.Errorf("the server got %q", got)
		}
	})
}

// TestToolsAndFraming: what two programs could divide into messages differently reaches no server, and neither
// do upgrades. A trailer is no header.
func TestToolsAndFraming(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	hidden, permitted := call("delete_all", ""), call("search_notes", "")
	chunks := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(text), text) }
	length := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(text)) }
	send := func(text string) world.Answer {
		conn := g.Dial(t, "http/1.1")
		go func() { // the answer may come before the end of the request
			_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: "+g.access+
				"\r\nContent-Type: application/json\r\n"+text)
		}()
		return world.Must(world.ReadAnswer(bufio.NewReader(conn)))(t)
	}
	for name, text := range map[string]string{
		"a length and chunks": length(permitted) + "Transfer-Encoding: chunked\r\n\r\n" + chunks(hidden) + "\r\n",
		"two lengths":         length(permitted) + length(hidden) + "\r\n" + permitted,
		"another coding":      "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks(compressed(hidden)) + "\r\n",
		"an unknown coding":   "Transfer-Encoding: xchunked\r\n\r\n" + chunks(hidden) + "\r\n",
		"an upgrade": length(hidden) + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + hidden,
	} {
		if a := send(text); a.Status < 400 && codeOf(a) != 403 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		g.up.None(t)
	}
	for name, way := range g.ways {
		body := io.MultiReader(strings.NewReader(permitted))
		request := world.Must(http.NewRequestWithContext(t.Context(), "POST", g.Base+"/mcp", body))(t)
		request.Header = http.Header{"Authorization": {g.access}, "Content-Type": {world.TypeJSON}}
		request.Trailer = http.Header{"Mcp-Name": {"delete_all"}}
		a := world.Must(way.Do(request))(t)
		a.Body.Close()
		got := g.up.One(t)
		if a.StatusCode != 200 || got.Body != permitted || len(got.Values("Mcp-Name")) > 0 {
			t.Errorf("%s, with a trailer: %d, the server got %q", name, a.StatusCode, got)
		}
	}
}
