package acme

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
)

// arrivals are clients that open a connection for each request, with a full
// handshake that checks everything. Each must be served.
type arrivals struct {
	t       testing.TB
	ended   atomic.Bool
	workers sync.WaitGroup
	came    atomic.Int64

	mu   sync.Mutex
	seen []string // serial numbers in the order of their first use
}

// arrive lets clients of both protocols connect, one after another, until end.
func (g *acmeGateway) arrive(config *tls.Config) *arrivals {
	g.T.Helper()
	l := &arrivals{t: g.T}
	for _, protocol := range []string{"http/1.1", "h2"} {
		config := config.Clone()
		config.NextProtos = []string{protocol}
		c := g.visitor(config, true)
		l.workers.Go(func() {
			for tick := time.NewTicker(200 * time.Millisecond); !l.ended.Load(); <-tick.C {
				l.one(c, g.Base+"/open")
			}
		})
	}
	g.T.Cleanup(l.end)
	return l
}

func (l *arrivals) one(c *http.Client, url string) {
	response, err := c.Get(url)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || string(body) != "ok" {
		l.t.Errorf("%d %q, %v", response.StatusCode, body, err)
	}
	l.came.Add(1)
	number := serial(response.TLS.PeerCertificates[0])
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.seen, number) {
		l.seen = append(l.seen, number)
	}
}

func (l *arrivals) end() {
	l.ended.Store(true)
	l.workers.Wait()
}

// serials returns the serial numbers seen so far.
func (l *arrivals) serials() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

var replaced = regexp.MustCompile(`ARI: order "[^"]+" is a replacement of "([^"]+)"`)

// renewedLife is the lifetime of certificates that are renewed during a test.
const renewedLife = 40 * time.Second

// TestACMERenewal: the short-lived certificate of two instances is renewed again
// and again, once for both, and every client is served meanwhile. Then the
// authority is rebuilt.
func TestACMERenewal(t *testing.T) {
	t.Parallel()
	const renewals = 2
	p, up := startPebble(t, renewedLife), world.Record(t)
	a, b := p.twins(up, world.StartRedis(t))
	a.Run()
	b.Run()
	roots := p.trust()
	a.obtains(roots)
	b.obtains(roots)
	atA, atB := a.arrive(&tls.Config{RootCAs: roots}), b.arrive(&tls.Config{RootCAs: roots})
	world.Eventually(t, (renewals+1)*renewedLife+world.Patience, "renewals", func() error {
		seenA, seenB := atA.serials(), atB.serials()
		if len(seenA) <= renewals || len(seenB) <= renewals || seenA[len(seenA)-1] != seenB[len(seenB)-1] {
			return fmt.Errorf("A has served %v, B has served %v", seenA, seenB)
		}
		return nil
	})
	atA.end()
	atB.end()
	t.Logf("%d connections to A, %d to B, certificates %v", atA.came.Load(), atB.came.Load(), atA.serials())
	var before []string
	for _, found := range replaced.FindAllStringSubmatch(p.log.String(), -1) {
		if slices.Contains(before, found[1]) {
			t.Errorf("both have renewed the certificate of order %s", found[1])
		}
		before = append(before, found[1])
	}
	issued := p.issued()
	if len(issued) > len(before)+1 {
		t.Errorf("pebble has issued %d certificates, %d of them in the place of another one", len(issued), len(before))
	}
	for _, number := range slices.Concat(atA.serials(), atB.serials()) {
		if !slices.Contains(issued, number) {
			t.Errorf("pebble has not issued %s", number)
		}
	}
	rebuiltAuthority(t, p, a, b)
	up.All()
	a.worksOverTLS(t, up, p.trust())
}

// rebuiltAuthority: an authority that was rebuilt under its URL knows neither the
// account nor the certificates. Both instances get a certificate from it at their
// next renewal.
func rebuiltAuthority(t *testing.T, p *pebble, a, b *acmeGateway) {
	t.Helper()
	roots, before := p.rebuild()
	world.Eventually(t, 2*renewedLife+world.Patience, "certificates of the new authority", func() error {
		for name, g := range map[string]*acmeGateway{"A": a, "B": b} {
			if g.serves(roots, gateName) == nil {
				return fmt.Errorf("%s has %+v", name, g.reported(gateName))
			}
		}
		return nil
	})
	if len(a.Log.Records(t, ordersOnceMore))+len(b.Log.Records(t, ordersOnceMore)) == 0 {
		t.Errorf("no instance logs %q", ordersOnceMore)
	}
	// Each instance may have made one attempt: two orders for the lost account,
	// and one for the new account. Pebble rejects some nonces at random, after
	// which a request is sent again.
	if orders := strings.Count(strings.TrimPrefix(p.log.String(), before), "POST /order-plz"); orders > 12 {
		t.Errorf("the authority got %d orders", orders)
	}
}

// rebuild replaces the authority by one with the same URL and an empty
// database. It returns what clients trust then, and what pebble logged before.
func (p *pebble) rebuild() (roots *x509.CertPool, before string) {
	p.t.Helper()
	world.Stop(p.cmd, p.ended)
	before = p.log.String()
	p.cmd = p.spawn("pebble", p.cmd.Args[1:]...)
	world.Until(p.t, "the new pebble", func() bool {
		_, err := p.root()
		return err == nil
	})
	return p.trust(), before
}

// ordersOnceMore is what the gateway logs before the order that names no
// replaced certificate.
const ordersOnceMore = "the authority refused to renew the certificate; it is ordered once more, without naming the " +
	"replaced certificate, " +
	"in case the authority was rebuilt or the account has changed"

// asOf checks a certificate that has expired as if it had not.
func asOf(roots *x509.CertPool) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		leaf, others := state.PeerCertificates[0], x509.NewCertPool()
		for _, certificate := range state.PeerCertificates[1:] {
			others.AddCert(certificate)
		}
		now := time.Now()
		if now.After(leaf.NotAfter) {
			now = leaf.NotAfter
		}
		_, err := leaf.Verify(x509.VerifyOptions{DNSName: gateName, Roots: roots, Intermediates: others, CurrentTime: now})
		return err
	}}
}

// TestACMEFailure: two gateways cannot get a certificate. One cannot renew its
// certificate because its name leads nowhere; the other one starts while the
// authority does not answer. Everything else works, the operators are told, and
// the gateways get their certificates as soon as that is possible.
func TestACMEFailure(t *testing.T) {
	t.Parallel()
	const life, newName = 30 * time.Second, "new.test"
	p, up := startPebble(t, life), world.Record(t)
	way := redistest.StartProxy(t, strings.TrimPrefix(strings.TrimSuffix(p.directory, "/dir"), "https://"))
	had, begins := p.gateway("127.0.0.1", p.http, p.https), p.gateway("127.0.0.2", p.http, p.https)
	begins.domains, begins.directory = []string{newName}, "https://"+way.Address+"/dir"
	p.leadsTo(newName, "127.0.0.2")
	for _, g := range []*acmeGateway{had, begins} {
		g.configure(gated + world.App(up.URL))
	}
	had.Run()
	roots := p.trust()
	had.obtains(roots)
	way.Cut()
	p.leadsTo(gateName, "") // from now on
	coming := had.arrive(asOf(roots))
	begins.Run()
	begins.hasNone(t, roots, newName)
	world.Until(t, "a renewal that fails", func() bool { return had.problem(gateName) != "" })
	had.keepsLast(t, coming)
	p.leadsTo(gateName, "127.0.0.1")
	way.Mend()
	world.Eventually(t, time.Minute+world.Patience, "certificates when they can be had again", func() error {
		for name, g := range map[string]*acmeGateway{gateName: had, newName: begins} {
			if problem := g.problem(name); problem != "" || g.serves(roots, name) == nil {
				return fmt.Errorf("%s: %s", name, problem)
			}
		}
		return nil
	})
	coming.end()
	t.Logf("%d connections, certificates %v", coming.came.Load(), coming.serials())
	up.All()
	had.worksOverTLS(t, up, roots)
}

// hasNone: a gateway that never had a certificate is ready, and does what needs none.
func (g *acmeGateway) hasNone(t *testing.T, roots *x509.CertPool, name string) {
	t.Helper()
	world.Until(t, "a problem", func() bool { return g.problem(name) != "" })
	world.WantReady(t, g.Instance, "without a certificate")
	if _, err := g.shake(roots, name); err == nil {
		t.Error("a handshake succeeds without a certificate")
	}
	response, err := g.visitor(&tls.Config{}, true).Get(g.HTTP + "/open")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if want := g.Public + "/open"; response.StatusCode != http.StatusPermanentRedirect ||
		response.Header.Get("Location") != want {
		t.Errorf("over plain HTTP: %d to %q, expected to %q", response.StatusCode, response.Header.Get("Location"), want)
	}
	g.logsFailure(t, "there is no certificate yet, and it cannot be obtained; it is tried again", name,
		"performing request")
}

// logsFailure: the log has an error with the domain and the reason.
func (g *acmeGateway) logsFailure(t *testing.T, message, name, why string) {
	t.Helper()
	world.Until(t, message, func() bool { return len(g.Log.Records(t, message)) > 0 }) // /readyz says it first
	for _, entry := range g.Log.Records(t, message) {
		problem, _ := entry["error"].(string)
		if entry["level"] != "ERROR" || entry["domain"] != name || !strings.Contains(problem, why) {
			t.Errorf("the log has %v, expected an error of %s about %q", entry, name, why)
		}
	}
}

// keepsLast: a certificate that is not renewed is served until it has expired, and
// after that.
func (g *acmeGateway) keepsLast(t *testing.T, coming *arrivals) {
	t.Helper()
	g.logsFailure(t, "the certificate cannot be renewed; the current one is kept, and it is tried again", gateName,
		"authorization failed")
	seen, expires := coming.serials(), g.reported(gateName).Expires
	world.Until(t, "its end", func() bool { return time.Now().After(expires) })
	before := coming.came.Load()
	world.Until(t, "more connections", func() bool { return coming.came.Load() > before+4 })
	world.WantReady(t, g.Instance, "after the end of the certificate")
	if now := coming.serials(); len(now) != len(seen) {
		t.Errorf("certificates %v were served, and now %v", seen, now)
	}
}
