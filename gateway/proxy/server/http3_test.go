package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/internal/test/logtest"
)

// patience bounds what never takes long.
const patience = 2 * time.Minute

// overHTTP3 is a Server with a listener for HTTP/3 that runs until the test ends.
type overHTTP3 struct {
	*stub
	t      *testing.T
	server *Server
	log    *logtest.Buffer
	roots  *x509.CertPool
	stop   context.CancelFunc
	ended  chan error // the result of Serve
}

func serveHTTP3(t *testing.T, cfg config.Config, serve http.HandlerFunc) *overHTTP3 {
	t.Helper()
	dir := t.TempDir()
	cfg.Listen.HTTPS, cfg.Listen.HTTP3, cfg.Listen.IdleTimeout = anyPort, anyPort, idleTime
	cfg.DataDir, cfg.TLS = dir, listening.TLS{Mode: listening.TLSInternal, Domains: []string{"gw.example"}}
	s := &overHTTP3{stub: &stub{config: cfg, serve: serve}, t: t, log: &logtest.Buffer{},
		roots: x509.NewCertPool(), ended: make(chan error, 1)}
	source, err := certs.Open(certs.Options{Config: &cfg, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	o := options(s.stub, s.log)
	o.Certificates = source
	if s.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil || !s.roots.AppendCertsFromPEM(ca) {
		t.Fatalf("the authority: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- s.server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		s.server.http3.close()
	})
	return s
}

// tls returns the configuration of a client.
func (s *overHTTP3) tls() *tls.Config {
	return &tls.Config{RootCAs: s.roots, ServerName: "gw.example", NextProtos: []string{http3.NextProtoH3}}
}

// client returns a client with a connection of its own.
func (s *overHTTP3) client() *http.Client {
	transport := &http3.Transport{
		TLSClientConfig: s.tls(), DisableCompression: true,
		Dial: func(ctx context.Context, _ string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, s.server.Address(nameHTTP3), t, c)
		},
	}
	s.t.Cleanup(func() { transport.Close() })
	return &http.Client{Transport: transport, Timeout: patience}
}

// send sends a request and returns the response with its whole body.
func (s *overHTTP3) send(c *http.Client, r *http.Request) (*http.Response, string) {
	s.t.Helper()
	response, err := c.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatalf("%s %s: the body: %v", r.Method, r.URL, err)
	}
	return response, string(body)
}

func (s *overHTTP3) request(method, path string, body io.Reader) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "https://gw.example"+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// A request over HTTP/3 looks to the handler as one over HTTP/2 does.
func TestHTTP3Requests(t *testing.T) {
	t.Parallel()
	s := serveHTTP3(t, config.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, hosts := r.Header["Host"]
		_, expects := r.Header["Expect"]
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s %s %s %s from %s, tls %t, length %d, no body %t, %q %v, fields %t %t",
			r.Proto, r.Method, r.Host, r.RequestURI, host, r.TLS != nil, r.ContentLength,
			r.Body == http.NoBody, body, err, hosts, expects)
	})
	c := s.client()
	for _, a := range []struct {
		method, body string
		known        bool // the length of the body
		want         string
	}{
		{"GET", "", true, "length 0, no body true, \"\""},
		{"DELETE", "", true, "length 0, no body true, \"\""},
		{"POST", "", true, "length 0, no body true, \"\""},
		{"POST", "body", true, "length 4, no body false, \"body\""},
		{"POST", "body", false, "length -1, no body false, \"body\""},
		{"DELETE", "body", false, "length -1, no body false, \"body\""},
		{"GET", "b", false, "length -1, no body false, \"b\""},
		{"GET", "", false, "length 0, no body true, \"\""},
	} {
		var body io.Reader
		if a.body != "" || !a.known {
			body = strings.NewReader(a.body)
		}
		if !a.known {
			body = io.MultiReader(body)
		}
		r := s.request(a.method, "/a%20b?c", body)
		want := "HTTP/3.0 " + a.method + " gw.example /a%20b?c from 127.0.0.1, tls true, " + a.want +
			" <nil>, fields false false"
		if response, got := s.send(c, r); response.StatusCode != 200 || got != want {
			t.Errorf("%s %q, known %t: %d %s\nwant %s", a.method, a.body, a.known, response.StatusCode, got, want)
		}
	}
	large := bytes.Repeat([]byte("x"), 8<<20) // more than all windows
	r := s.request("POST", "/", bytes.NewReader(large))
	if _, got := s.send(c, r); len(got) < len(large) {
		t.Errorf("of a large body %d bytes came back", len(got))
	}
}

// The header of an answer is what it was at WriteHeader, without what belongs to
// connections of HTTP/1.1, and trailers follow, as over HTTP/2.
func TestHTTP3Answers(t *testing.T) {
	t.Parallel()
	s := serveHTTP3(t, config.Config{}, answerOddly)
	c := s.client()
	for _, path := range []string{"/", "/flushed"} {
		var early []string
		r := s.request("GET", path, nil)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				early = append(early, fmt.Sprint(code, h))
				return nil
			},
		}))
		a, body := s.send(c, r)
		if a.StatusCode != http.StatusAccepted || body != "body" ||
			!slices.Equal(a.Header["Set-Cookie"], []string{"a=1", "c=3"}) {
			t.Errorf("%s: %d %q, cookies %q", path, a.StatusCode, body, a.Header["Set-Cookie"])
		}
		if want := []string{"103 map[Link:[</style.css>; rel=preload]]"}; !slices.Equal(early, want) {
			t.Errorf("%s: informational answers %q, want %q", path, early, want)
		}
		for _, name := range []string{
			"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding",
			"Upgrade", "Late", "Link", "Bad Name", "Bad name", "Announced",
		} {
			if values, ok := a.Header[name]; ok {
				t.Errorf("%s: the header has %s %q", path, name, values)
			}
		}
		if a.Trailer.Get("Announced") != "at the end" || a.Trailer.Get("Unannounced") != "too" ||
			len(a.Trailer["Never"]) > 0 {
			t.Errorf("%s: the trailer is %v", path, a.Trailer)
		}
	}
	a, _ := s.send(c, s.request("HEAD", "/", nil))
	if length, ok := a.Header["Content-Length"]; ok {
		t.Errorf("HEAD: Content-Length %q", length)
	}
}

// answerOddly changes the header at the wrong times.
func answerOddly(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Link", "</style.css>; rel=preload")
	h["Content-Length"] = nil // as the gateway does
	w.WriteHeader(http.StatusEarlyHints)
	delete(h, "Link")
	delete(h, "Content-Length")
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		h.Set(name, "close")
	}
	h["Set-Cookie"] = []string{"a=1", "b=\x01", "c=3"}
	h["Bad Name"] = []string{"x"}
	h.Set("Trailer", "Announced, Never")
	w.WriteHeader(http.StatusAccepted)
	delete(h, "Set-Cookie")
	h.Set("Late", "1")
	h.Set("Announced", "at the end")
	h.Set(http.TrailerPrefix+"Unannounced", "too")
	_, _ = io.WriteString(w, "body") // the client tells
	if r.URL.Path == "/flushed" {
		_ = http.NewResponseController(w).Flush() // the client tells
	}
}

// A client that waits for 100 (Continue) gets it once, when the body is read.
func TestHTTP3Expect(t *testing.T) {
	t.Parallel()
	s := serveHTTP3(t, config.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			_, _ = io.Copy(io.Discard, r.Body) // the client tells
			w.WriteHeader(http.StatusContinue) // that of an upstream
		}
		w.WriteHeader(http.StatusNoContent)
		_, _ = r.Body.Read(make([]byte, 1)) // too late to ask for it
	})
	for path, want := range map[string]int{"/read": 1, "/unread": 0} {
		asked := 0
		r := s.request("POST", path, strings.NewReader(strings.Repeat("x", 200_000)))
		r.Header.Set("Expect", "100-continue")
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				if code == 100 {
					asked++
				}
				return nil
			},
		}))
		if a, _ := s.send(s.client(), r); a.StatusCode != 204 || asked != want {
			t.Errorf("%s: %d, asked %d times, want %d", path, a.StatusCode, asked, want)
		}
	}
}

// Header fields are bounded. An aborted answer does not seem whole.
func TestHTTP3Ends(t *testing.T) {
	t.Parallel()
	served := make(chan string, 10)
	cfg := config.Config{Limits: config.Limits{MaxHeaderBytes: 8 << 10}}
	s := serveHTTP3(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		served <- r.URL.Path
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := s.client()
	r := s.request("GET", "/large", nil)
	r.Header.Set("X-Large", strings.Repeat("x", 9<<10))
	if a, _ := s.send(c, r); a.StatusCode != http.StatusRequestHeaderFieldsTooLarge || len(served) > 0 {
		t.Errorf("a large header: %d, %d requests served", a.StatusCode, len(served))
	}
	var body []byte
	a, err := c.Do(s.request("GET", "/aborted", nil))
	if err == nil {
		body, err = io.ReadAll(a.Body)
		a.Body.Close()
	}
	if err == nil || len(served) != 1 {
		t.Errorf("an aborted answer: %q", body)
	}
	if log := s.log.String(); strings.Contains(log, "/large") || strings.Contains(log, "/aborted") {
		t.Errorf("http3 logs requests:\n%s", log)
	}
}

// ticketCache tells when it gets a ticket.
type ticketCache struct {
	tls.ClientSessionCache
	stored chan struct{}
}

// Put implements tls.ClientSessionCache.
func (c *ticketCache) Put(key string, state *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, state)
	if state != nil {
		c.stored <- struct{}{}
	}
}

// A client that resets its streams cannot have more requests served at once than
// one that does not: a stream counts until its request has ended.
func TestHTTP3RapidReset(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	s := serveHTTP3(t, config.Config{}, func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-release // whether or not the client has left
	})
	c := s.client()
	ask := func(ctx context.Context) (ended chan struct{}) {
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			if a, err := c.Do(s.request("GET", "/", nil).WithContext(ctx)); err == nil {
				a.Body.Close()
			}
		}()
		return ended
	}
	for range requestStreams {
		ctx, cancel := context.WithCancel(t.Context())
		ended := ask(ctx)
		<-began
		cancel()
		<-ended
	}
	last := ask(t.Context())
	select {
	case <-began:
		t.Error("one request more is served")
	case <-time.After(200 * time.Millisecond): // long enough for a request
		release <- struct{}{}
		<-began
	}
	close(release)
	<-last
}

// A session may be resumed, but nothing is sent before the handshake is done: an
// attacker could replay it.
func TestHTTP3NoEarlyData(t *testing.T) {
	t.Parallel()
	s := serveHTTP3(t, config.Config{}, nil)
	cfg := s.tls()
	tickets := &ticketCache{tls.NewLRUClientSessionCache(1), make(chan struct{}, 10)}
	cfg.ClientSessionCache = tickets
	for attempt := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := quic.DialAddrEarly(ctx, s.server.Address(nameHTTP3), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.HandshakeComplete():
		case <-ctx.Done():
			t.Fatal("no handshake")
		}
		select {
		case <-tickets.stored:
		case <-ctx.Done():
			t.Fatal("no ticket")
		}
		if state := c.ConnectionState(); state.Used0RTT || state.TLS.DidResume != (attempt == 1) {
			t.Errorf("attempt %d: 0-RTT %t, resumed %t", attempt, state.Used0RTT, state.TLS.DidResume)
		}
		_ = c.CloseWithError(0, "") // it is open
	}
}

// refusesClients waits until new clients are refused.
func (s *overHTTP3) refusesClients() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		c := s.client()
		c.Timeout = time.Second
		if _, err := c.Do(s.request("GET", "/", nil)); err != nil {
			return
		}
	}
	s.t.Error("new clients are accepted")
}

// At the stop clients get GOAWAY. Requests in flight are answered to the end, and
// clients that stay do not delay the end.
func TestHTTP3Drain(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	large := strings.Repeat("x", 1<<20)
	s := serveHTTP3(t, config.Config{ShutdownTimeout: 2 * patience}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-release
		}
		_, _ = io.WriteString(w, large) // the client tells
	})
	busy := s.client()
	stays, err := quic.DialAddr(t.Context(), s.server.Address(nameHTTP3), s.tls(), &quic.Config{MaxIdleTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stays.CloseWithError(0, "") }() // the server has closed it
	answered := make(chan string, 1)
	go func() {
		a, err := busy.Do(s.request("GET", "/slow", nil))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		answered <- fmt.Sprint(len(body), err)
	}()
	<-began
	s.stop()
	s.refusesClients()
	select {
	case err := <-s.ended:
		t.Fatalf("Serve returns while a request is in flight: %v", err)
	default:
	}
	close(release)
	if got, want := <-answered, fmt.Sprint(len(large), nil); got != want {
		t.Errorf("the request in flight: %s, want %s", got, want)
	}
	select {
	case err := <-s.ended:
		if err != nil || strings.Contains(s.log.String(), "cut off") {
			t.Errorf("Serve: %v\n%s", err, s.log)
		}
	case <-time.After(patience):
		t.Error("clients that stay delay the end")
	}
}

// Requests that are still in flight at the end of the time are cut off.
func TestHTTP3Cut(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	cfg := config.Config{ShutdownTimeout: 100 * time.Millisecond}
	s := serveHTTP3(t, cfg, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
	answered := make(chan error, 1)
	go func() {
		_, err := s.client().Do(s.request("GET", "/", nil))
		answered <- err
	}()
	<-began
	s.stop()
	if err := <-answered; err == nil {
		t.Error("the request is answered")
	}
	if err := <-s.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if line := s.log.Last(t, "requests were cut off"); line["listener"] != nameHTTP3 {
		t.Errorf("logged %v", line)
	}
}

// The listener is named when it cannot be opened, and counts its connections.
func TestHTTP3Listener(t *testing.T) {
	t.Parallel()
	s := serveHTTP3(t, config.Config{}, nil)
	s.send(s.client(), s.request("GET", "/", nil))
	if n := s.server.http3.clients.Open(); n != 1 {
		t.Errorf("%d connections are open", n)
	}
	for address, want := range map[string]string{
		s.server.Address(nameHTTP3): "in use", "nowhere.invalid:1": "nowhere.invalid",
	} {
		cfg := s.config
		cfg.Listen.HTTP3 = address
		o := options(&stub{config: cfg}, &logtest.Buffer{})
		o.Certificates = s.server.certs
		if _, err := New(o); err == nil ||
			!strings.Contains(err.Error(), "listen.http3") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if s.stop(); !errors.Is(<-s.ended, nil) {
		t.Error("Serve fails")
	}
}
