package browser

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
)

// TestBrowserHTTP3: Chromium signs in and loads pages over HTTP/3, and opens WebSockets
// beside it. It is told to use HTTP/3: by Alt-Svc it does so only with certificates of
// authorities that it has built in.
func TestBrowserHTTP3(t *testing.T) {
	t.Parallel()
	up := world.Serve(t, servePageWithSocket(t))
	port := world.FreePort(t)
	address := net.JoinHostPort("127.0.0.3", port) // the test keeps the UDP port of 127.0.0.1
	c := startChromium(t,
		chromedp.Flag("disable-quic", false), chromedp.Flag("enable-quic", true),
		chromedp.Flag("origin-to-force-quic-on", "localhost:"+port),
		chromedp.Flag("host-resolver-rules", "MAP localhost "+address+", MAP * ~NOTFOUND"))
	g := c.prepared(t)
	g.Base = "https://localhost:" + port
	g.Listen = fmt.Sprintf("listen: {https: %[1]q, http3: %[1]q, http: %[2]q, admin: %[3]q}\n", address,
		world.Authority(g.HTTP), world.Authority(g.Admin))
	// The store in memory: the disk of a busy machine may take longer than a login may wait for it.
	g.Configure("store: {driver: memory}\n" + world.People + world.App(up) +
		"routes: [{match: /, upstream: app, auth: [session]}]\n")
	g.Run()
	b := c.tab(t)
	b.open(g.Base + "/")
	b.signIn("alice")
	over := func(protocol, path string) bool {
		for _, entry := range g.Log.Records(t, "request") {
			if entry["protocol"] == protocol && entry["path"] == path && entry["subject"] == "local:alice" {
				return true
			}
		}
		return false
	}
	world.Until(t, "the page over HTTP/3", func() bool { return over("HTTP/3.0", "/") })
	if over("HTTP/2.0", "/") {
		t.Errorf("the page came another way too\n%s", g.Log)
	}
	world.Until(t, "the answer over a WebSocket", func() bool { return b.value("document.title") != "wait" })
	if got := b.value("document.title"); got != "hello alice" {
		t.Errorf("the WebSocket says %q\n%s", got, g.Log)
	}
	world.Until(t, "the end of the WebSocket", func() bool { return over("HTTP/1.1", "/socket") })
}

// servePageWithSocket serves a page that opens a WebSocket, and the WebSocket.
func servePageWithSocket(t *testing.T) http.HandlerFunc {
	const page = `<!doctype html><title>wait</title><script>
const socket = new WebSocket("wss://" + location.host + "/socket")
socket.onopen = () => socket.send("hello")
socket.onmessage = e => { document.title = e.data; socket.close() }
socket.onerror = () => { document.title = "refused" }
</script>`
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/socket" {
			fmt.Fprint(w, page)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		_, message, err := conn.Read(r.Context())
		if err == nil {
			_ = conn.Write(r.Context(), websocket.MessageText,
				append(message, " "+r.Header.Get("X-Auth-User")...)) // the page tells
		}
		_, _, _ = conn.Read(r.Context()) // until the page closes it
	}
}
