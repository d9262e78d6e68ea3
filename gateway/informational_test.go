package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"authgate/gateway/upstream/http1"
)

// rawApplication is an upstream that answers whatever it is asked with these
// bytes, again and again if endless, and then closes the connection.
func rawApplication(t *testing.T, bytes string, endless bool) *rig {
	t.Helper()
	a := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			if _, err := io.WriteString(conn, bytes); err != nil || !endless {
				return
			}
		}
	})
	r := newRig(t, strings.Replace(baseConfig, "store:", "tls: {hsts: 48h}\nstore:", 1))
	if err := r.reload(edit(t, r.yaml(), "http://app.invalid", a.URL)); err != nil {
		t.Fatal(err)
	}
	return r
}

// yaml is the configuration that rawApplication's rig began with.
func (r *rig) yaml() string {
	return strings.Replace(baseConfig, "store:", "tls: {hsts: 48h}\nstore:", 1)
}

// An upstream that hints without end is at fault, by whichever way requests go
// to it, and its client is not flooded.
func TestInformationalFlood(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := rawApplication(t, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", true)
			server := httptest.NewServer(r.Gateway)
			defer server.Close()
			hints := 0
			const tooMany = 1000
			trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
				if hints++; hints > tooMany {
					return fmt.Errorf("more than %d of them", tooMany)
				}
				return nil
			}}
			q, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), method, server.URL+"/public/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Fatalf("after %d hints: %v", hints, err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusBadGateway || hints > http1.MaxInformational+1 {
				t.Errorf("%d after %d hints, want 502 after %d at most", answer.StatusCode, hints, http1.MaxInformational)
			}
		})
	}
}

// Hints before the answer take nothing from it.
func TestInformationalKeepsHeaders(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		for hints, bytes := range map[int]string{
			0: "",
			1: "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n",
			2: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nStrict-Transport-Security: max-age=1\r\n\r\n", 2),
		} {
			r := rawApplication(t, bytes+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", false)
			server := httptest.NewServer(r.Gateway)
			q, err := http.NewRequest(method, server.URL+"/public/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if got := answer.Header["Strict-Transport-Security"]; answer.StatusCode != 200 || len(got) != 1 || got[0] != "max-age=172800" {
				t.Errorf("%s after %d hints: %d with Strict-Transport-Security %q", method, hints, answer.StatusCode, got)
			}
			server.Close()
		}
	}
}

// An upstream that switches protocols although nobody asked it to is at fault,
// and gets no tunnel to the client, however it says so.
func TestSwitchUnasked(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"WebSocket": "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/2": "Connection: Upgrade\r\nUpgrade: h2c\r\n",
		"to nothing": "", "Connection alone": "Connection: Upgrade\r\n", "Upgrade alone": "Upgrade: websocket\r\n",
		"to an empty name": "Connection: Upgrade\r\nUpgrade: \r\n", "with a length": "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 4\r\n",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				r := rawApplication(t, "HTTP/1.1 101 Switching Protocols\r\n"+header+"\r\nevil", false)
				server := httptest.NewServer(r.Gateway)
				defer server.Close()
				q, err := http.NewRequest(method, server.URL+"/public/", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := http.DefaultTransport.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				if answer.StatusCode != http.StatusBadGateway || err != nil || strings.Contains(string(body), "evil") {
					t.Errorf("%d %q, %v", answer.StatusCode, body, err)
				}
			})
		}
	}
}
