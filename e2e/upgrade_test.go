package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
)

// TestWebSocket: frames pass in both directions, for whoever may, and not for
// another site that makes a browser ask.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	var upgrades atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrades.Add(1)
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // the client sees the status
		}
		defer func() { _ = conn.CloseNow() }()
		greeting := "hello " + r.Header.Get("X-Auth-User")
		if err := conn.Write(r.Context(), websocket.MessageText, []byte(greeting)); err != nil {
			return
		}
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(up.Close)
	g := start(t, people+app(up.URL)+"routes: [{match: /socket, upstream: app, auth: [session, bearer]}]\n")
	c := g.stranger11()
	s := g.signIn(c, "alice")
	for _, test := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"nobody", nil, 401},
		{"session", []string{"Cookie", s.session}, 101},
		{"session of this site", []string{"Cookie", s.session, "Origin", g.public}, 101},
		{"session, as browsers ask", []string{"Cookie", s.session, "Origin", g.public, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "websocket"}, 101},
		{"session from another site", []string{"Cookie", s.session, "Origin", "https://evil.example"}, 403},
		{"session from a page without an origin", []string{"Cookie", s.session, "Origin", "null"}, 403},
		{"session from the plain listener", []string{"Cookie", s.session, "Origin", g.http}, 403},
		{"session, by Fetch Metadata", []string{"Cookie", s.session, "Sec-Fetch-Site", "cross-site"}, 403},
		{"session, from the same site only", []string{"Cookie", s.session, "Sec-Fetch-Site", "same-site"}, 403},
		{"token", []string{"Authorization", s.access}, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := upgrades.Load()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			headers := http.Header{}
			for i := 0; i < len(test.headers); i += 2 {
				headers.Set(test.headers[i], test.headers[i+1])
			}
			conn, response, err := websocket.Dial(ctx, g.base+"/socket", &websocket.DialOptions{HTTPClient: c, HTTPHeader: headers})
			if response == nil || response.StatusCode != test.want {
				t.Fatalf("expected %d, got %v, %v", test.want, response, err)
			}
			if test.want != http.StatusSwitchingProtocols {
				if got := upgrades.Load() - before; got != 0 {
					t.Errorf("%d upgrades reached the upstream", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			talk(ctx, t, conn)
		})
	}
}

// talk hears the greeting and an echo of its own words.
func talk(ctx context.Context, t *testing.T, conn *websocket.Conn) {
	defer func() { _ = conn.CloseNow() }()
	if _, got, err := conn.Read(ctx); err != nil || string(got) != "hello alice" {
		t.Fatalf("greeting %q, %v", got, err)
	}
	for _, message := range []string{"one", strings.Repeat("two", 10_000)} {
		if err := conn.Write(ctx, websocket.MessageBinary, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if kind, got, err := conn.Read(ctx); err != nil || kind != websocket.MessageBinary || string(got) != message {
			t.Fatalf("echo of %d bytes: %d bytes, %v", len(message), len(got), err)
		}
	}
	if err := conn.Close(websocket.StatusNormalClosure, "done"); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// TestOtherUpgrades: another protocol would carry requests that nobody has
// decided on, so nobody is asked to switch to one.
func TestOtherUpgrades(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, targets+app(up.url))
	for _, headers := range []string{
		"Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\n",
		"Connection: upgrade\nUpgrade: TLS/1.0\n",
		"Connection: upgrade\nUpgrade: websocket, h2c\n",
		"Connection: upgrade\nUpgrade: h2c\nUpgrade: websocket\n",
		"Upgrade: websocket\n",
	} {
		if a := g.raw(t, "GET / HTTP/1.1\nHost: localhost\n"+headers+"\n"); a.status != http.StatusOK {
			t.Errorf("%q: %d", headers, a.status)
		}
		for _, m := range up.all() {
			for _, name := range []string{"Upgrade", "Connection", "HTTP2-Settings"} {
				if got := m.values(name); len(got) > 0 {
					t.Errorf("of %q the upstream got %s: %q", headers, name, got)
				}
			}
		}
	}
}

// TestCrossSite: another site cannot make a browser change something at the
// application, by the cookie that it sends along (design B.13).
func TestCrossSite(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /, upstream: app, auth: [session, bearer]}]\n")
	c := g.stranger()
	s := g.signIn(c, "alice")
	for _, from := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 200, "POST": 403, "PUT": 403, "PATCH": 403, "DELETE": 403} {
			if got := g.status(c, method, "/", append(from, "Cookie", s.session)...); got != want {
				t.Errorf("%s with %s: %d, expected %d", method, from, got, want)
			}
			if got := len(up.all()); got != 0 && want == http.StatusForbidden {
				t.Errorf("%s with %s reached the upstream", method, from)
			}
		}
		if got := g.status(c, "POST", "/", append(from, "Authorization", s.access)...); got != http.StatusOK {
			t.Errorf("POST with a token and %s: %d", from, got)
		}
		up.all()
	}
	for _, from := range [][]string{nil, {"Origin", g.public}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
		if got := g.status(c, "POST", "/", append(from, "Cookie", s.session)...); got != http.StatusOK {
			t.Errorf("POST with %s: %d", from, got)
		}
	}
}
