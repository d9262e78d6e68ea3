package e2e

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// rebuild replaces the authority by one with the same URL and an empty
// database. It returns what clients trust then, and what pebble logged before.
func (p *pebble) rebuild() (roots *x509.CertPool, before string) {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	before = p.log.String()
	p.cmd = p.spawn("pebble", p.cmd.Args[1:]...)
	until(p.t, "the new pebble", func() bool {
		_, err := p.root()
		return err == nil
	})
	return p.trust(), before
}

// ordersOnceMore is what the gateway logs before the order that names no
// replaced certificate.
const ordersOnceMore = "the authority refused to renew the certificate; it is ordered once more, as one that replaces none, " +
	"in case the authority was rebuilt or the account is another one"

// TestACMERebuilt: an authority that was rebuilt under the same URL knows
// neither the account nor the certificates. Two instances on one Redis have a
// certificate from it at their next renewal.
func TestACMERebuilt(t *testing.T) {
	t.Parallel()
	const life = 40 * time.Second
	p, up := startPebble(t, life), record(t)
	a, b := p.twins(up, startRedis(t))
	a.run()
	b.run()
	first := p.trust()
	a.obtains(first)
	b.obtains(first)
	roots, before := p.rebuild()
	eventually(t, 2*life+patience, "certificates of the new authority", func() error {
		for name, g := range map[string]*acmeGateway{"A": a, "B": b} {
			if g.serves(roots, gateName) == nil {
				return fmt.Errorf("%s has %+v", name, g.reported(gateName))
			}
		}
		return nil
	})
	told := strings.TrimPrefix(p.log.String(), before)
	if len(a.entriesOf(ordersOnceMore))+len(b.entriesOf(ordersOnceMore)) == 0 {
		t.Errorf("no instance logs %q", ordersOnceMore)
	}
	// Each instance may have made one attempt: two orders for the lost account,
	// and one for the new account. Pebble rejects some nonces at random, after
	// which a request is sent again.
	if orders := strings.Count(told, "POST /order-plz"); orders > 12 {
		t.Errorf("the authority was sent %d orders", orders)
	}
	a.worksOverTLS(t, up, roots)
}

// TestACMEOtherAccount: after a change of tls.email, the certificate to renew
// belongs to another account, and the authority refuses to replace it.
func TestACMEOtherAccount(t *testing.T) {
	t.Parallel()
	const life = 40 * time.Second
	p, up := startPebble(t, life), record(t)
	g := p.gateway("127.0.0.1", p.http, p.https)
	g.configure(gated + app(up.url))
	g.run()
	roots := p.trust()
	first := g.obtains(roots)
	g.kill()
	g.email = "other@gate.test"
	g.configure(gated + app(up.url))
	g.run()
	eventually(t, life+patience, "a renewal by the other account", func() error {
		if now := g.serves(roots, gateName); now == nil || now.Equal(first) {
			return errors.New(g.problem(gateName))
		}
		return nil
	})
	if len(g.entriesOf(ordersOnceMore)) == 0 {
		t.Errorf("the log does not say %q", ordersOnceMore)
	}
}
