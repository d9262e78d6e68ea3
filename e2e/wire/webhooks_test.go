package wire

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"authgate/e2e/world"
)

const (
	hookSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	anotherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// hookReceiver is a receiver of webhooks with a certificate of its own, which verifies with the library.
type hookReceiver struct {
	*httptest.Server
	secrets []string

	mu     sync.Mutex
	status int // 0: it does not answer
	ids    []string
	events []map[string]any
}

func newHookReceiver(t *testing.T, secrets ...string) *hookReceiver {
	h := &hookReceiver{secrets: secrets, status: http.StatusNoContent}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		h.mu.Lock()
		status := h.status
		if status != 0 {
			h.take(t, r, body)
		}
		h.mu.Unlock()
		if status == 0 {
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // an answer may still reach a client that closes its connection
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(h.Server.Close)
	return h
}

// take verifies a request and keeps its event.
func (h *hookReceiver) take(t *testing.T, r *http.Request, body []byte) {
	for _, secret := range h.secrets {
		verifier, err := webhooks.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			t.Errorf("the library refuses %s with %s: %v", body, secret, err)
		}
	}
	var event struct {
		Type      string
		Timestamp time.Time
		Data      map[string]any
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&event); err != nil || event.Type != "audit."+event.Data["event"].(string) ||
		time.Since(event.Timestamp) > world.Patience || r.Method != "POST" || r.RequestURI != "/hook?token=hidden" {
		t.Errorf("%s %s has %s: %v", r.Method, r.URL, body, err)
	}
	h.ids, h.events = append(h.ids, r.Header.Get("webhook-id")), append(h.events, event.Data)
}

// answers changes the status of the receiver.
func (h *hookReceiver) answers(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// wait waits for n events, and returns them with their ids.
func (h *hookReceiver) wait(t *testing.T, n int) (ids []string, events []map[string]any) {
	t.Helper()
	world.Until(t, "the events", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		ids, events = slices.Clone(h.ids), slices.Clone(h.events)
		return len(events) >= n
	})
	if len(events) > n {
		t.Fatalf("%d events, want %d: %v", len(events), n, events)
	}
	return ids, events
}

// configure writes the authority of the receiver, its URL, and a configuration with the webhook, and returns it.
func (h *hookReceiver) configure(t *testing.T, g *world.Instance, up, more string) string {
	t.Helper()
	g.Write("roots.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})))
	g.Write("hook.url", h.URL+"/hook?token=hidden\n")
	config := world.People + world.App(up) + "policies: {admin: {roles: [admin]}}\n" +
		"routes: [{match: /, upstream: app, auth: [session, bearer], policy: admin}]\n" +
		"webhooks: [{name: ops, url_file: hook.url, trusted_roots: roots.pem" + more + "}]\n"
	g.Configure(config)
	return config
}

// Events arrive as Standard Webhooks has it, signed by each secret, with the fields of the log: those that the
// webhook lists, and after a reload others. What fails comes again with the same id, and the URL is not logged.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	h, up, g := newHookReceiver(t, hookSecret, anotherSecret), world.Record(t), world.Prepare(t)
	const secrets = ", secrets: [" + hookSecret + ", " + anotherSecret + "]"
	config := h.configure(t, g, up.URL, secrets+", events: [login, denied]")
	g.Run()
	bob := g.SignIn(g.Stranger(), "bob")
	g.Status(g.Stranger(), "GET", "/", "Authorization", bob.Access)
	_, events := h.wait(t, 2)
	for i, want := range []string{"login", "denied"} {
		var logged map[string]any
		for line := range strings.Lines(g.Log.String()) {
			if strings.Contains(line, `"event":"`+want+`"`) {
				world.NoError(t, json.Unmarshal([]byte(line), &logged))
			}
		}
		for _, head := range []string{"time", "level", "msg"} {
			delete(logged, head)
		}
		if !maps.EqualFunc(events[i], logged, func(a, b any) bool { return a == b }) || events[i]["subject"] != "local:bob" {
			t.Errorf("the event %v, the log %v", events[i], logged)
		}
	}

	h.answers(http.StatusServiceUnavailable)
	g.SignIn(g.Stranger(), "bob")
	ids, _ := h.wait(t, 3)
	g.Configure(strings.Replace(config, "login, denied", "reloaded", 1))
	h.answers(http.StatusOK)
	g.Signal(syscall.SIGHUP)
	world.Until(t, "a second try, and the event of the reload", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.ids) >= 5
	})
	again, events := h.wait(t, 5)
	last := slices.Index(again[3:], ids[2])
	if last < 0 || events[3+last]["event"] != "login" || events[4-last]["event"] != "reloaded" {
		t.Errorf("the ids %q, the events %v", again, events)
	}
	world.Until(t, "the counter", func() bool {
		return g.Scrape(t)[`authgate_webhooks_total{name="ops",result="sent"}`] == 4
	})
	if log := g.Log.String(); strings.Contains(log, "hidden") || strings.Contains(log, "/hook") ||
		strings.Count(log, `"msg":"a webhook failed"`) != 1 ||
		!strings.Contains(log, `"name":"ops","host":"`+filepath.Base(h.URL)+`","reason":"the answer has the status 503"`) {
		t.Errorf("the log:\n%s", log)
	}
	g.Signal(syscall.SIGTERM)
	g.Ends(world.Patience)
}

// A receiver that hangs delays neither requests nor a reload, and a stop for two seconds. The log says how many
// events are lost.
func TestWebhookHangs(t *testing.T) {
	t.Parallel()
	h, up, g := newHookReceiver(t, hookSecret), world.Record(t), world.Prepare(t)
	config := h.configure(t, g, up.URL, ", secret: "+hookSecret)
	h.answers(0)
	g.Run()
	for range 3 {
		g.SignIn(g.Stranger(), "alice")
	}
	g.Configure(config + "limits: {login_failures: 11}\n")
	g.Signal(syscall.SIGHUP)
	world.Until(t, "the reload", func() bool { return strings.Contains(g.Log.String(), `"msg":"reloaded"`) })
	start := time.Now()
	g.Signal(syscall.SIGTERM)
	g.Ends(world.Patience)
	if took := time.Since(start); took > 10*time.Second { // the timeout of a webhook is 15 s
		t.Errorf("the stop took %v", took)
	}
	const lost = `"events for a webhook are lost: the gateway stops, or has this webhook no more","name":"ops","host":"`
	if !strings.Contains(g.Log.String(), lost+filepath.Base(h.URL)+`","events":4}`) {
		t.Errorf("the log:\n%s", g.Log)
	}
}
