package examples

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"

	"authgate/e2e/world"
)

const webhooksPage = "docs/how-to/webhooks.md"

// inbox has the messages that a receiver of the test got.
type inbox struct {
	mu    sync.Mutex
	texts []string
}

func (b *inbox) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts = append(b.texts, text)
}

// wait waits for a message with that index, and returns it.
func (b *inbox) wait(t *testing.T, index int) (text string) {
	t.Helper()
	world.Until(t, "a message", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.texts) > index {
			text = b.texts[index]
		}
		return text != ""
	})
	return text
}

// expect waits for a message with that index, and compares it.
func (b *inbox) expect(t *testing.T, index int, want string) {
	t.Helper()
	if got := b.wait(t, index); got != want {
		t.Errorf("message %d is %q, want %q", index, got, want)
	}
}

// ntfy plays ntfy: the templates t and m of the query make a message of the body.
func ntfy(t *testing.T, phone *inbox) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/gate" || r.FormValue("tpl") != "1" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		var text strings.Builder
		for _, name := range []string{"t", "m"} {
			one, err := template.New(name).Parse(r.FormValue(name))
			if err == nil {
				err = one.Execute(&text, body)
			}
			if err != nil {
				t.Errorf("the template %q: %v", r.FormValue(name), err)
			}
			text.WriteString("|")
		}
		phone.add(text.String())
		w.WriteHeader(http.StatusOK)
	}
}

// TestHowToWebhooks runs the page: its secrets, its configuration, its program, with an ntfy and a chat of the test.
// What is not signed reaches no chat.
func TestHowToWebhooks(t *testing.T) {
	t.Parallel()
	phone, chat := &inbox{}, &inbox{}
	telephone := world.Serve(t, ntfy(t, phone))
	room := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Errorf("the chat gets %v", err)
		}
		chat.add(message.Text)
		_, _ = io.WriteString(w, "ok")
	})
	g := world.Prepare(t)
	port := world.FreePort(t)
	var fragment string
	for _, b := range world.ReadDocument(t, webhooksPage).Blocks {
		switch b.Info {
		case "sh":
			cmd := exec.Command("sh", "-ec", b.Text())
			cmd.Dir = g.Dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		case "yaml fragment":
			fragment = world.Substituted(t, b.Text(), "http://127.0.0.1:8095/", "http://127.0.0.1:"+port+"/")
		}
	}
	g.Write("phone.url", world.Substituted(t, world.DocumentedFile(t, webhooksPage, "phone.url"),
		"https://ntfy.example.org", telephone))
	g.Write("chat.py", world.DocumentedFile(t, webhooksPage, "chat.py"))
	program := exec.Command(world.FindProgram(t, "python3"), filepath.Join(g.Dir, "chat.py"))
	program.Dir, program.Env = g.Dir, append(os.Environ(), "CHAT_URL="+room, "PORT="+port)
	world.Spawn(t, program)
	world.Until(t, "the program", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil && conn.Close() == nil
	})
	g.Configure(world.People + world.App(world.Record(t).URL) + fragment +
		"policies: {admin: {roles: [admin]}}\nroutes: [{match: /, upstream: app, auth: [session, bearer], policy: admin}]\n")
	g.Run()
	bob := g.SignIn(g.Stranger(), "bob")
	phone.expect(t, 0, "audit.login|local:bob from 127.0.0.1|")
	_, _, _ = g.TrySignIn(g.Stranger(), "stranger", "guess")
	phone.expect(t, 1, "audit.login|from 127.0.0.1: failure|")
	forged, err := http.NewRequest("POST", "http://127.0.0.1:"+port+"/", strings.NewReader(`{"data":{"event":"forged"}}`))
	world.NoError(t, err)
	forged.Header = http.Header{"Webhook-Id": {"x"}, "Webhook-Timestamp": {"1"}, "Webhook-Signature": {"v1,eA=="}}
	answer := world.Must(http.DefaultClient.Do(forged))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged event: %d", answer.StatusCode)
	}
	g.Status(g.Stranger(), "GET", "/", "Authorization", bob.Access)
	if text := chat.wait(t, 0); !strings.Contains(text, "event: denied") ||
		!strings.Contains(text, "subject: local:bob") {
		t.Errorf("the chat shows %q", text)
	}
}
