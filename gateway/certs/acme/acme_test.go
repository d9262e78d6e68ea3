package acme

import (
	"encoding/asn1"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// Open takes what the storage has, and asks neither the authority nor a responder of
// OCSP. A certificate that was not renewed in time is a problem, whatever the cause.
// Close ends what Open began: what there is stays served, even if it has expired.
func TestOpenTakesWhatThereIs(t *testing.T) {
	var asked atomic.Bool
	responder := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer responder.Close()
	late, old, none := newName(), newName(), newName()
	r := newRig(t, late, old, none)
	a, b, c := issue(r.name, 49*time.Minute, time.Hour, responder.URL), issue(late, 51*time.Minute, time.Hour),
		issue(old, 2*time.Hour, time.Hour)
	keep(t, r.storage, r.name, a)
	keep(t, r.storage, late, b)
	keep(t, r.storage, old, c)
	r.open(t)
	want := []Certificate{ // a sixth of an hour is 10 minutes
		{Domain: r.name, Begins: a.leaf.NotBefore, Expires: a.leaf.NotAfter},
		{Domain: late, Begins: b.leaf.NotBefore, Expires: b.leaf.NotAfter, Problem: problemOverdue},
		{Domain: old, Begins: c.leaf.NotBefore, Expires: c.leaf.NotAfter, Problem: problemOverdue}, {Domain: none},
	}
	if got := r.Certificates(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.Manage(r.names)
	for range 2 {
		r.wantServed(t, a, r.name, strings.ToUpper(r.name), "", "unknown.example", none)
		r.wantServed(t, c, old)
		r.Close()
	}
	if r.wantAsked(t, false); asked.Load() {
		t.Error("the responder of OCSP was asked")
	}
}

// With an empty storage no certificate is served, and there is no problem yet.
// A storage that cannot be read is a problem, and does not prevent the start.
func TestOpenWithNothing(t *testing.T) {
	r := newRig(t).open(t)
	r.wantAfter(t, 0, pair{}, "", false)
	for _, asked := range []string{r.name, "", "unknown.example"} {
		if got, err := r.handshake(asked); err == nil {
			t.Errorf("a client that asks for %q gets %v", asked, got.DNSNames)
		}
	}
	r = newRig(t)
	r.keep(t, 0, time.Hour)
	r.spy.fail(always)
	r.open(t).want(t, pair{}, errDown.Error())
	if !strings.Contains(r.log.String(), "there is no certificate yet") {
		t.Errorf("logged: %s", &r.log)
	}
}

// The issuer has the ports of the listeners. Without a plain listener there is no
// challenge over HTTP.
func TestOpenPorts(t *testing.T) {
	for _, c := range []struct {
		plain, secure, host string
		httpPort, tlsPort   int
		fault               string
	}{
		{":80", ":443", "", 80, 443, ""},
		{"", "[::1]:8443", "::1", 0, 8443, ""},
		{"192.0.2.1:8080", "192.0.2.1:8443", "192.0.2.1", 8080, 8443, ""},
		{":http", ":443", "", 0, 0, `the listener ":http"`},
		{"", "443", "", 0, 0, `the listener "443"`},
	} {
		m, err := Open(t.Context(), Options{
			Domains: []string{newName()}, HTTP: c.plain, HTTPS: c.secure,
			Logger: slog.New(slog.DiscardHandler), Storage: newStorage(t, newSpy(t), "a"),
		})
		if err != nil || c.fault != "" {
			if err == nil || c.fault == "" || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("Open: %v, want %q", err, c.fault)
			}
			continue
		}
		m.Close()
		i := m.issuer
		if i.ListenHost != c.host || i.AltHTTPPort != c.httpPort || i.AltTLSALPNPort != c.tlsPort ||
			i.DisableHTTPChallenge != (c.plain == "") || i.CA != certmagic.LetsEncryptProductionCA {
			t.Errorf("listeners %q and %q: %s, host %q, ports %d and %d, no HTTP-01: %t",
				c.plain, c.secure, i.CA, i.ListenHost, i.AltHTTPPort, i.AltTLSALPNPort, i.DisableHTTPChallenge)
		}
	}
	if m, err := Open(t.Context(), Options{HTTPS: ":443"}); err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("Open = %v, %v; want an error about the names", m, err)
	}
}

// begin puts a challenge into the storage, as an instance does that has begun
// one.
func begin(t *testing.T, s certmagic.Storage, kind, name string) {
	t.Helper()
	challenge := must(json.Marshal(map[string]any{
		"type": kind, "token": "token", "keyAuthorization": "token.thumbprint",
		"identifier": map[string]string{"type": "dns", "value": name},
	}))
	put(t, s, "acme/"+certmagic.StorageKeys.Safe(issuerKey())+"/challenge_tokens/"+name+".json", string(challenge))
}

// wantCalls fails the test unless do calls the store so often.
func (r *rig) wantCalls(t *testing.T, what string, want int, do func()) {
	t.Helper()
	r.spy.fail(nil)
	if do(); r.spy.count() != want {
		t.Errorf("%s: %d calls of the store, want %d", what, r.spy.count(), want)
	}
}

// The special handshake of a challenge is answered by any instance, for
// configured names alone: others do not get as far as the store.
func TestTLSChallenge(t *testing.T) {
	second := newName()
	r := newRig(t, second)
	a := r.keep(t, 0, time.Hour)
	begin(t, r.storage, "tls-alpn-01", second)
	r.open(t)
	for _, name := range []string{"", "x." + second} {
		r.wantCalls(t, name, 0, func() {
			if got, err := r.handshake(name, Protocol); err == nil || !strings.Contains(err.Error(), "none of tls.domains") {
				t.Errorf("a challenge for %q: %v, %v", name, got, err)
			}
		})
	}
	if got, err := r.handshake(r.name, Protocol); err == nil {
		t.Errorf("a challenge that was not begun: %v", got.DNSNames)
	}
	acmeIdentifier := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31} // RFC 8737, section 6.1
	got, err := r.handshake(strings.ToUpper(second), Protocol)
	if err != nil || !slices.Equal(got.DNSNames, []string{second}) ||
		!slices.ContainsFunc(got.UnhandledCriticalExtensions, acmeIdentifier.Equal) {
		t.Fatalf("a challenge is answered with the certificate %+v, %v", got, err)
	}
	r.wantCalls(t, "one protocol of several", 0, func() {
		if got, err := r.handshake(second, Protocol, "h2"); err != nil || !got.Equal(a.leaf) {
			t.Errorf("a client of several protocols: %v", err)
		}
	})
}

// A challenge over HTTP is answered for configured names alone. Other requests do not
// get as far as the store.
func TestAnswerChallenge(t *testing.T) {
	other := newName()
	r := newRig(t, other)
	begin(t, r.storage, "http-01", r.name)
	begin(t, r.storage, "http-01", "unknown.example") // which another gateway may do in the same store
	r.open(t)
	const path, answer = "/.well-known/acme-challenge/token", "token.thumbprint"
	want := func(what, method, host, path, body string) {
		t.Helper()
		w, request := httptest.NewRecorder(), httptest.NewRequest(method, "http://"+other+path, nil)
		request.Host = host
		answered := r.AnswerChallenge(w, request)
		if answered != (body != "") || w.Body.String() != body || !answered && len(w.Header()) != 0 {
			t.Errorf("%s: answered %t, %v %s, want %q", what, answered, w.Header(), w.Body, body)
		}
	}
	for _, c := range []struct {
		what, method, host, path, body string
		calls                          int // of the store
	}{
		{"the name", "GET", r.name, path, answer, 1},
		{"a port and capitals", "GET", strings.ToUpper(r.name) + ":80", path, answer, 1},
		{"a foreign host", "GET", "unknown.example", path, "", 0},
		{"a host below", "GET", "x." + r.name, path, "", 0},
		{"a host that is none", "GET", "[" + r.name, path, "", 0},
		{"a host with a dot", "GET", r.name + ".", path, "", 0},
		{"another path", "GET", r.name, "/", "", 0},
		{"another method", "POST", r.name, path, "", 0},
		{"another token", "GET", r.name, path + "s", "", 1},
		{"no challenge", "GET", other, path, "", 1},
	} {
		r.wantCalls(t, c.what, c.calls, func() { want(c.what, c.method, c.host, c.path, c.body) })
	}
	r.spy.fail(always)
	want("a store that is down", "GET", r.name, path, "")
	r.spy.fail(nil)
	r.issuer.DisableHTTPChallenge = true // as without Options.HTTP
	want("a challenge that is not to be used", "GET", r.name, path, "")
}
