//go:build interop

package apps

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// houseMore is what the page's configuration needs to be a house with a bell, without the hundred
// integrations of default_config.
const houseMore = `frontend:
api:
webhook:
automation:
  - alias: Bell
    trigger: {platform: webhook, webhook_id: bell-0123456789abcdef, allowed_methods: [POST], local_only: false}
    action: {event: bell_rang, event_data: {who: "{{ trigger.json.who }}"}}
`

// housePhone is the account of who has a phone with a certificate.
const housePhone = "    - {username: alice@example.org, roles: [user], password_hash: \"" + world.BuilderHash + "\"}\n"

// TestHomeAssistant: alice sets Home Assistant up in her browser. Her phone has a certificate and no
// cookie, and uses its API and WebSocket with Home Assistant's own token. A visitor rings by a webhook.
// Home Assistant's own token alone opens nothing, and neither does a certificate without an account.
func TestHomeAssistant(t *testing.T) {
	t.Parallel()
	address := world.FreeAddress(t)
	startHomeAssistant(t, address)
	g, up := behindPage(t, "home-assistant.md", "home", address, housePhone)
	at := func(from string) world.Surfer { return world.Surf(t, from, world.Authority(g.Base), g.TLS().RootCAs) }
	stranger, browser, phone, unknown := at("127.0.0.1"), at("127.0.0.1"), at("127.0.0.9"), at("127.0.0.1")
	houseCarries(t, phone, g, "alice@example.org")
	houseCarries(t, unknown, g, "mallory@example.org")

	if a, _ := browser.SignIn(g.Base+"/", "alice"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>Home Assistant") {
		t.Fatalf("the page: %d %.300s", a.Status, a.Body)
	}
	access, refresh := houseSetUp(t, browser, g.Base)
	bearer := []string{"Authorization", "Bearer " + access}
	for name, v := range map[string]world.Surfer{"a stranger": stranger, "a certificate without an account": unknown} {
		for _, path := range []string{"/api/config", "/auth/providers", "/"} {
			a, _ := v.Visit("GET", g.Base+path+"?by=stranger", "", bearer...)
			world.WantStatus(t, path+", for "+name, a, http.StatusUnauthorized)
		}
		if _, status := openHouse(t, v, g.Base, "?by=stranger", access, ""); status != http.StatusUnauthorized {
			t.Errorf("the WebSocket, for %s: %d", name, status)
		}
	}
	a, _ := browser.Visit("GET", g.Base+"/api/config", "", bearer...)
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `"version":"2024.`) {
		t.Errorf("the API, for alice in her browser: %d %.300s", a.Status, a.Body)
	}
	if house, status := openHouse(t, browser, g.Base, "", access, g.Base); house == nil {
		t.Errorf("the WebSocket, for alice in her browser: %d", status)
	}
	a, _ = phone.Visit("GET", g.Base+"/api/", "")
	if a.Status != http.StatusUnauthorized || a.Body != "401: Unauthorized" {
		t.Errorf("the API, for a phone without Home Assistant's token: %d %.300s", a.Status, a.Body)
	}
	house := houseOfPhone(t, phone, g.Base, refresh)
	houseRings(t, house, stranger, g.Base)
	if up.Has("by=stranger") || up.Has("session_id=") || up.Has("203.0.113.9") {
		t.Error("a refused request, the session, or an address that the client made up reached Home Assistant")
	}
}

// startHomeAssistant starts Home Assistant with the configuration of its page.
func startHomeAssistant(t *testing.T, address string) {
	t.Helper()
	dir := t.TempDir()
	port := address[strings.LastIndexByte(address, ':')+1:]
	world.WriteAll(t, dir, map[string]string{"configuration.yaml": strings.TrimSpace(world.DocumentedFile(t,
		"docs/applications/home-assistant.md", "configuration.yaml")) + "\n  server_port: " + port + "\n" + houseMore})
	world.Launch(t, "http://"+address+"/onboarding.html", world.ShellIn(dir, nil,
		world.FindProgram(t, world.Path("e2e/homeassistant/venv/bin/python")),
		"-m", "homeassistant", "--config", dir, "--skip-pip"))
}

// houseCarries gives a browser a certificate that the gateway issues for a name.
func houseCarries(t *testing.T, v world.Surfer, g *world.Instance, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "phone.p12")
	issue := exec.Command(world.Program("authgate"), "certificates", "issue", "-c", filepath.Join(g.Dir, "config.yaml"),
		"--for", name, "--out", file)
	issue.Stdin = strings.NewReader("correct horse\n")
	runs(t, issue)
	pem := file + ".pem"
	runs(t, exec.Command("openssl", "pkcs12", "-in", file, "-passin", "pass:correct horse", "-nodes", "-out", pem))
	content := world.Must(os.ReadFile(pem))(t)
	v.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{
		world.Must(tls.X509KeyPair(content, content))(t)}
}

// houseSetUp makes the owner's account in Home Assistant as its page does, and returns tokens of it.
func houseSetUp(t *testing.T, v world.Surfer, base string) (access, refresh string) {
	t.Helper()
	if a, _ := v.Visit("GET", base+"/api/onboarding", ""); !strings.Contains(a.Body, `{"step":"user","done":false}`) {
		t.Fatalf("the steps to set up: %d %s", a.Status, a.Body)
	}
	account := world.Must(json.Marshal(map[string]string{"client_id": base + "/", "name": "Alice", "username": "alice",
		"password": "of-the-house-7", "language": "en"}))(t)
	a, _ := v.Visit("POST", base+"/api/onboarding/users", string(account), "Content-Type", world.TypeJSON,
		"Origin", base, "Sec-Fetch-Site", "same-origin")
	var made struct {
		Code string `json:"auth_code"`
	}
	world.NoError(t, json.Unmarshal([]byte(a.Body), &made))
	return houseTokens(t, v, base, url.Values{"grant_type": {"authorization_code"}, "code": {made.Code}},
		"Origin", base, "Sec-Fetch-Site", "same-origin")
}

// houseTokens asks Home Assistant for tokens.
func houseTokens(
	t *testing.T, v world.Surfer, base string, form url.Values, headers ...string,
) (access, refresh string) {
	t.Helper()
	form.Set("client_id", base+"/")
	a, _ := v.Visit("POST", base+"/auth/token", form.Encode(), append(headers, "Content-Type", world.TypeForm)...)
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal([]byte(a.Body), &tokens); err != nil || tokens.Access == "" {
		t.Fatalf("tokens of Home Assistant: %d %s", a.Status, a.Body)
	}
	return tokens.Access, tokens.Refresh
}

// houseOfPhone uses Home Assistant as the companion app does, by a certificate and its own token alone.
// The address that Home Assistant sees is the phone's.
func houseOfPhone(t *testing.T, phone world.Surfer, base, refresh string) *house {
	t.Helper()
	access, _ := houseTokens(t, phone, base, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}},
		"X-Forwarded-For", "203.0.113.9")
	a, _ := phone.Visit("GET", base+"/api/", "", "Authorization", "Bearer "+access)
	if a.Status != http.StatusOK || a.Body != `{"message":"API running."}` {
		t.Errorf("the API, for a phone: %d %s", a.Status, a.Body)
	}
	h, status := openHouse(t, phone, base, "", access, "")
	if h == nil {
		t.Fatalf("the WebSocket, for a phone: %d", status)
	}
	if tokens := h.call("auth/refresh_tokens", nil); !strings.Contains(tokens, `"last_used_ip":"127.0.0.9"`) {
		t.Errorf("the phone is at 127.0.0.9, and Home Assistant says %s", tokens)
	}
	return h
}

// houseRings rings the bell by its webhook, without a login, and hears it.
func houseRings(t *testing.T, h *house, visitor world.Surfer, base string) {
	t.Helper()
	world.Until(t, "the automation", func() bool {
		return strings.Contains(h.call("webhook/list", nil), `"bell-0123456789abcdef"`)
	})
	h.call("subscribe_events", map[string]any{"event_type": "bell_rang"})
	a, _ := visitor.Visit("POST", base+"/api/webhook/bell-0123456789abcdef", `{"who":"the hatter"}`,
		"Content-Type", world.TypeJSON)
	if a.Status != http.StatusOK {
		t.Fatalf("the bell: %d %.300s", a.Status, a.Body)
	}
	if event := h.read("event"); !strings.Contains(event, `"data":{"who":"the hatter"}`) {
		t.Errorf("the bell: %s", event)
	}
}

// house is the WebSocket of Home Assistant.
type house struct {
	t      *testing.T
	socket *websocket.Conn
	calls  int
}

// openHouse opens the WebSocket and signs in with a token of Home Assistant. Without a WebSocket it
// returns nil and the status. A browser sends an origin, and the companion app none.
func openHouse(t *testing.T, v world.Surfer, base, query, token, origin string) (h *house, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	o := websocket.DialOptions{HTTPClient: v.Client}
	if origin != "" {
		o.HTTPHeader = http.Header{"Origin": {origin}}
	}
	socket, answer, err := websocket.Dial(ctx, base+"/api/websocket"+query, &o)
	if answer == nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil, answer.StatusCode
	}
	t.Cleanup(func() { _ = socket.CloseNow() }) // it may be closed
	socket.SetReadLimit(-1)
	h = &house{t: t, socket: socket}
	h.read("auth_required")
	world.NoError(t, wsjson.Write(ctx, socket, map[string]string{"type": "auth", "access_token": token}))
	h.read("auth_ok")
	return h, answer.StatusCode
}

// call sends a command, and returns its result.
func (h *house) call(command string, arguments map[string]any) string {
	h.t.Helper()
	h.calls++
	message := map[string]any{"id": h.calls, "type": command}
	for name, value := range arguments {
		message[name] = value
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), world.Patience)
	defer cancel()
	world.NoError(h.t, wsjson.Write(ctx, h.socket, message))
	result := h.read("result")
	if !strings.Contains(result, `"success":true`) {
		h.t.Fatalf("%s: %s", command, result)
	}
	return result
}

// read returns the next message, which must be of a type.
func (h *house) read(kind string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), world.Patience)
	defer cancel()
	_, message, err := h.socket.Read(ctx)
	world.NoError(h.t, err)
	if !strings.Contains(string(message), `"type":"`+kind+`"`) {
		h.t.Fatalf("Home Assistant says %s instead of %s", message, kind)
	}
	return string(message)
}
