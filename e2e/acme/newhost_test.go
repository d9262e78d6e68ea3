package acme

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"testing"

	"authgate/e2e/world"
)

// TestACMENewHost: a reload adds a host, which gets a certificate, and removes another,
// which gets none any more. A connection to the host that stays goes on.
func TestACMENewHost(t *testing.T) {
	t.Parallel()
	p, up := startPebble(t, days), world.Record(t)
	const goes, comes = "goes." + gateName, "comes." + gateName
	g := p.gateway("127.0.0.1", p.http, p.https)
	for _, name := range []string{gateName, goes, comes} {
		p.leadsTo(name, "127.0.0.1")
	}
	g.domains = []string{gateName, goes}
	g.configure(gated + world.App(up.URL))
	g.Run()
	roots := p.trust()
	g.obtains(roots)
	stays := g.visitor(&tls.Config{RootCAs: roots}, false)
	if a := g.Do(stays, "GET", "/open", ""); a.Status != http.StatusOK {
		t.Fatalf("before: %d %s", a.Status, a.Body)
	}

	g.domains = []string{comes, gateName} // also another first one
	g.configure(gated + world.App(up.URL))
	g.obtains(roots)
	var reused bool
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	traced := httptrace.WithClientTrace(t.Context(), trace)
	request := world.Must(http.NewRequestWithContext(traced, "GET", g.Base+"/open", nil))(t)
	answer := world.Must(stays.Do(request))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || !reused {
		t.Errorf("after: %d, over the same connection: %t", answer.StatusCode, reused)
	}
	if got := g.serves(roots, goes); got != nil {
		t.Errorf("the removed host is served the certificate of %v", got.DNSNames)
	}
	if n := len(p.issued()); n != 3 {
		t.Errorf("pebble has issued %d certificates, want one for each name", n)
	}
}
