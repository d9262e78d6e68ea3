package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// http3Gateway is a gateway with HTTP/3 at the port of public_url. Its address is
// another one, because tests keep the UDP port at the usual one.
type http3Gateway struct {
	*world.Instance
	address string
}

func startHTTP3(t *testing.T, config string) *http3Gateway {
	t.Helper()
	g := &http3Gateway{Instance: world.Prepare(t)}
	_, port, _ := net.SplitHostPort(world.Authority(g.Base))
	g.address = net.JoinHostPort("127.0.0.3", port)
	g.Listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q, http3: %q}\n", world.Authority(g.Base),
		world.Authority(g.HTTP), world.Authority(g.Admin), g.address)
	g.Configure(config)
	g.Run()
	return g
}

// client3 returns a client with a connection of its own over HTTP/3.
func (g *http3Gateway) client3() *http.Client {
	g.T.Helper()
	transport := &http3.Transport{
		TLSClientConfig: g.TLS(), DisableCompression: true,
		Dial: func(ctx context.Context, _ string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
			t = t.Clone()
			t.ServerName = "localhost"
			return quic.DialAddr(ctx, g.address, t, c)
		},
	}
	g.T.Cleanup(func() { transport.Close() })
	return &http.Client{
		Transport: transport, Timeout: world.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// raw3 sends a request with exactly these fields over HTTP/3. It returns the
// status, or errReset if the gateway refuses to read the request.
func (g *http3Gateway) raw3(t *testing.T, fields ...field) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	tlsConfig := g.TLS()
	tlsConfig.ServerName, tlsConfig.NextProtos = "localhost", []string{http3.NextProtoH3}
	conn := world.Must(quic.DialAddr(ctx, g.address, tlsConfig, nil))(t)
	defer func() { _ = conn.CloseWithError(0, "") }() // the gateway may have closed it
	control := world.Must(conn.OpenUniStream())(t)
	_ = world.Must(control.Write([]byte{0, 4, 0}))(t) // a control stream with empty SETTINGS
	stream := world.Must(conn.OpenStream())(t)
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	for _, f := range fields {
		world.NoError(t, encoder.WriteField(qpack.HeaderField{Name: f.name, Value: f.value}))
	}
	const headers = 1 // the type of a HEADERS frame
	frame := quicvarint.Append(quicvarint.Append(nil, headers), uint64(block.Len()))
	_ = world.Must(stream.Write(append(frame, block.Bytes()...)))(t)
	_ = stream.Close()                                         // fails if the gateway has refused the request already
	_ = stream.SetReadDeadline(time.Now().Add(world.Patience)) // the stream is open
	answer := quicvarint.NewReader(stream)
	kind, err := quicvarint.Read(answer)
	if reset, ok := errors.AsType[*quic.StreamError](err); ok && reset.Remote {
		return 0, errReset
	}
	if closed, ok := errors.AsType[*quic.ApplicationError](err); ok && closed.Remote {
		return 0, errReset
	}
	if err != nil || kind != headers {
		t.Fatalf("the first frame has the type %d, %v", kind, err)
	}
	length := world.Must(quicvarint.Read(answer))(t)
	encoded := make([]byte, length)
	_ = world.Must(io.ReadFull(stream, encoded))(t)
	status := 0
	decode := qpack.NewDecoder().Decode(encoded)
	for f, err := decode(); err == nil; f, err = decode() {
		if f.Name == ":status" {
			_, _ = fmt.Sscan(f.Value, &status) // 0 is no status
		}
	}
	return status, nil
}

// get3 is raw3 for a GET of a target with more fields.
func (g *http3Gateway) get3(t *testing.T, target string, more ...field) (int, error) {
	t.Helper()
	return g.raw3(t, append([]field{
		{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", target},
	}, more...)...)
}

// TestHTTP3: clients learn of HTTP/3 by Alt-Svc over https alone, sign in and are
// let in over it as over the other protocols, and the log and the metrics tell.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := startHTTP3(t, spoofing(up.URL))
	g.announces(t)
	up.All()
	c := g.client3()
	alice := g.SignIn(c, "alice")
	for _, a := range []struct {
		path, header, value string
		want                int
	}{
		{"/session", "Cookie", alice.Session, 200}, {"/session", "Cookie", "session_id=other", 401},
		{"/session", "X-Nothing", "1", 401},
		{"/bearer", "Authorization", alice.Access, 200}, {"/basic", "Authorization", world.BasicService, 200},
		{"/basic", "Authorization", "Basic Og==", 401},
	} {
		if got := g.Status(c, "GET", a.path, a.header, a.value); got != a.want {
			t.Errorf("%s with %s: %d, want %d", a.path, a.value, got, a.want)
		}
		if a.want == 200 {
			up.One(t)
		}
	}
	up.None(t)
	large := strings.Repeat("x", 5<<20)
	if a := g.Do(c, "POST", "/public", large); a.Status != 200 || len(up.One(t).Body) != len(large) {
		t.Errorf("a large body: %d", a.Status)
	}
	a := g.Do(c, "GET", "/public", "")
	if a.Status != 200 || a.Body != "ok" || a.Header["Content-Type"] != nil { // the upstream sends none
		t.Errorf("GET: %d %q %q", a.Status, a.Body, a.Header["Content-Type"])
	}
	if m := up.One(t); len(m.Values("Transfer-Encoding")) > 0 || len(m.Values("Content-Length")) > 0 ||
		len(m.Values("Host")) != 1 {
		t.Errorf("the upstream gets %q", m.Head)
	}
	metrics := g.Scrape(t)
	if metrics[`authgate_http_requests_total{version="3"}`] < 10 ||
		metrics[`authgate_connections{listener="http3"}`] == 0 {
		t.Errorf("the metrics are %v", metrics)
	}
	world.Until(t, "the access log of HTTP/3", func() bool {
		return slices.ContainsFunc(g.Log.Records(t, "request"), func(entry map[string]any) bool {
			return entry["protocol"] == "HTTP/3.0" && entry["client"] == "127.0.0.1" && entry["path"] == "/session" &&
				entry["subject"] == "local:alice"
		})
	})
	without := world.Start(t, spoofing(up.URL))
	if a := without.Do(without.Stranger(), "GET", "/public", ""); a.Header.Get("Alt-Svc") != "" {
		t.Errorf("without HTTP/3: Alt-Svc %q", a.Header["Alt-Svc"])
	}
}

// announces: responses over https lead to HTTP/3, those over plain HTTP do not.
func (g *http3Gateway) announces(t *testing.T) {
	t.Helper()
	_, port, _ := net.SplitHostPort(g.address)
	want := []string{`h3=":` + port + `"; ma=86400`}
	for _, path := range []string{"/public", "/session", "/me", "/nowhere"} {
		for name, c := range map[string]*http.Client{"HTTP/1.1": g.Stranger11(), "HTTP/2": g.Stranger(),
			"HTTP/3": g.client3()} {
			if a := g.Do(c, "GET", path, ""); !slices.Equal(a.Header["Alt-Svc"], want) {
				t.Errorf("%s, %s: %d, Alt-Svc %q, want %q", name, path, a.Status, a.Header["Alt-Svc"], want)
			}
		}
	}
	if a := g.Plain(t, "127.0.0.1", "GET /public HTTP/1.1\nHost: localhost\n\n"); a.Header.Get("Alt-Svc") != "" {
		t.Errorf("plain HTTP: Alt-Svc %q", a.Header["Alt-Svc"])
	}
}

// TestSpoofedHeadersHTTP3: identity and origin headers from a client over HTTP/3 do
// not reach the upstream, in any spelling, and fields that HTTP/3 forbids are
// refused.
func TestSpoofedHeadersHTTP3(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := startHTTP3(t, spoofing(up.URL))
	var fields []field
	for _, name := range slices.Concat(world.IdentityNames, originNames, ownNames) {
		for _, s := range world.Spellings(name) {
			if s == strings.ToLower(s) {
				fields = append(fields, field{s, spoofed}, field{s, spoofed})
			}
		}
	}
	for _, who := range askers(g.SignIn(g.client3(), "alice"), g.SignIn(g.client3(), "bob")) {
		header, value, _ := strings.Cut(who.credential, ": ")
		if status, err := g.get3(t, who.path, append(fields, field{strings.ToLower(header), value})...); err != nil ||
			status != http.StatusOK {
			t.Fatalf("%s: %d, %v", who.path, status, err)
		}
		wantOwnWord(t, up.One(t), who)
	}
	trailer := strings.NewReader("body")
	q := world.Must(http.NewRequestWithContext(t.Context(), "POST", g.Base+"/public", io.MultiReader(trailer)))(t)
	q.Trailer = http.Header{"X-Auth-User": {spoofed}, "X_auth_user": {spoofed}}
	a := world.Must(g.client3().Do(q))(t)
	a.Body.Close()
	if m := up.One(t); a.StatusCode != 200 || m.Body != "body" || len(m.Values("X-Auth-User")) > 0 {
		t.Errorf("a trailer: %d, %q", a.StatusCode, m)
	}
	g.refusesFields(t)
	for path, want := range map[string]int{"/public/../session": 400, "/%2e%2e/session": 400, "//session": 400,
		"/a%2fb": 400, "/session": 401} {
		if status, err := g.get3(t, path); err != nil || status != want {
			t.Errorf("%s: %d, %v, want %d", path, status, err, want)
		}
	}
	for host, want := range map[string]int{"other.example": 421, "localhost.": 200, "LOCALHOST:1": 200} {
		status, err := g.raw3(t, field{":method", "GET"}, field{":scheme", "https"}, field{":authority", host},
			field{":path", "/public"})
		if err != nil || status != want {
			t.Errorf("%s: %d, %v, want %d", host, status, err, want)
		}
		if want == 200 {
			up.One(t)
		}
	}
	g.noTunnels(t)
	up.None(t)
}

// refusesFields: fields that HTTP/3 forbids, and two meanings, are refused.
func (g *http3Gateway) refusesFields(t *testing.T) {
	t.Helper()
	for name, more := range map[string][]field{
		"a name in upper case":       {{"X-Auth-User", spoofed}},
		"connection":                 {{"connection", "x-auth-user"}},
		"transfer-encoding":          {{"transfer-encoding", "chunked"}},
		"upgrade":                    {{"upgrade", "websocket"}},
		"keep-alive":                 {{"keep-alive", "1"}},
		"proxy-connection":           {{"proxy-connection", "close"}},
		"te":                         {{"te", "gzip"}},
		"another Host":               {{"host", "other.example"}},
		"two Hosts":                  {{"host", "localhost"}, {"host", "localhost"}},
		"a line break":               {{"x-a", "1\r\nX-Auth-User: root"}},
		"a pseudo-header at the end": {{"x-a", "1"}, {":path", "/session"}},
		"two paths":                  {{":path", "/session"}},
		"two lengths":                {{"content-length", "0"}, {"content-length", "5"}},
		"a length that is wrong":     {{"content-length", "-1"}},
	} {
		if status, err := g.get3(t, "/public", more...); !errors.Is(err, errReset) {
			t.Errorf("%s: %d, %v", name, status, err)
		}
	}
}

// noTunnels: there is no WebSocket and no other tunnel over HTTP/3.
func (g *http3Gateway) noTunnels(t *testing.T) {
	t.Helper()
	for name, fields := range map[string][]field{
		"WebSocket": {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "https"}, {":authority", "localhost"},
			{":path", "/public"}},
		"tunnel": {{":method", "CONNECT"}, {":authority", "localhost:80"}},
	} {
		if status, err := g.raw3(t, fields...); err != nil || status != http.StatusNotImplemented {
			t.Errorf("%s: %d, %v", name, status, err)
		}
	}
}

// clientsThatStop: a client that stops in the middle of its body gets 408, and the
// request to the upstream of one that leaves ends.
func (g *http3Gateway) clientsThatStop(t *testing.T, up *world.Streams) {
	t.Helper()
	body, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = io.WriteString(feed, "half") }() // and no more
	q := world.Must(http.NewRequestWithContext(t.Context(), "POST", g.Base+"/slow/body", body))(t)
	q.ContentLength = 100_000
	a := world.Must(g.client3().Do(q))(t)
	a.Body.Close()
	if a.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that stops: %d", a.StatusCode)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	q = world.Must(http.NewRequestWithContext(ctx, "GET", g.Base+"/download", nil))(t)
	q.Header.Set("Cookie", g.SignIn(g.client3(), "bob").Session)
	a = world.Must(g.client3().Do(q))(t)
	defer a.Body.Close()
	_ = world.Must(io.CopyN(io.Discard, a.Body, 10))(t)
	if up.InFlight.Load() != 1 {
		t.Errorf("%d requests are in flight", up.InFlight.Load())
	}
	leave()
	world.Until(t, "the end of the request of a client that has left", func() bool { return up.InFlight.Load() == 0 })
}

// TestHTTP3Streams: a response in progress ends within a second of its login, and
// at a stop one that is whole in time arrives.
func TestHTTP3Streams(t *testing.T) {
	t.Parallel()
	up := world.ServeStreams(t)
	slow := make(chan struct{})
	app := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow/body" {
			_, _ = io.Copy(io.Discard, r.Body) // it ends when the gateway gives up
			return
		}
		_, _ = io.WriteString(w, "begun ") // the client tells
		_ = http.NewResponseController(w).Flush()
		<-slow
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	})
	g := startHTTP3(t, world.People+fmt.Sprintf("upstreams: {app: {url: %q}, slow: {url: %q}}\n", up.URL, app)+`
limits: {body_pause: 1s}
routes:
  - {match: /, upstream: app, auth: [session]}
  - {match: /slow, upstream: slow, auth: [none]}
  - {match: /slow/body, upstream: slow, auth: [none]}
`)
	alice := g.SignIn(g.client3(), "alice")
	c := g.client3()
	c.Timeout = 0
	q := world.Must(http.NewRequestWithContext(t.Context(), "GET", g.Base+"/download", nil))(t)
	q.Header.Set("Cookie", alice.Session)
	a := world.Must(c.Do(q))(t)
	defer a.Body.Close()
	_ = world.Must(io.CopyN(io.Discard, a.Body, 1<<20))(t)
	world.WantStatus(t, "logout", g.Do(g.client3(), "POST", "/logout", "", "Cookie", alice.Session), http.StatusOK)
	since := time.Now()
	if _, err := io.Copy(io.Discard, a.Body); err == nil {
		t.Error("the response looks complete")
	}
	t.Logf("the stream ended %v after the logout", time.Since(since).Round(time.Millisecond))
	world.Until(t, "the end of the request to the upstream", func() bool { return up.InFlight.Load() == 0 })
	world.Until(t, "the end of the stream in the audit log", func() bool {
		return strings.Contains(g.Log.String(), `"msg":"audit","event":"stream_ended"`)
	})
	g.clientsThatStop(t, up)
	g.stopsWhole(t, func() { close(slow) })
}

// stopsWhole: a response that is whole in time after a stop arrives. Then finish lets
// the upstream end it.
func (g *http3Gateway) stopsWhole(t *testing.T, finish func()) {
	t.Helper()
	a := world.Must(g.client3().Get(g.Base + "/slow"))(t)
	defer a.Body.Close()
	g.Signal(syscall.SIGTERM)
	world.Until(t, "new clients to be refused", func() bool {
		stranger := g.client3()
		stranger.Timeout = time.Second
		_, err := stranger.Get(g.Base + "/nowhere")
		return err != nil
	})
	finish()
	body, err := io.ReadAll(a.Body)
	if want := len("begun ") + 1<<20; err != nil || len(body) != want {
		t.Errorf("the response at the stop has %d bytes, want %d: %v", len(body), want, err)
	}
	endsClean(g.Instance, world.Patience)
}
