package acme

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// wildcards has a route for all names below apps.
const wildcards = world.People + `
routes:
  - {match: /open, upstream: app, auth: [none]}
  - {match: "*` + below + `/", upstream: app, auth: [basic]}
`

// TestACMEWildcard: by DNS, a wildcard host of a route gets a certificate for the wildcard, and
// no port of the gateway is asked by the authority. A gateway that is killed while its record is
// in the zone removes it after its next start. One with a wrong key starts, and tells the reason.
func TestACMEWildcard(t *testing.T) {
	t.Parallel()
	p, z, up := startPebble(t, days), startZone(t), world.Record(t)
	z.texts[zoneQuestion] = []string{"of another"} // before anybody asks
	p.asks(z)
	g := p.gateway("127.0.0.1", "", world.FreePort(t))
	g.more = z.section(z.key)
	g.configure(wildcards + world.App(up.URL))
	z.hide(true)
	g.Run()
	world.Until(t, "the record", func() bool { return len(z.at(zoneQuestion)) == 2 })
	first := z.at(zoneQuestion)[1]
	g.Kill()
	z.hide(false)
	g.Run()
	roots := p.trust()
	g.obtains(roots)
	certificate := g.demands(roots, "one"+below)
	if !slices.Equal(certificate.DNSNames, []string{"*" + below}) {
		t.Errorf("the certificate is for %q", certificate.DNSNames)
	}
	if other := g.serves(roots, "two"+below); other == nil || !other.Equal(certificate) {
		t.Error("another name below the wildcard has another certificate")
	}
	g.reaches(t, up, roots, "one"+below)
	world.Until(t, "the zone as it was", func() bool {
		return slices.Equal(z.at(zoneQuestion), []string{"of another"}) &&
			len(z.at("_acme-challenge."+gateName+".")) == 0
	})
	if n := len(p.issued()); n != 2 || slices.Contains(z.at(zoneQuestion), first) {
		t.Errorf("pebble has issued %d certificates, want 2; the zone has %q", n, z.at(zoneQuestion))
	}

	wrong := p.gateway("127.0.0.1", "", world.FreePort(t))
	key := base64.StdEncoding.EncodeToString([]byte("a key that the zone does not know"))
	wrong.more = z.section(key)
	wrong.configure(wildcards + world.App(up.URL))
	wrong.Run()
	world.Until(t, "the reason", func() bool { return strings.Contains(wrong.problem("*"+below), "NOTAUTH") })
	world.WantReady(t, wrong.Instance, "with a wrong key")
	if strings.Contains(wrong.Log.String(), key) || strings.Contains(g.Log.String(), z.key) {
		t.Error("a key is in the log")
	}
}
