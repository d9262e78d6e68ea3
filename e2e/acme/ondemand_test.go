package acme

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// below is the domain below which a route has a wildcard.
const below = ".apps." + gateName

// TestACMEOnDemand: a name below a wildcard host of a route gets a certificate when
// the first client asks for it, within the bounds. Instances on one Redis share
// certificates and challenges, also those from before a restart.
func TestACMEOnDemand(t *testing.T) {
	t.Parallel()
	p, redis, up := startPebble(t, days), world.StartRedis(t), world.Record(t)
	a, b := p.twins(up, redis)
	for _, g := range []*acmeGateway{a, b} {
		g.more = ", on_demand: {names: 10, burst: 2, every: 1h}"
		g.configure(world.App(up.URL) + world.OnRedis(redis.Address) + world.People + `
routes:
  - {match: /open, upstream: app, auth: [none]}
  - {match: "*` + below + `/", upstream: app, auth: [basic]}
`)
		g.Run()
	}
	for _, label := range []string{"one", "two", "three"} {
		p.leadsTo(label+below, "127.0.0.2") // to B
	}
	roots := p.trust()
	p.leadsTo(gateName, "127.0.0.1")
	a.obtains(roots)
	before := len(p.issued())
	one := a.demands(roots, "one"+below)
	if !slices.Equal(one.DNSNames, []string{"one" + below}) {
		t.Fatalf("the first client of A is shown %v\n%s", one, a.Log)
	}
	if got := b.solved(); got["http-01 for another"]+got["tls-alpn-01 for another"] == 0 {
		t.Errorf("B, to which the name leads, has solved %v", got)
	}
	if other := b.serves(roots, "one"+below); other == nil || !other.Equal(one) {
		t.Error("B serves another certificate")
	}
	b.demands(roots, "two"+below)
	a.reaches(t, up, roots, "one"+below)
	for _, name := range []string{"unknown." + gateName, "a.b" + below, "x.example"} {
		if got := a.serves(roots, name); got != nil {
			t.Errorf("a client that asks for %s is shown %v", name, got.DNSNames)
		}
	}
	if got := len(p.issued()) - before; got != 2 {
		t.Errorf("pebble has issued %d certificates on demand, want 2", got)
	}
	a.afterRestart(t, roots, one)
}

// demands asks for a name until there is a certificate: an order may take longer than a
// handshake waits, and later clients wait for the same one.
func (a *acmeGateway) demands(roots *x509.CertPool, name string) (certificate *x509.Certificate) {
	a.T.Helper()
	world.Until(a.T, "a certificate for "+name, func() bool {
		certificate = a.serves(roots, name)
		return certificate != nil
	})
	return certificate
}

// reaches: a request for a host passes through the gateway.
func (a *acmeGateway) reaches(t *testing.T, up *world.Recorder, roots *x509.CertPool, host string) {
	t.Helper()
	c := a.visitor(&tls.Config{RootCAs: roots}, true)
	request := world.Must(http.NewRequestWithContext(t.Context(), "GET", a.Base+"/x", nil))(t)
	request.Host = host
	request.Header.Set("Authorization", world.BasicService)
	answer := world.Must(c.Do(request))(t)
	answer.Body.Close()
	if m := up.One(t); answer.StatusCode != http.StatusOK || m.Value(t, "X-Auth-User") != "service" {
		t.Errorf("%d, and the upstream gets %q", answer.StatusCode, m.Head)
	}
}

// afterRestart: the bounds begin anew after a restart, and certificates from before cost
// no order. An order for a name that leads nowhere counts too.
func (a *acmeGateway) afterRestart(t *testing.T, roots *x509.CertPool, one *x509.Certificate) {
	t.Helper()
	a.Signal(syscall.SIGTERM)
	<-a.Done
	a.Run()
	if again := a.serves(roots, "one"+below); again == nil || !again.Equal(one) {
		t.Errorf("after a restart A serves %v", again)
	}
	a.demands(roots, "three"+below)
	world.Until(t, "the order for a name that leads nowhere", func() bool {
		return a.serves(roots, "none"+below) == nil &&
			strings.Contains(a.Log.String(), "a certificate that a client asked for cannot be obtained")
	})
	if conn, err := a.shake(roots, "four"+below); err == nil {
		t.Errorf("beyond the bounds: %v\n%s", conn, a.Log)
	}
	world.Until(t, "the reason in the log", func() bool { return strings.Contains(a.Log.String(), "tls.on_demand.burst") })
}
