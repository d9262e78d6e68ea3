package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestWebSocket: frames pass in both directions for clients that are allowed,
// and not when a browser opens the socket for another site.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	up := acceptSockets(t, func(ctx context.Context, conn *websocket.Conn) error {
		for {
			kind, message, err := conn.Read(ctx)
			if err != nil {
				return err
			}
			if err := conn.Write(ctx, kind, message); err != nil {
				return err
			}
		}
	})
	g := start(t, people+app(up.url)+"routes: [{match: /socket, upstream: app, auth: [session, bearer]}]\n")
	c := g.stranger11()
	s := g.signIn(c, "alice")
	for _, test := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"no credential", nil, 401},
		{"session", []string{"Cookie", s.session}, 101},
		{"session, as browsers ask", []string{"Cookie", s.session, "Origin", g.public, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "websocket"}, 101},
		{"session from another site", []string{"Cookie", s.session, "Origin", "https://evil.example"}, 403},
		{"session, by Fetch Metadata", []string{"Cookie", s.session, "Sec-Fetch-Site", "cross-site"}, 403},
		{"token", []string{"Authorization", s.access}, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
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
				if n := len(up.ended); n > 0 {
					t.Errorf("%d WebSockets reached the upstream", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			talk(ctx, t, conn)
			<-up.ended
		})
	}
}

// talk sends messages and reads their echoes.
func talk(ctx context.Context, t *testing.T, conn *websocket.Conn) {
	t.Helper()
	defer func() { _ = conn.CloseNow() }()
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
