package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/proxy/streams"
	ownrig "authgate/internal/test/rig"
)

// toolsConfig has routes for MCP servers.
const toolsConfig = baseConfig + `
  - {match: /mcp, name: tools, upstream: app, auth: [bearer], policy: searching, mcp: true}
  - {match: /small, name: small, upstream: app, auth: [bearer], mcp: true, max_body: 100}
  - {match: /open, upstream: app, auth: [bearer, none], policy: {mcp: {tools: ["search_*"]}}, mcp: true}
  - {match: /staff, name: staff, upstream: app, auth: [bearer, none], policy: {roles: [user]}, mcp: true}
`

// searching lets users search, and everything else but tools.
const searching = `  searching: {roles: [user], mcp: {tools: ["search_*", get_page], methods: ["*", "!logging/*"]}}
`

func newToolsRig(t *testing.T) (r *rig, alice string) {
	t.Helper()
	r = newRig(t, edit(t, toolsConfig, "routes:\n", searching+"routes:\n"))
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) { // with the body that it got
		var body []byte
		if q.Body != nil {
			var err error
			if body, err = io.ReadAll(q.Body); err != nil {
				return nil, err
			}
		}
		return response(q, http.StatusOK, http.Header{}, string(body)), nil
	}
	return r, r.login(aliceIn).bearer
}

// call is a message that calls a tool.
func call(tool string) string {
	const text = `{"jsonrpc":"2.0","id":"n 1","method":"tools/call","params":{"name":%q,"arguments":{"a":1.0}}}`
	return fmt.Sprintf(text, tool)
}

// wantRPC fails the test unless an answer is an error of JSON-RPC.
func wantRPC(t *testing.T, body []byte, header http.Header, code int, id, text string) {
	t.Helper()
	var answer struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Version != "2.0" || string(answer.ID) != id ||
		answer.Error.Code != code || !strings.Contains(answer.Error.Message, text) {
		t.Errorf("got %s, %v; want code %d, id %s and %q", body, err, code, id, text)
	}
	if got := header.Get("Content-Type"); got != "application/json" {
		t.Errorf("the type is %q", got)
	}
}

// A message that no list refuses reaches the upstream byte for byte, and its answer the client.
func TestMessagePasses(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	for _, body := range []string{
		call("search_all"), call("get_page"), "\n " + call("search_\n") + "\t\r\n",
		`{"params":{"x":1E+400,"y":"\u0041\/"},"id":-0,"method":"initialize","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":7,"result":{"_meta":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"filler":"` + strings.Repeat("x", 200_000) + `"}}`,
	} {
		for _, media := range []string{jsonType, jsonType + "; charset=utf-8", jsonType + `;charset="UTF-8"`} {
			if w := r.want(200, "POST", "/mcp", body, alice, media); w.Body.String() != body {
				t.Errorf("%.200q is forwarded as %.200q", body, w.Body)
			}
		}
	}
	for _, method := range []string{"GET", "DELETE", "OPTIONS"} {
		r.want(200, method, "/mcp", "", alice)
	}
}

// Messages at the same time do not share the memory of their bodies, however long they are and however they come.
func TestMessagesAtOnce(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, edit(t, toolsConfig, "routes:\n", searching+"routes:\n"),
		func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			_, _ = w.Write(body)
		})
	_, alice, _ := strings.Cut(r.login(aliceIn).bearer, ": ")
	var clients sync.WaitGroup
	for n := range 8 {
		clients.Go(func() {
			for i := range 40 {
				body := strings.ReplaceAll(call("search_x"), "1.0", strings.Repeat(strconv.Itoa(n+1), 1+i*i*20))
				q := httptest.NewRequest("POST", "/mcp", strings.NewReader(body))
				q.Host = "gw.example"
				if i%4 == 0 {
					q.ContentLength = -1
				}
				q.Header = http.Header{"Authorization": {alice}, "Content-Type": {"application/json"}}
				if w := r.serve(q); w.Code != 200 || w.Body.String() != body {
					t.Errorf("%.120s is forwarded as %.120s, %d", body, w.Body, w.Code)
					return
				}
			}
		})
	}
	clients.Wait()
}

// A refused message gets an answer that the agent sees, and is forbidden in log, metrics and audit events.
func TestMessageRefused(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	long := strings.Repeat("\u00e9", 127) + "\u202e\u00e9"
	for _, c := range []struct{ body, id, text, method, name string }{
		{call("delete_all"), `"n 1"`, `The tool "delete_all" is not allowed.`, "tools/call", "delete_all"},
		{call("SEARCH_x"), `"n 1"`, `The tool "SEARCH_x" is`, "tools/call", "SEARCH_x"},
		{call("a\tb"), `"n 1"`, `The tool "a\tb" is`, "tools/call", `a\tb`},
		{call(long), `"n 1"`, `The tool "` + long[:2*127] + `\u202e" is`, "tools/call", long[:2*127] + `\u202e`},
		{`{"jsonrpc":"2.0","id":1e2,"method":"logging/a"}`, "1e2", `The method "logging/a"`, "logging/a", ""},
	} {
		r.log.Reset()
		before := r.sample("authgate_requests_total", "route=tools", "decision=forbid")
		reached := r.upstream.Reached()
		w := r.want(200, "POST", "/mcp", c.body, alice, jsonType, "Accept: text/html")
		wantRPC(t, w.Body.Bytes(), w.Header(), 403, c.id, c.text)
		if r.upstream.Reached() != reached {
			t.Errorf("%s reached the upstream", c.body)
		}
		if r.sample("authgate_requests_total", "route=tools", "decision=forbid") != before+1 {
			t.Errorf("%s is not counted as forbidden", c.body)
		}
		for _, line := range []map[string]any{r.log.Last(t, "request"), r.log.Last(t, "audit")} {
			name, _ := line["mcp_name"].(string)
			reason := fmt.Sprint(line["reason"])
			if line["mcp_method"] != c.method || name != c.name || !strings.Contains(reason, "policy searching: mcp.") {
				t.Errorf("%s: %v", c.body, line)
			}
			if strings.Contains(fmt.Sprint(line), "arguments") {
				t.Errorf("arguments are logged: %v", line)
			}
		}
		if line := r.log.Last(t, "request"); line["decision"] != "forbid" || line["status"] != 200.0 {
			t.Errorf("%v", line)
		}
	}
	w := r.want(403, "POST", "/mcp", `{"jsonrpc":"2.0","method":"logging/x"}`, alice, jsonType)
	if !strings.Contains(w.Body.String(), `"status":403`) {
		t.Errorf("a message without an id: %s", w.Body)
	}
	r.want(403, "POST", "/mcp", `{"jsonrpc":"2.0","id":null,"method":"logging/x"}`, alice, jsonType)
}

// What is no message, or can be read in two ways, reaches no upstream.
func TestMessageMalformed(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	good := call("search_x")
	for _, c := range []struct {
		status       int
		method, body string
		header       []string
		code         int // 0: no JSON-RPC
		id           string
	}{
		{400, "POST", "", nil, -32700, "null"},
		{400, "POST", "{", nil, -32700, "null"},
		{400, "POST", "[" + good + "]", nil, -32600, "null"},
		{400, "POST", strings.Replace(good, `"name"`, `"name":"get_page","name"`, 1), nil, -32600, `"n 1"`},
		{400, "POST", strings.Replace(good, `"name"`, `"Name":"delete_all","name"`, 1), nil, -32600, `"n 1"`},
		{400, "POST", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}`, nil, -32600, "3"},
		{400, "POST", good, []string{"Mcp-Name: delete_all"}, -32020, `"n 1"`},
		{400, "POST", good, []string{"Mcp-Method: tools/call", "Mcp-Method: tools/call"}, -32020, `"n 1"`},
		{400, "GET", "", []string{"Mcp-Method: ping", "Mcp-Method: ping"}, -32020, "null"},
		{400, "GET", good, nil, -32600, "null"},
		{400, "DELETE", good, nil, -32600, "null"},
		{400, "OPTIONS", good, nil, -32600, "null"},
		{405, "PUT", good, nil, 0, ""}, {405, "HEAD", "", nil, 0, ""}, {405, "PATCH", good, nil, 0, ""},
		{405, "MOVE", "", nil, 0, ""},
	} {
		w := r.want(c.status, c.method, "/mcp", c.body, append(c.header, alice, jsonType)...)
		if c.code != 0 {
			wantRPC(t, w.Body.Bytes(), w.Header(), c.code, c.id, "")
		} else if allow := w.Header().Get("Allow"); allow != "GET, POST, DELETE, OPTIONS" {
			t.Errorf("%s: Allow is %q", c.method, allow)
		}
	}
	for _, header := range [][]string{
		{}, {"Content-Type: text/plain"}, {jsonType, jsonType}, {jsonType + "; charset=utf-16"}, {jsonType + "; x=y"},
		{jsonType + "; charset=utf-8; x=y"}, {"Content-Type: application/json+x"}, {jsonType, "Content-Encoding: gzip"},
		{jsonType, "Content-Encoding: identity"}, {jsonType, "Content-Encoding: "},
		{jsonType + "; charset=utf-7; charset*0=utf-8"}, {jsonType + "; charset=utf-7; charset*=utf-8''utf-8"},
		{jsonType + "; charset*=utf-7''utf-8"},
	} {
		w := r.want(415, "POST", "/mcp", good, append(header, alice)...)
		if !strings.Contains(w.Body.String(), `"status":415`) {
			t.Errorf("%q: %s", header, w.Body)
		}
	}
	for _, line := range r.log.Records(t, "request")[1:] { // the first is the login
		if line["subject"] != "local:alice" || line["mechanism"] != "bearer" {
			t.Errorf("the log does not say whose message it was: %v", line)
		}
	}
}

// A message has a bound, that of max_body or of 4 MiB, and the client learns it as soon as the gateway does.
func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	of := func(size int) string {
		const empty = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""}}`
		return strings.Replace(empty, `""`, `"`+strings.Repeat("x", size-len(empty))+`"`, 1)
	}
	for path, most := range map[string]int{"/mcp": 4 << 20, "/small": 100} {
		for _, length := range []int64{0, -1} { // 0: as it is
			send := func(status, size int) {
				q := request("POST", path, of(size), alice, jsonType)
				if length < 0 {
					q.ContentLength = -1
				}
				w := r.wantOf(status, q)
				if status == 413 {
					wantRPC(t, w.Body.Bytes(), w.Header(), -32600, "null", fmt.Sprint(most))
				}
			}
			send(200, most)
			send(413, most+1)
		}
	}
	q := request("POST", "/mcp", "", alice, jsonType)
	q.ContentLength, q.Body = 4<<20+1, io.NopCloser(unreadable{t})
	r.wantOf(413, q)
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

// Read implements io.Reader.
func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.ErrUnexpectedEOF
}

// Without a credential the answer is 401, whatever was sent, and the body is not read.
func TestMessageOfNobody(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	for _, path := range []string{"/mcp", "/staff"} {
		for _, method := range []string{"POST", "PUT", "GET"} {
			for _, header := range [][]string{{}, {jsonType}, {jsonType, "Mcp-Name: x", "Mcp-Name: y"}} {
				q := request(method, path, "", header...)
				q.ContentLength, q.Body = -1, io.NopCloser(unreadable{t})
				r.wantOf(401, q)
			}
		}
	}
	r.want(401, "POST", "/mcp", "{", "Authorization: Bearer wrong", jsonType)
	r.want(200, "POST", "/open", call("search_x"), jsonType)
	r.want(401, "POST", "/open", call("delete_all"), jsonType)
	r.want(400, "POST", "/open", "{", jsonType)
	w := r.want(200, "POST", "/open", call("delete_all"), jsonType, alice)
	wantRPC(t, w.Body.Bytes(), w.Header(), 403, `"n 1"`, "delete_all")
	r.want(200, "POST", "/staff", call("delete_all"), jsonType, alice)
}

// Refusals by other conditions have the usual body.
func TestMessageOfAnotherUser(t *testing.T) {
	t.Parallel()
	admins := strings.Replace(searching, "user", "admin", 1)
	r := newRig(t, edit(t, toolsConfig, "routes:\n", admins+"routes:\n"))
	bob := r.login(bobIn).bearer
	for _, tool := range []string{"search_x", "delete_all"} {
		w := r.want(403, "POST", "/mcp", call(tool), bob, jsonType)
		if !strings.Contains(w.Body.String(), `"status":403`) {
			t.Errorf("%s: %s", tool, w.Body)
		}
	}
}

// The headers that repeat a part of the message reach the upstream in their own spelling alone, and no upgrade
// does.
func TestMessageHeaders(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	r.want(200, "POST", "/mcp", call("search_x"), alice, jsonType, "Mcp-Method: tools/call", "Mcp-Name: search_x",
		"Mcp_Name: delete_all", "Mcp.Method: x", "Mcp-Protocol_Version: x", "Mcp-Session-Id: s", "Expect: 100-continue")
	h := r.upstream.Last().Header
	for name := range h {
		if strings.HasPrefix(name, "Mcp") && name != "Mcp-Method" && name != "Mcp-Name" && name != "Mcp-Session-Id" {
			t.Errorf("%s reached the upstream", name)
		}
	}
	if h.Get("Mcp-Name") != "search_x" || h.Get("Mcp-Method") != "tools/call" || h.Get("Mcp-Session-Id") != "s" ||
		h.Get("Expect") != "" {
		t.Errorf("the upstream got %q", h)
	}
	r.want(200, "GET", "/mcp", "", append(append([]string{alice}, ownrig.WebSocket...), ownrig.Handshake...)...)
	if h := r.upstream.Last().Header; h.Get("Upgrade") != "" {
		t.Errorf("the upstream got %q", h)
	}
}

// A proxy that asks does not tell the message, so the answer is 403 with any credential, and the log says why.
func TestVerifyMessage(t *testing.T) {
	t.Parallel()
	yaml := edit(t, toolsConfig, "routes:\n", searching+"routes:\n") +
		"  - {match: /shared, upstream: app, auth: [bearer], mcp: true, cors: {preflight: application}}\n" +
		"listen: {trusted_proxies: [10.0.0.0/8]}\n"
	r := newRig(t, yaml)
	alice := r.login(aliceIn).bearer
	for _, path := range []string{"/mcp", "/shared"} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			for _, credential := range []string{"", alice} {
				r.log.Reset()
				r.asks(403, asTraefik(method, "gw.example", path), credential, "Origin: https://gw.example",
					"Access-Control-Request-Method: POST")
				line := r.log.Last(t, "request")
				why := fmt.Sprint(line["reason"], line["error"])
				if !strings.Contains(why, "mcp: true") || line["decision"] != "forbid" {
					t.Errorf("%s %s: %v", method, path, line)
				}
			}
		}
	}
}

// A token that lacks a scope for its message and nothing else is told of the scope, also in the answer to
// the message. A tool that no scope opens is refused as any other.
func TestMessageLacksScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, ownrig.OAuthConfig, "routes:\n", `routes:
  - match: /mcp/
    upstream: app
    auth: [bearer]
    mcp: true
    policy:
      any: [{roles: [ops]}, {scopes: [read], mcp: {tools: ["get_*"]}}, {scopes: [write], mcp: {tools: ["set_*"]}}]
`))
	read := r.client.Credentials("read", "https://gw.example:8443/mcp/")
	send := func(status int, body string) *httptest.ResponseRecorder {
		q := request("POST", "/mcp/", body, jsonType, read)
		q.Host = "gw.example:8443"
		return r.wantOf(status, q)
	}
	send(200, call("get_x"))
	w := send(403, call("set_x"))
	wantRPC(t, w.Body.Bytes(), w.Header(), 403, `"n 1"`, `The tool "set_x" is not allowed. The token lacks a scope`)
	challenge := w.Header().Get("WWW-Authenticate")
	for _, part := range []string{`error="insufficient_scope"`, `scope="read write"`, "resource_metadata="} {
		if !strings.Contains(challenge, part) {
			t.Errorf("the challenge is %s", challenge)
		}
	}
	w = send(200, call("delete_all"))
	wantRPC(t, w.Body.Bytes(), w.Header(), 403, `"n 1"`, "delete_all")
}

// The body may pause as long as limits.body_pause says, and is counted as the client's fault otherwise.
func TestMessagePauses(t *testing.T) {
	t.Parallel()
	yaml := edit(t, toolsConfig, "routes:\n", searching+"routes:\n") + "limits: {body_pause: 5s}\n"
	listeningWith(t, yaml, func(t *testing.T, r *rig, dial func() net.Conn) {
		alice, body := r.login(aliceIn).bearer, call("search_x")
		head := "POST /mcp HTTP/1.1\nHost: gw.example\n" + alice + "\n" + jsonType
		head += fmt.Sprintf("\nContent-Length: %d\n\n", len(body))
		for status, pause := range map[int]time.Duration{200: 4 * time.Second, 408: 6 * time.Second} {
			before, client := r.upstream.Reached(), dial()
			ownrig.SendLater(client, pause, body[20:])
			answer := ownrig.Ask(t, client, head+body[:20])
			if reached := r.upstream.Reached() - before; answer.StatusCode != status || reached > 0 != (status == 200) {
				t.Errorf("after %v: %d, %d requests reached the upstream", pause, answer.StatusCode, reached)
			}
		}
	})
}

// A message that comes half a second after its request, and after the login has ended or a reload that refuses it, does
// not reach the upstream.
func TestMessageLate(t *testing.T) {
	t.Parallel()
	yaml := edit(t, toolsConfig, "routes:\n", searching+"routes:\n")
	other := strings.Replace(yaml, `"search_*", get_page`, "other", 1)
	listeningWith(t, yaml, func(t *testing.T, r *rig, dial func() net.Conn) {
		logout := func(alice string) { r.want(200, "POST", "/logout", "", alice) }
		refuse := func(string) { r.mustReload(other) }
		for _, c := range []struct {
			status    int
			late      time.Duration
			meanwhile func(alice string)
		}{
			{200, lateMessage, func(string) {}}, {401, lateMessage, logout}, {403, lateMessage, refuse},
			{200, lateMessage - 1, refuse}, // it is judged as it began
		} {
			r.mustReload(yaml)
			alice, body := r.login(aliceIn).bearer, call("search_x")
			head := "POST /mcp HTTP/1.1\nHost: gw.example\n" + alice + "\n" + jsonType
			head += fmt.Sprintf("\nContent-Length: %d\n\n", len(body))
			before, client := r.upstream.Reached(), dial()
			time.AfterFunc(time.Second, func() {
				c.meanwhile(alice)
				r.clock.Advance(c.late)
			})
			ownrig.SendLater(client, 2*time.Second, body[20:])
			answer := ownrig.Ask(t, client, head+body[:20])
			if reached := r.upstream.Reached() - before; answer.StatusCode != c.status || reached > 0 != (c.status == 200) {
				t.Errorf("want %d: %d, %d requests reached the upstream", c.status, answer.StatusCode, reached)
			}
		}
		for _, reason := range []string{`access token: revoked"`, `mcp.tools: needs a tool that matches other"`} {
			if n := strings.Count(r.log.String(), reason); n != 2 {
				t.Errorf("the reason %s is in %d lines, want one of the access log and one of audit", reason, n)
			}
		}
	})
}

// A request that goes on ends when a reload refuses its message. One whose message the gateway did not read
// does not go on where mcp decides.
func TestMessageRecheck(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	check := func(method, path, body string) error {
		ex := r.begin(httptest.NewRecorder(), request(method, path, body, alice, jsonType))
		defer ex.finish()
		if err := ex.serve(); err != nil {
			t.Fatal(err)
		}
		if err := ex.Check(t.Context()); err != nil {
			t.Errorf("before the reload: %v", err)
		}
		other := strings.Replace(searching, `"search_*", get_page`, "other", 1)
		r.mustReload(edit(t, toolsConfig, "routes:\n", other+"routes:\n") +
			"  - {match: /any/mcp, upstream: app, auth: [bearer], policy: searching, mcp: true}\n")
		defer r.mustReload(edit(t, toolsConfig, "routes:\n", searching+"routes:\n"))
		return ex.Check(t.Context())
	}
	for _, c := range []struct{ method, path, body, reason string }{
		{"POST", "/mcp", call("search_x"), "mcp.tools"},
		{"POST", "/any/mcp", call("other"), "mcp: true"}, // its message was not read
		{"GET", "/any/mcp", "", "mcp: true"},             // it may be a WebSocket
	} {
		ended, ok := errors.AsType[*streams.Ended](check(c.method, c.path, c.body))
		if !ok || !strings.Contains(ended.Reason, c.reason) {
			t.Errorf("%s %s: %v", c.method, c.path, ended)
		}
	}
}

// A resource that another request names is at no MCP server: its message would not be known.
func TestMessageNamed(t *testing.T) {
	t.Parallel()
	r, alice := newToolsRig(t)
	w := r.want(400, "POST", "/mcp", call("search_x"), alice, jsonType, "Destination: https://elsewhere.example/x")
	wantRPC(t, w.Body.Bytes(), w.Header(), -32600, `"n 1"`, "")
	r.want(403, "MOVE", "/bearer/x", "", alice, "Destination: https://gw.example/small")
	r.want(200, "MOVE", "/bearer/x", "", alice, "Destination: https://gw.example/bearer/y")
}
