package wire

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// negotiating is an application that knows its user by connection, as IIS does with NTLM: the
// third message proves who the user is, and each later request on the connection is that user's.
type negotiating struct {
	mu     sync.Mutex
	users  map[string]string // by the address of the gateway's end
	offers []string          // of WWW-Authenticate, to a request without a user
}

func (n *negotiating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	n.mu.Lock()
	defer n.mu.Unlock()
	message, user, _ := strings.Cut(r.Header.Get("Authorization"), ":")
	switch known := n.users[r.RemoteAddr]; {
	case message == "NTLM type1":
		w.Header().Set("WWW-Authenticate", "NTLM challenge")
		w.WriteHeader(http.StatusUnauthorized)
	case message == "NTLM type3":
		n.users[r.RemoteAddr] = user
		_, _ = io.WriteString(w, "hello "+user)
	case known != "":
		_, _ = io.WriteString(w, "hello "+known)
	default:
		w.Header()["WWW-Authenticate"] = n.offers
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "who are you?")
	}
}

func startNegotiating(t *testing.T, http2 bool, offers ...string) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(&negotiating{users: map[string]string{}, offers: offers})
	if http2 {
		server.Config.Protocols = &http.Protocols{}
		server.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	server.Start()
	t.Cleanup(server.Close)
	if http2 {
		return strings.Replace(server.URL, "http:", "h2c:", 1)
	}
	return server.URL
}

const negotiatingRoutes = `
routes:
  - {match: /s/, upstream: app, auth: [session]}
  - {match: /, upstream: app, auth: [none]}
`

// TestNTLM: a user who has signed in at an application with NTLM is that user on the own connection
// to the gateway, and no other client is, with and without the fast path and the reuse of connections.
func TestNTLM(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", ", fast_path: false", ", reuse_connections: false"} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			url := startNegotiating(t, false, "Negotiate", "NTLM")
			g := world.Start(t, world.People+"upstreams: {app: {url: \""+url+"\""+more+"}}\n"+negotiatingRoutes)
			alice, bob, anybody := g.Stranger11(), g.Stranger11(), g.Stranger11()
			aliceIn, bobIn := g.SignIn(alice, "alice").Session, g.SignIn(bob, "bob").Session
			for i, step := range []struct {
				client                       *http.Client
				path, session, authorization string
				status                       int
				body                         string
			}{
				{alice, "/s/x", aliceIn, "", 401, "who are you?"},
				{alice, "/s/x", aliceIn, "NTLM type1", 401, ""},
				{bob, "/s/x", bobIn, "", 401, "who are you?"},
				{alice, "/s/x", aliceIn, "NTLM type3:ALICE", 200, "hello ALICE"},
				{bob, "/s/x", bobIn, "", 401, "who are you?"},
				{anybody, "/x", "", "", 401, "who are you?"},
				{alice, "/s/x", aliceIn, "", 200, "hello ALICE"},
				{bob, "/s/x", bobIn, "NTLM type1", 401, ""},
				{bob, "/s/x", bobIn, "NTLM type3:BOB", 200, "hello BOB"},
				{alice, "/s/x", aliceIn, "", 200, "hello ALICE"},
				{bob, "/s/x", bobIn, "", 200, "hello BOB"},
				{anybody, "/x", "", "", 401, "who are you?"},
			} {
				headers := []string{"Accept", "*/*"}
				if step.session != "" {
					headers = append(headers, "Cookie", step.session)
				}
				if step.authorization != "" {
					headers = append(headers, "Authorization", step.authorization)
				}
				a := g.Do(step.client, "GET", step.path, "", headers...)
				if a.Status != step.status || a.Body != step.body {
					t.Errorf("step %d: %d %q, want %d %q", i, a.Status, a.Body, step.status, step.body)
				}
			}
		})
	}
}

// TestNegotiateRemoved: where a connection may carry several people, an application's offers to sign
// it in are removed. If nothing else is left, that is 502, and the log says why.
func TestNegotiateRemoved(t *testing.T) {
	t.Parallel()
	const why = "sign in a connection"
	for _, c := range []struct {
		name   string
		offers []string
		status int
		kept   []string
	}{
		{"nothing else", []string{"Negotiate", "NTLM"}, 502, nil},
		{"Basic too", []string{"Negotiate", "NTLM", `Basic realm="app"`}, 401, []string{`Basic realm="app"`}},
	} {
		ways := map[string]func(t *testing.T) (*world.Instance, *http.Client, []string){
			"a client over HTTP/2": func(t *testing.T) (*world.Instance, *http.Client, []string) {
				g := world.Start(t, world.People+world.App(startNegotiating(t, false, c.offers...))+negotiatingRoutes)
				return g, g.Stranger(), nil
			},
			"an application over HTTP/2": func(t *testing.T) (*world.Instance, *http.Client, []string) {
				g := world.Start(t, world.People+world.App(startNegotiating(t, true, c.offers...))+negotiatingRoutes)
				return g, g.Stranger11(), nil
			},
			"a trusted proxy": func(t *testing.T) (*world.Instance, *http.Client, []string) {
				g := world.StartBehindProxy(t, "[127.0.0.1]",
					world.People+world.App(startNegotiating(t, false, c.offers...))+negotiatingRoutes)
				return g, g.Stranger(), []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "localhost"}
			},
		}
		for way, begin := range ways {
			t.Run(way+", "+c.name, func(t *testing.T) {
				t.Parallel()
				g, client, headers := begin(t)
				for _, authorization := range []string{"", "NTLM type3:ALICE", ""} {
					more := headers
					if authorization != "" {
						more = append(slices.Clone(headers), "Authorization", authorization)
					}
					a := g.Do(client, "GET", "/x", "", more...)
					if authorization != "" {
						continue // the client signs in on its own behalf, and no other one may profit
					}
					if got := a.Header.Values("WWW-Authenticate"); a.Status != c.status || !slices.Equal(got, c.kept) {
						t.Errorf("%d %q, want %d %q", a.Status, got, c.status, c.kept)
					}
				}
				if c.status == 502 {
					world.Until(t, "the reason in the log", func() bool {
						return strings.Contains(g.Log.String(),
							why)
					})
				}
			})
		}
	}
}
