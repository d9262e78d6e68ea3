//go:build unix

package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

// elsewhere is an address that this machine does not have: to listen there fails.
const elsewhere = "192.0.2.1:443"

// holder is a process that opens sockets and keeps them, like systemd.
type holder struct {
	t       *testing.T
	sockets map[string]any // by the name of the socket, and udp
	dir     string         // of the authority of its gateways
	roots   *x509.CertPool
}

func hold(t *testing.T) *holder {
	t.Helper()
	h := &holder{t: t, sockets: map[string]any{}, dir: t.TempDir(), roots: x509.NewCertPool()}
	for _, name := range []string{nameHTTPS, nameHTTP} {
		h.sockets[name] = must.Get(net.Listen("tcp", anyPort))(t)
	}
	h.sockets[nameAdmin] = must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "admin.sock")))(t)
	h.sockets["udp"] = must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	t.Cleanup(func() {
		for _, socket := range h.sockets {
			socket.(io.Closer).Close()
		}
	})
	return h
}

// file returns a copy of a socket with the name of a listener, as another process gets it.
func file(t *testing.T, socket any, name string) *os.File {
	t.Helper()
	return named(t, must.Get(socket.(interface{ File() (*os.File, error) }).File())(t), name)
}

// named closes f and returns a copy of it with a name.
func named(t *testing.T, f *os.File, name string) *os.File {
	t.Helper()
	defer f.Close()
	return os.NewFile(uintptr(must.Get(syscall.Dup(int(f.Fd())))(t)), name)
}

// pass returns the sockets as the next gateway gets them.
func (h *holder) pass(names ...string) Sockets {
	h.t.Helper()
	var files []*os.File
	for _, name := range names {
		files = append(files, file(h.t, h.sockets[name], strings.Replace(name, "udp", nameHTTPS, 1)))
	}
	return must.Get(NewSockets(files))(h.t)
}

// at returns the address of a socket.
func (h *holder) at(name string) string {
	if udp, ok := h.sockets[name].(*net.UDPConn); ok {
		return udp.LocalAddr().String()
	}
	return h.sockets[name].(net.Listener).Addr().String()
}

// run runs a gateway on all sockets. The configured addresses are none of this machine.
func (h *holder) run(serve http.HandlerFunc) (stop context.CancelFunc, ended <-chan error, log *logtest.Buffer) {
	h.t.Helper()
	cfg := config.Config{DataDir: h.dir, ShutdownTimeout: patience,
		Listen: listening.Listen{
			HTTPS: elsewhere, HTTP3: elsewhere, HTTP: elsewhere, Admin: elsewhere, IdleTimeout: idleTime,
			ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		},
		TLS: listening.TLS{Mode: listening.TLSInternal, Domains: []string{"gw.example"}}}
	log = &logtest.Buffer{}
	o := options(&stub{config: cfg, serve: serve}, log)
	o.Certificates = must.Get(certs.Open(certs.Options{
		Config: &cfg, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}))(h.t)
	o.Sockets = h.pass(nameHTTPS, nameHTTP, nameAdmin, "udp")
	s := must.Get(New(o))(h.t)
	h.roots.AppendCertsFromPEM(must.Get(os.ReadFile(filepath.Join(h.dir, "ca.pem")))(h.t))
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- s.Serve(ctx) }()
	h.t.Cleanup(cancel)
	return cancel, end, log
}

// dial opens a connection to a socket, from an address of this machine.
func (h *holder) dial(name, from string) net.Conn {
	h.t.Helper()
	dialer := net.Dialer{}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c := must.Get(dialer.Dial(h.sockets[name].(net.Listener).Addr().Network(), h.at(name)))(h.t)
	must.Do(h.t, c.SetDeadline(time.Now().Add(patience)))
	h.t.Cleanup(func() { c.Close() })
	return c
}

// get sends a request on a connection, and returns the status and the body.
func (h *holder) get(c net.Conn, path string) string {
	h.t.Helper()
	must.Get(io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: gw.example\r\n\r\n"))(h.t)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	body := must.Get(io.ReadAll(answer.Body))(h.t)
	return fmt.Sprint(answer.StatusCode, " ", string(body))
}

func (h *holder) tls(protocol string) *tls.Config {
	return &tls.Config{RootCAs: h.roots, ServerName: "gw.example", NextProtos: []string{protocol}}
}

func address(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }

// A gateway serves on the sockets that it got, whatever addresses are configured: over TLS,
// HTTP/3 and plain HTTP, with the PROXY protocol of balancers, and on a path for the admin
// listener. It opens none: their ports can need a right that it does not have.
func TestSocketsServe(t *testing.T) {
	t.Parallel()
	h := hold(t)
	stop, ended, log := h.run(address)
	secure := tls.Client(h.dial(nameHTTPS, ""), h.tls("http/1.1"))
	if got, want := h.get(secure, "/"), "200 "+secure.LocalAddr().String(); got != want {
		t.Errorf("https: %q, want %q", got, want)
	}
	balanced := h.dial(nameHTTPS, "127.0.0.2")
	must.Get(io.WriteString(balanced, "PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n"))(t)
	if got := h.get(tls.Client(balanced, h.tls("http/1.1")), "/"); got != "200 203.0.113.9:4097" {
		t.Errorf("through a balancer: %q", got)
	}
	if got := h.get(h.dial(nameHTTP, ""), "/"); got != "308 " {
		t.Errorf("http: %q", got)
	}
	if got := h.get(h.dial(nameAdmin, ""), "/healthz"); !strings.HasPrefix(got, `200 {"status":"alive"`) {
		t.Errorf("admin: %q", got)
	}
	transport := &http3.Transport{TLSClientConfig: h.tls(http3.NextProtoH3),
		Dial: func(ctx context.Context, _ string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, h.at("udp"), t, c)
		}}
	defer transport.Close()
	if answer, err := (&http.Client{Transport: transport}).Get("https://gw.example/"); err != nil ||
		answer.StatusCode != 200 {
		t.Errorf("HTTP/3: %v", err)
	}
	for _, line := range log.Records(t, "listening") {
		if name := line["listener"]; name != nameHTTP3 && line["inherited"] != true {
			t.Errorf("logged %v", line)
		}
	}
	stop()
	must.Do(t, <-ended)
}

// At the stop, requests in flight and connections whose handshake has begun get their answers.
// New connections wait, and are those of the next gateway.
func TestSocketsHandOver(t *testing.T) {
	t.Parallel()
	h := hold(t)
	began, release := make(chan struct{}), make(chan struct{})
	by := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(began)
				<-release
			}
			_, _ = io.WriteString(w, name)
		}
	}
	stop, ended, log := h.run(by("first"))
	slow, late := make(chan string, 1), h.dial(nameHTTPS, "")
	go func() { slow <- h.get(tls.Client(h.dial(nameHTTPS, ""), h.tls("http/1.1")), "/slow") }()
	<-began // and so late is accepted
	stop()
	must.Eventually(t, "the stop", func() bool { return len(log.Records(t, "stopping")) == 1 })
	if got := h.get(tls.Client(late, h.tls("http/1.1")), "/"); got != "200 first" {
		t.Errorf("the connection before the stop: %q", got)
	}
	must.Eventually(t, "connections to wait", func() bool {
		c := h.dial(nameHTTP, "")
		must.Do(t, c.SetDeadline(time.Now().Add(100*time.Millisecond)))
		must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: gw.example\r\n\r\n"))(t)
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	})
	waits := h.dial(nameHTTPS, "")
	close(release)
	if got := <-slow; got != "200 first" {
		t.Errorf("the request in flight: %q", got)
	}
	must.Do(t, <-ended)
	if strings.Contains(log.String(), "cut off") {
		t.Errorf("the log is %s", log)
	}
	stop, ended, _ = h.run(by("second"))
	if got := h.get(tls.Client(waits, h.tls("http/1.1")), "/"); got != "200 second" {
		t.Errorf("the connection that waits: %q", got)
	}
	stop()
	must.Do(t, <-ended)
}

// A socket that no listener can use is an error that names it.
func TestSocketsRefused(t *testing.T) {
	t.Parallel()
	h := hold(t)
	datagrams := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "x")}))(t)
	defer datagrams.Close()
	plain := must.Get(os.CreateTemp(t.TempDir(), "x"))(t)
	for name, c := range map[string]struct {
		files []*os.File
		want  string
	}{
		"another name": {[]*os.File{file(t, h.sockets[nameHTTP], "authgate.socket")},
			`"authgate.socket" (FileDescriptorName=, LISTEN_FDNAMES): no listener has this name; ` +
				`name it https, http or admin`},
		"a path": {[]*os.File{file(t, h.sockets[nameAdmin], nameHTTP)},
			`"http" (FileDescriptorName=, LISTEN_FDNAMES): it is at "` + h.at(nameAdmin) + `"; this listener needs TCP`},
		"two": {[]*os.File{file(t, h.sockets[nameHTTPS], nameHTTPS), file(t, h.sockets[nameHTTP], nameHTTPS)},
			`"https" (FileDescriptorName=, LISTEN_FDNAMES): there are two; give one address`},
		"two of UDP": {[]*os.File{file(t, h.sockets["udp"], nameHTTPS), file(t, h.sockets["udp"], nameHTTPS)},
			`"https" (FileDescriptorName=, LISTEN_FDNAMES): there are two for datagrams`},
		"UDP for http": {[]*os.File{file(t, h.sockets["udp"], nameHTTP)},
			`"http" (FileDescriptorName=, LISTEN_FDNAMES): the only datagram socket is one of UDP for HTTP/3`},
		"datagrams at a path": {[]*os.File{file(t, datagrams, nameHTTPS)},
			"the kind unixgram; this listener needs ListenStream="},
		"datagrams for admin": {[]*os.File{file(t, datagrams, nameAdmin)},
			"the kind unixgram; this listener needs ListenStream="},
		"no socket": {[]*os.File{named(t, plain, nameHTTPS)},
			"neither a listening socket nor one for datagrams"},
	} {
		if _, err := NewSockets(c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		sockets []string
		mode    string
		listen  listening.Listen
		want    string
	}{
		"https behind a proxy": {[]string{nameHTTPS}, listening.TLSOff, listening.Listen{HTTP: anyPort},
			`"https" (FileDescriptorName=, LISTEN_FDNAMES): listen.https is off`},
		"admin that is off": {[]string{nameAdmin}, listening.TLSInternal, listening.Listen{HTTPS: anyPort},
			`"admin" (FileDescriptorName=, LISTEN_FDNAMES): listen.admin is off`},
		"HTTP/3 that is off": {[]string{nameHTTPS, "udp"}, listening.TLSInternal, listening.Listen{HTTPS: elsewhere},
			`"https" (FileDescriptorName=, LISTEN_FDNAMES): listen.http3 is off`},
	} {
		cfg := config.Config{Listen: c.listen, TLS: listening.TLS{Mode: c.mode}}
		o := options(&stub{config: cfg}, &logtest.Buffer{})
		if c.mode != listening.TLSOff {
			o.Certificates = certificates{}
		}
		o.Sockets = h.pass(c.sockets...)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The addresses of sockets are as in a configuration: without a host for all of them. A path is
// none.
func TestSocketAddresses(t *testing.T) {
	t.Parallel()
	h := hold(t)
	all := must.Get(net.Listen("tcp", ":0"))(t)
	defer all.Close()
	_, port, _ := net.SplitHostPort(all.Addr().String())
	h.sockets[nameHTTP].(net.Listener).Close()
	h.sockets[nameHTTP] = all
	want := map[string]string{
		"listen.https": h.at(nameHTTPS), "listen.http3": h.at("udp"), "listen.http": ":" + port,
	}
	if got := h.pass(nameHTTPS, nameHTTP, nameAdmin, "udp").Addresses(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
