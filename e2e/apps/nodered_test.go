//go:build interop

package apps

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// nodeRedFlows greet the user at /tea, and answer at /hooks/bell.
const nodeRedFlows = `[{"id":"f","type":"tab","label":"Tea"},
{"id":"a","type":"http in","z":"f","url":"/tea","method":"get","wires":[["b"]]},
{"id":"b","type":"template","z":"f","field":"payload","template":"tea for {{req.headers.x-auth-user}}","wires":[["e"]]},
{"id":"c","type":"http in","z":"f","url":"/hooks/bell","method":"get","wires":[["d"]]},
{"id":"d","type":"template","z":"f","field":"payload","template":"ding {{req.headers.x-auth-user}}","wires":[["e"]]},
{"id":"e","type":"http response","z":"f","wires":[]}]`

// TestNodeRED: an administrator opens the editor with its WebSocket, and deploys flows. Users open
// the page of one, everybody rings the bell of the other, and no user opens the editor.
func TestNodeRED(t *testing.T) {
	t.Parallel()
	program := world.Path("e2e/nodered/node_modules/node-red/red.js")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("Node-RED is not installed, run make interop: %v", err)
	}
	dir, address := t.TempDir(), world.FreeAddress(t)
	world.WriteAll(t, dir, map[string]string{"settings.js": world.Substituted(t,
		world.DocumentedFile(t, "docs/applications/node-red.md", "settings.js"), "1880",
		address[strings.LastIndexByte(address, ':')+1:])})
	world.Launch(t, "http://"+address+"/admin/", world.ShellIn(dir, nil, "node", program, "--settings",
		"settings.js", "--userDir", dir))
	g, up := behindPage(t, "node-red.md", "nodered", address, policiesOfPages)
	admin := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, _ := admin.SignIn(g.Base+"/admin/", "alice"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>Node-RED") {
		t.Fatalf("the editor: %d %.300s", a.Status, a.Body)
	}
	a, _ := admin.Visit("POST", g.Base+"/admin/flows", nodeRedFlows, "Content-Type", world.TypeJSON, "Origin", g.Base,
		"Sec-Fetch-Site", "same-origin")
	world.WantStatus(t, "new flows", a, http.StatusNoContent)
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, g.Base+"/admin/comms",
		&websocket.DialOptions{HTTPClient: admin.Client, HTTPHeader: http.Header{"Origin": {g.Base}}})
	world.NoError(t, err)
	if _, _, err := socket.Read(ctx); err != nil {
		t.Errorf("the editor's WebSocket says nothing: %v", err)
	}
	_ = socket.CloseNow() // it may be closed
	user := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, _ := user.SignIn(g.Base+"/tea", "bob"); a.Body != "tea for bob" {
		t.Errorf("the page of a flow: %d %s", a.Status, a.Body)
	}
	a, _ = user.Visit("GET", g.Base+"/admin/flows?by=bob", "")
	world.WantStatus(t, "the editor, for bob", a, http.StatusForbidden)
	if status, body := curl(t, g, "-H", "X-Auth-User: alice", g.Base+"/hooks/bell"); status != "200" ||
		body != "ding " {
		t.Errorf("the bell: %s %s", status, body)
	}
	if status, body := curl(t, g, g.Base+"/tea?by=stranger"); status != "401" {
		t.Errorf("the page of a flow, without a login: %s %s", status, body)
	}
	if up.Has("by=stranger") || up.Has("by=bob") || up.Has("session_id=") {
		t.Error("a refused request, or the session, reached Node-RED")
	}
}
