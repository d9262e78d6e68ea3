package acme

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// handshake returns the certificate that a client is shown which asks for a
// name and offers these protocols.
func handshake(t testing.TB, m *Manager, name string, protocols ...string) (*x509.Certificate, error) {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	served := make(chan error, 1)
	go func() {
		defer server.Close()
		served <- tls.Server(server, &tls.Config{GetCertificate: m.GetCertificate, NextProtos: []string{"h2", Protocol}}).Handshake()
	}()
	conn := tls.Client(client, &tls.Config{ServerName: name, NextProtos: protocols, InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		return nil, errors.Join(err, <-served)
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// wantServed fails the test unless a client that asks for a name is shown the
// certificate of p.
func wantServed(t testing.TB, m *Manager, name string, p pair) {
	t.Helper()
	if got, err := handshake(t, m, name, "h2"); err != nil || !got.Equal(p.leaf) {
		t.Errorf("a client that asks for %q: %v", name, err)
	}
}

func TestOpenTakesWhatThereIs(t *testing.T) {
	first, second, none := newName(), newName(), newName()
	a, b := issue(t, first, time.Hour, 90*24*time.Hour), issue(t, second, 2*time.Hour, time.Hour) // b has expired
	r := newRig(t, []string{first, second, none}, func(r *rig) {
		keep(t, r.storage, first, a)
		keep(t, r.storage, second, b)
	})
	if got := r.Certificates(); len(got) != 3 || got[0] != (Certificate{Domain: first, Expires: a.leaf.NotAfter}) ||
		got[1] != (Certificate{Domain: second, Expires: b.leaf.NotAfter, Problem: problemOverdue}) || got[2] != (Certificate{Domain: none}) {
		t.Errorf("there is %+v", got)
	}
	for _, name := range []string{first, strings.ToUpper(first), "", "unknown.example", none} {
		wantServed(t, r.Manager, name, a)
	}
	wantServed(t, r.Manager, second, b)
	if err := r.Refresh(); err != nil || r.asked() {
		t.Errorf("Refresh: %v\n%s", err, r.log)
	}
}

// Open does not wait for an OCSP responder.
func TestOpenAsksNoResponder(t *testing.T) {
	responder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	name := newName()
	a := issue(t, name, 0, 90*day, "http://"+responder.Addr().String())
	hanging := time.AfterFunc(2*time.Minute, func() { responder.Close() })
	r := newRig(t, []string{name}, func(r *rig) { keep(t, r.storage, name, a) })
	wantServed(t, r.Manager, name, a)
	if !hanging.Stop() {
		t.Fatal("it waited for the responder")
	}
	if err := responder.(*net.TCPListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if conn, err := responder.Accept(); err == nil {
		conn.Close()
		t.Error("the responder was asked")
	}
}

// With an empty storage no certificate is served, and there is no problem yet.
func TestOpenWithNothing(t *testing.T) {
	name := newName()
	r := newRig(t, []string{name}, func(*rig) {})
	r.want(t, pair{}, "")
	for _, asked := range []string{name, "", "unknown.example"} {
		if got, err := handshake(t, r.Manager, asked); err == nil {
			t.Errorf("a client that asks for %q gets %v", asked, got.DNSNames)
		}
	}
	if r.asked() {
		t.Errorf("the authority is asked before Run:\n%s", r.log)
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"no name":                  {HTTPS: ":443"},
		`the listener ":http"`:     {Domains: []string{"a.example"}, HTTP: ":http", HTTPS: ":443"},
		`the listener "443"`:       {Domains: []string{"a.example"}, HTTPS: "443"},
		`the listener "::1:https"`: {Domains: []string{"a.example"}, HTTPS: "::1:https"},
	} {
		if m, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, %v; want an error about %q", m, err, want)
		}
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plain, secure     string
		host              string
		httpPort, tlsPort int
	}{
		{":80", ":443", "", 80, 443},
		{"", "[::1]:8443", "::1", 0, 8443},
		{"192.0.2.1:8080", "192.0.2.1:8443", "192.0.2.1", 8080, 8443},
	} {
		host, httpPort, tlsPort, err := ports(c.plain, c.secure)
		if err != nil || host != c.host || httpPort != c.httpPort || tlsPort != c.tlsPort {
			t.Errorf("ports(%q, %q) = %q, %d, %d, %v", c.plain, c.secure, host, httpPort, tlsPort, err)
		}
	}
}

// begin puts a challenge into the storage, as an instance does that has begun
// one.
func begin(t *testing.T, s certmagic.Storage, kind, name string) {
	t.Helper()
	challenge, err := json.Marshal(map[string]any{
		"type": kind, "token": "token", "keyAuthorization": "token.thumbprint", "identifier": map[string]string{"type": "dns", "value": name},
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "acme/"+certmagic.StorageKeys.Safe(issuerKey())+"/challenge_tokens/"+name+".json", string(challenge))
}

// calls returns how often the store was called by do.
func (r *rig) calls(do func()) int {
	r.spy.fail(nil)
	do()
	return r.spy.count()
}

// The special handshake of a challenge is answered by any instance, for
// configured names alone: others do not get as far as the store.
func TestTLSChallenge(t *testing.T) {
	first, second := newName(), newName()
	a := issue(t, first, 0, time.Hour)
	r := newRig(t, []string{first, second}, func(r *rig) {
		keep(t, r.storage, first, a)
		begin(t, r.storage, "tls-alpn-01", second)
	})
	for _, name := range []string{"", "unknown.example", "x." + second} {
		calls := r.calls(func() {
			if got, err := handshake(t, r.Manager, name, Protocol); err == nil || !strings.Contains(err.Error(), "none of tls.domains") {
				t.Errorf("a challenge for %q: %v, %v", name, got, err)
			}
		})
		if calls != 0 {
			t.Errorf("a challenge for %q calls the store %d times", name, calls)
		}
	}
	if got, err := handshake(t, r.Manager, first, Protocol); err == nil {
		t.Errorf("a challenge that was not begun: %v", got.DNSNames)
	}
	for _, name := range []string{second, strings.ToUpper(second)} {
		got, err := handshake(t, r.Manager, name, Protocol)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.DNSNames, []string{second}) || !slices.ContainsFunc(got.UnhandledCriticalExtensions, func(id asn1.ObjectIdentifier) bool {
			return id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) // acmeIdentifier (RFC 8737, section 6.1)
		}) {
			t.Errorf("a challenge is answered with the certificate %v", got.DNSNames)
		}
	}
	if calls := r.calls(func() { // one protocol of several: no challenge
		if got, err := handshake(t, r.Manager, second, Protocol, "h2"); err != nil || !got.Equal(a.leaf) {
			t.Errorf("a client of several protocols: %v", err)
		}
	}); calls != 0 {
		t.Errorf("a client of several protocols calls the store %d times", calls)
	}
}

func TestAnswerChallenge(t *testing.T) {
	name, other := newName(), newName()
	r := newRig(t, []string{name, other}, func(r *rig) {
		begin(t, r.storage, "http-01", name)
		begin(t, r.storage, "http-01", "unknown.example") // which another gateway may do in the same store
	})
	const path = "/.well-known/acme-challenge/token"
	answer := func(m *Manager, method, host, path string) (bool, *httptest.ResponseRecorder) {
		w, request := httptest.NewRecorder(), httptest.NewRequest(method, "http://"+other+path, nil)
		request.Host = host
		return m.AnswerChallenge(w, request), w
	}
	for _, host := range []string{name, name + ":80", strings.ToUpper(name)} {
		if answered, w := answer(r.Manager, "GET", host, path); !answered || w.Code != http.StatusOK || w.Body.String() != "token.thumbprint" {
			t.Errorf("%s: %t, %d %s", host, answered, w.Code, w.Body)
		}
	}
	for what, c := range map[string]struct {
		method, host, path string
		calls              int // of the store
	}{
		"a foreign host":       {"GET", "unknown.example", path, 0},
		"a host below":         {"GET", "x." + name, path, 0},
		"no host":              {"GET", "", path, 0},
		"a host that is none":  {"GET", "[" + name, path, 0},
		"another path":         {"GET", name, "/", 0},
		"another method":       {"POST", name, path, 0},
		"another token":        {"GET", name, path + "s", 1},
		"no token":             {"GET", name, "/.well-known/acme-challenge/", 1},
		"no challenge":         {"GET", other, path, 1},
		"no challenge, dotted": {"GET", name + ".", path, 0},
	} {
		calls := r.calls(func() {
			answered, w := answer(r.Manager, c.method, c.host, c.path)
			if answered || w.Body.Len() != 0 || len(w.Header()) != 0 {
				t.Errorf("%s is answered: %t, %v %s", what, answered, w.Header(), w.Body)
			}
		})
		if calls != c.calls {
			t.Errorf("%s calls the store %d times, want %d", what, calls, c.calls)
		}
	}
	r.spy.fail(func(int, string, string) bool { return true })
	if answered, w := answer(r.Manager, "GET", name, path); answered || w.Body.Len() != 0 {
		t.Errorf("with a store that is down: %t, %s", answered, w.Body)
	}
	r.spy.fail(nil)
	r.issuer.DisableHTTPChallenge = true // as without Options.HTTP
	if answered, _ := answer(r.Manager, "GET", name, path); answered {
		t.Error("a challenge is answered that is not to be used")
	}
}

// Close can be called again, and ends what Open began; what there is stays
// served.
func TestClose(t *testing.T) {
	name := newName()
	a := issue(t, name, 0, time.Hour)
	r := newRig(t, []string{name}, func(r *rig) { keep(t, r.storage, name, a) })
	r.Close()
	r.Close()
	wantServed(t, r.Manager, name, a)
	r.want(t, a, "")
}

// Without a plain listener there is no challenge over HTTP.
func TestWithoutPlainListener(t *testing.T) {
	_, logger := newJournal(0)
	for plain, disabled := range map[string]bool{"": true, "127.0.0.1:80": false} {
		m, err := Open(t.Context(), Options{
			Domains: []string{newName()}, HTTP: plain, HTTPS: "127.0.0.1:443", Logger: logger, Storage: NewStorage(newMemory(t), newBox(t, "a"), time.Now),
		})
		if err != nil {
			t.Fatal(err)
		}
		if m.issuer.DisableHTTPChallenge != disabled || m.issuer.CA != certmagic.LetsEncryptProductionCA {
			t.Errorf("with the listener %q: %t, %s", plain, m.issuer.DisableHTTPChallenge, m.issuer.CA)
		}
		m.Close()
	}
}

// A store that cannot be read at the start is logged, and does not
// prevent the start.
func TestOpenWithoutStore(t *testing.T) {
	name := newName()
	a := issue(t, name, 0, time.Hour)
	r := newRig(t, []string{name}, func(r *rig) {
		keep(t, r.storage, name, a)
		r.spy.fail(func(int, string, string) bool { return true })
	})
	r.want(t, pair{}, errDown.Error())
	if !strings.Contains(r.log.String(), "there is no certificate yet") {
		t.Errorf("logged: %s", r.log)
	}
}
