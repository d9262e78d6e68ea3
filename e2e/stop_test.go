package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pacedConn is the connection of a client that takes 500 kB in a second.
type pacedConn struct {
	net.Conn
	pace *time.Ticker
}

func (c *pacedConn) Read(b []byte) (int, error) {
	<-c.pace.C
	return c.Conn.Read(b[:min(len(b), 10_000)])
}

// paced makes a client take its time.
func paced(t *testing.T, c *http.Client) *http.Client {
	t.Helper()
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		// So that what it has not read is still on the gateway's side.
		if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			return nil, err
		}
		pace := time.NewTicker(20 * time.Millisecond)
		t.Cleanup(pace.Stop)
		return &pacedConn{conn, pace}, nil
	}
	return c
}

// TestStopSlowReaders: a client gets the whole of an answer that the gateway
// has handed to the system long before, asked for before the stop and after.
func TestStopSlowReaders(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789"), 250_000) // the system takes it all at once
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	t.Cleanup(up.Close)
	for name, delay := range map[string]string{"before": "0s", "after": "2s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, targets+app(up.URL)+"shutdown_delay: "+delay+"\nshutdown_timeout: 30s\n")
			clients := []*http.Client{paced(t, g.stranger()), paced(t, g.stranger11())}
			stop := func() {
				g.signal(syscall.SIGTERM)
				if name == "after" {
					g.unready()
				}
			}
			if name == "after" {
				stop()
			}
			var answers []*http.Response
			for _, c := range clients {
				answer, err := c.Get(g.base + "/large")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { answer.Body.Close() })
				answers = append(answers, answer)
			}
			if name == "before" {
				stop()
			}
			many(len(answers), func(i int) {
				got, err := io.ReadAll(answers[i].Body)
				if err != nil || !bytes.Equal(got, body) {
					t.Errorf("%s: %d bytes of %d, %v", answers[i].Proto, len(got), len(body), err)
				}
			})
			g.ends(10 * time.Second)
			if strings.Contains(g.log.String(), "cut off") {
				t.Errorf("something was cut off:\n%s", g.log)
			}
		})
	}
}

// TestStopLateHandshake: a connection that has not begun to speak when the
// listeners close is not waited for.
func TestStopLateHandshake(t *testing.T) {
	t.Parallel()
	g := start(t, targets+app(record(t).url)+"shutdown_delay: 1s\nshutdown_timeout: 60s\n")
	g.signal(syscall.SIGTERM)
	g.unready()
	early := g.connect(t, g.base)
	limit(t, early)
	if n, err := early.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v: the connection is not closed", n, err)
	}
	g.ends(10 * time.Second)
	if strings.Contains(g.log.String(), "cut off") {
		t.Errorf("something was cut off:\n%s", g.log)
	}
}

// TestStopAccounts: who is removed during a stop is out, for as long as
// anybody is let in.
func TestStopAccounts(t *testing.T) {
	t.Parallel()
	g := prepared(t)
	everybody := person("alice", wonderlandHash, "") + person("bob", builderHash, "")
	g.write("accounts.yaml", everybody)
	g.configure("accounts: {file: accounts.yaml}\nroutes: [{match: /, upstream: app, auth: [session]}]\n" +
		app(record(t).url) + "shutdown_delay: 1h\n")
	g.run()
	c := g.stranger()
	alice, bob := g.signIn(c, "alice"), g.signIn(c, "bob")
	g.signal(syscall.SIGTERM)
	g.unready()
	out := func(s signIn) func() bool {
		return func() bool { return g.status(g.stranger(), "GET", "/", "Cookie", s.session) == http.StatusUnauthorized }
	}
	g.applies("accounts.yaml", person("alice", wonderlandHash, ""), out(bob))
	if out(alice)() {
		t.Error("who stays is out")
	}
	g.write("accounts.yaml", "[]\n")
	g.signal(syscall.SIGHUP)
	until(t, "the signal", out(alice))
}
