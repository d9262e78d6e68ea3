package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Tests of package server have the rules of a stop and its times. These have
// real processes, signals, connections and clients.

// readiness requests /readyz, as a balancer does.
func (g *instance) readiness() (status int, body string, err error) {
	response, err := (&http.Client{Timeout: patience}).Get(g.adm + "/readyz")
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// ready is readiness for an admin listener that must answer.
func (g *instance) ready() (status int, body string) {
	g.t.Helper()
	status, body, err := g.readiness()
	if err != nil {
		g.t.Fatalf("/readyz: %v\n%s", err, g.log)
	}
	return status, body
}

// unready waits until the gateway reports that it stops.
func (g *instance) unready() {
	g.t.Helper()
	until(g.t, "readiness to end", func() bool {
		status, body := g.ready()
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"reason":"stopping"`)
	})
}

// ends fails the test unless the process ends by itself within a time, with
// status 0.
func (g *instance) ends(within time.Duration) {
	g.t.Helper()
	select {
	case <-g.done:
	case <-time.After(within):
		g.t.Fatalf("the process still runs after %v\n%s", within, g.log)
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.t.Errorf("exit status %d\n%s", code, g.log)
	}
}

// endsClean is ends for a stop that waits for nothing and cuts off nothing.
func (g *instance) endsClean(within time.Duration) {
	g.t.Helper()
	g.ends(within)
	_, since, _ := strings.Cut(g.log.String(), `"msg":"stopping"`) // before it, clients may have left
	for _, complaint := range []string{"cut off", "left behind"} {
		if strings.Contains(since, complaint) {
			g.t.Errorf("the log has %q:\n%s", complaint, g.log)
		}
	}
}

// pacedConn is the connection of a client that reads 500 kB a second.
type pacedConn struct {
	net.Conn
	pace *time.Ticker
}

func (c *pacedConn) Read(b []byte) (int, error) {
	<-c.pace.C
	return c.Conn.Read(b[:min(len(b), 10_000)])
}

// paced makes a client read slowly.
func paced(t *testing.T, c *http.Client) *http.Client {
	t.Helper()
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		pace := time.NewTicker(20 * time.Millisecond)
		t.Cleanup(pace.Stop)
		// What the client has not read stays on the gateway's side.
		return &pacedConn{conn, pace}, conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	return c
}

// TestStopSlowReaders: clients that requested before the stop, or during
// shutdown_delay, read their answers to the end, though the gateway handed them
// to the system long before. A connection that sends nothing is not waited for.
func TestStopSlowReaders(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789"), 250_000) // the system takes it all at once
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	g := start(t, targets+app(up)+"shutdown_delay: 5s\nshutdown_timeout: 60s\n")
	var answers []*http.Response
	request := func() {
		t.Helper()
		for _, c := range []*http.Client{paced(t, g.stranger()), paced(t, g.stranger11())} {
			answer := must(c.Get(g.base + "/large"))(t)
			t.Cleanup(func() { answer.Body.Close() })
			answers = append(answers, answer)
		}
	}
	request()
	g.signal(syscall.SIGTERM)
	g.unready()
	request()
	silent := g.connect(t, g.base)
	limit(t, silent)
	many(len(answers), func(i int) {
		got, err := io.ReadAll(answers[i].Body)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes of %d, %v", answers[i].Proto, len(got), len(body), err)
		}
	})
	if n, err := silent.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v: the silent connection is not closed", n, err)
	}
	g.endsClean(20 * time.Second)
}

// TestStopAccounts: an account that is removed during a stop is out as long as
// the gateway serves. A second signal ends the process at once.
func TestStopAccounts(t *testing.T) {
	t.Parallel()
	g := prepared(t)
	g.write("accounts.yaml", person("alice", wonderlandHash, "")+person("bob", builderHash, ""))
	g.configure("accounts: {file: accounts.yaml}\nroutes: [{match: /, upstream: app, auth: [session]}]\n" + app(record(t).url) + "shutdown_delay: 1h\n")
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
		t.Error("an account that stays is out")
	}
	g.write("accounts.yaml", "[]\n")
	g.signal(syscall.SIGHUP)
	until(t, "the signal", out(alice))

	g.signal(syscall.SIGTERM)
	select {
	case <-g.done:
	case <-time.After(patience):
		t.Fatal("the process still runs")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != -1 {
		t.Errorf("exit status %d, expected the signal to end the process", code)
	}
}

// idleClients are clients without a request in flight. Each returns when the
// gateway must count it as idle.
var idleClients = []func(t *testing.T, g *instance){
	func(t *testing.T, g *instance) { g.connect(t, g.base) },
	func(t *testing.T, g *instance) { g.connect(t, g.http) },
	func(t *testing.T, g *instance) { g.connect(t, g.adm) },
	func(t *testing.T, g *instance) { g.dial(t, "http/1.1") },
	func(t *testing.T, g *instance) { g.dial(t, "h2") },
	func(t *testing.T, g *instance) { g.status(g.stranger(), "GET", "/") },
	func(t *testing.T, g *instance) { g.requested(t, g.dial(t, "http/1.1")) },
	func(t *testing.T, g *instance) { drip(t, g.connect(t, g.base), "\x16\x03\x01\x02\x00\x01") },
	func(t *testing.T, g *instance) { drip(t, g.connect(t, g.http), "GET / HTTP/1.1\r\nA: ") },
	func(t *testing.T, g *instance) { drip(t, g.requested(t, g.dial(t, "http/1.1")), "GET ") },
}

// connect opens a connection and sends nothing.
func (g *instance) connect(t *testing.T, url string) net.Conn {
	t.Helper()
	conn := must(net.Dial("tcp", authority(url)))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// requested sends a request on a connection and reads the answer.
func (g *instance) requested(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	if a := exchange(t, conn, "GET / HTTP/1.1\nHost: localhost\n\n"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return conn
}

// drip sends text, and then a byte each second until that fails.
func drip(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	must(io.WriteString(conn, text))(t)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for err := error(nil); err == nil; _, err = conn.Write([]byte{'a'}) {
			<-tick.C
		}
	}()
}

// TestStopIdle: a stop waits for no idle client: for none that has sent nothing,
// a part of a request, or a request that was answered. It takes a fraction of a
// second; waiting for a client takes five seconds or more.
func TestStopIdle(t *testing.T) {
	t.Parallel()
	g := start(t, targets+app(record(t).url)+"shutdown_timeout: 60s\n")
	for range 20 {
		for _, open := range idleClients {
			open(t, g)
		}
	}
	g.signal(syscall.SIGTERM)
	g.endsClean(5 * time.Second)
}
