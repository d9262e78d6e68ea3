package acme

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
)

// TestACMEAddresses: certificates for addresses come with the profile that the configuration
// names, are served to clients that name no host, have the profile's lifetime, and are renewed
// in time, by each kind of challenge alone.
func TestACMEAddresses(t *testing.T) {
	t.Parallel()
	p, up := startPebbleOf(t, map[string]time.Duration{"default": days, "shortlived": renewedLife}), world.Record(t)
	four, six := p.gateway("127.0.0.1", p.http, world.FreePort(t)), p.gateway("::1", "", p.https)
	four.domains = []string{gateName, "127.0.0.1"}
	six.domains, six.Base = []string{`"::1"`}, "https://[::1]:"+p.https
	for kind, g := range map[string]*acmeGateway{"http-01": four, "tls-alpn-01": six} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g.more = ", profile: shortlived"
			g.configure(gated + world.App(up.URL))
			g.Run()
			address := strings.Trim(g.domains[len(g.domains)-1], `"`)
			g.domains[len(g.domains)-1] = address
			roots := p.trust()
			g.obtains(roots)
			first := g.serves(roots, address)
			if first == nil {
				t.Fatal("it serves no valid certificate")
			}
			if life := first.NotAfter.Sub(first.NotBefore); life > renewedLife || life < renewedLife-2*time.Second {
				t.Errorf("it lives %s, and the profile says %s", life, renewedLife)
			}
			if solved := g.solved(); solved[kind] == 0 || len(solved) != 1 {
				t.Errorf("it has solved %v, expected %s alone", solved, kind)
			}
			g.answersAt(t, roots)
			if len(first.IPAddresses) != 1 || len(first.DNSNames) != 0 {
				t.Errorf("the certificate is for %v and %q", first.IPAddresses, first.DNSNames)
			}
			world.Eventually(t, renewedLife+world.Patience, "a renewal", func() error {
				switch now := g.serves(roots, address); {
				case now == nil:
					t.Errorf("it serves no valid certificate")
				case now.Equal(first):
					return fmt.Errorf("it has %+v", g.reported(address))
				}
				return nil
			})
			if now := time.Now(); !now.Before(first.NotAfter) {
				t.Errorf("the renewal came %s after the end", now.Sub(first.NotAfter))
			}
		})
	}
}

// answersAt sends a request to the address of the gateway.
func (g *acmeGateway) answersAt(t *testing.T, roots *x509.CertPool) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: world.Patience}).Get("https://" + g.secure + "/open")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || string(body) != "ok" {
		t.Errorf("at https://%s: %d %q, %v", g.secure, response.StatusCode, body, err)
	}
}

// TestACMEUnknownProfile: a profile that the authority does not offer is a problem that
// operators see, with the profiles that it offers.
func TestACMEUnknownProfile(t *testing.T) {
	t.Parallel()
	p, up := startPebble(t, days), world.Record(t)
	g := p.gateway("127.0.0.1", p.http, world.FreePort(t))
	g.more = ", profile: shortlive"
	g.configure(gated + world.App(up.URL))
	g.Run()
	world.Until(t, "a problem", func() bool { return g.problem(gateName) != "" })
	if problem := g.problem(gateName); !strings.Contains(problem, "'shortlive'") || !strings.Contains(problem, "default") {
		t.Errorf("/readyz has the problem %q", problem)
	}
}
