package wire

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

	"authgate/e2e/world"
)

// Tests of package server have the rules of a stop and its times. These have
// real processes, signals, connections and clients.

// unready waits until the gateway reports that it stops.
func unready(g *world.Instance) {
	g.T.Helper()
	world.Until(g.T, "readiness to end", func() bool {
		status, body := g.Ready()
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"reason":"stopping"`)
	})
}

// endsClean is ends for a stop that waits for nothing and cuts off nothing.
func endsClean(g *world.Instance, within time.Duration) {
	g.T.Helper()
	g.Ends(within)
	_, since, _ := strings.Cut(g.Log.String(), `"msg":"stopping"`) // before it, clients may have left
	for _, complaint := range []string{"cut off", "left behind"} {
		if strings.Contains(since, complaint) {
			g.T.Errorf("the log has %q:\n%s", complaint, g.Log)
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
	up := world.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	g := world.Start(t, targets+world.App(up)+"shutdown_delay: 5s\nshutdown_timeout: 60s\n")
	var answers []*http.Response
	request := func() {
		t.Helper()
		for _, c := range []*http.Client{paced(t, g.Stranger()), paced(t, g.Stranger11())} {
			answer := world.Must(c.Get(g.Base + "/large"))(t)
			t.Cleanup(func() { answer.Body.Close() })
			answers = append(answers, answer)
		}
	}
	request()
	g.Signal(syscall.SIGTERM)
	unready(g)
	request()
	silent := connect(t, g, g.Base)
	world.Limit(t, silent)
	world.Together(len(answers), func(i int) {
		got, err := io.ReadAll(answers[i].Body)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes of %d, %v", answers[i].Proto, len(got), len(body), err)
		}
	})
	if n, err := silent.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v: the silent connection is not closed", n, err)
	}
	endsClean(g, 20*time.Second)
}

// TestStopAccounts: an account that is removed during a stop is out as long as
// the gateway serves. A second signal ends the process at once.
func TestStopAccounts(t *testing.T) {
	t.Parallel()
	g := world.Prepare(t)
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, "")+world.Person("bob", world.BuilderHash, ""))
	g.Configure("accounts: {file: accounts.yaml}\nroutes: [{match: /, upstream: app, auth: " +
		"[session]}]\n" + world.App(world.Record(t).URL) + "shutdown_delay: 1h\n")
	g.Run()
	c := g.Stranger()
	alice, bob := g.SignIn(c, "alice"), g.SignIn(c, "bob")
	g.Signal(syscall.SIGTERM)
	unready(g)
	out := func(s world.Login) func() bool {
		return func() bool { return g.Status(g.Stranger(), "GET", "/", "Cookie", s.Session) == http.StatusUnauthorized }
	}
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ""))
	world.Until(t, "the change of accounts.yaml", out(bob))
	if out(alice)() {
		t.Error("an account that stays is out")
	}
	g.Write("accounts.yaml", "[]\n")
	g.Signal(syscall.SIGHUP)
	world.Until(t, "the signal", out(alice))

	g.Signal(syscall.SIGTERM)
	select {
	case <-g.Done:
	case <-time.After(world.Patience):
		t.Fatal("the process still runs")
	}
	if code := g.Cmd.ProcessState.ExitCode(); code != -1 {
		t.Errorf("exit status %d, expected the signal to end the process", code)
	}
}

// idleClients are clients without a request in flight. Each returns when the
// gateway must count it as idle.
var idleClients = []func(t *testing.T, g *world.Instance){
	func(t *testing.T, g *world.Instance) { connect(t, g, g.Base) },
	func(t *testing.T, g *world.Instance) { connect(t, g, g.HTTP) },
	func(t *testing.T, g *world.Instance) { connect(t, g, g.Admin) },
	func(t *testing.T, g *world.Instance) { g.Dial(t, "http/1.1") },
	func(t *testing.T, g *world.Instance) { g.Dial(t, "h2") },
	func(t *testing.T, g *world.Instance) { g.Status(g.Stranger(), "GET", "/") },
	func(t *testing.T, g *world.Instance) { requested(t, g, g.Dial(t, "http/1.1")) },
	func(t *testing.T, g *world.Instance) { drip(t, connect(t, g, g.Base), "\x16\x03\x01\x02\x00\x01") },
	func(t *testing.T, g *world.Instance) { drip(t, connect(t, g, g.HTTP), "GET / HTTP/1.1\r\nA: ") },
	func(t *testing.T, g *world.Instance) { drip(t, requested(t, g, g.Dial(t, "http/1.1")), "GET ") },
}

// connect opens a connection and sends nothing.
func connect(t *testing.T, g *world.Instance, url string) net.Conn {
	t.Helper()
	conn := world.Must(net.Dial("tcp", world.Authority(url)))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// requested sends a request on a connection and reads the answer.
func requested(t *testing.T, g *world.Instance, conn net.Conn) net.Conn {
	t.Helper()
	if a := world.Exchange(t, conn, "GET / HTTP/1.1\nHost: localhost\n\n"); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return conn
}

// drip sends text, and then a byte each second until that fails.
func drip(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	world.Must(io.WriteString(conn, text))(t)
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
	g := world.Start(t, targets+world.App(world.Record(t).URL)+"shutdown_timeout: 60s\n")
	for range 20 {
		for _, open := range idleClients {
			open(t, g)
		}
	}
	g.Signal(syscall.SIGTERM)
	endsClean(g, 5*time.Second)
}
