package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
)

// Only a refusal that may be about the replaced certificate is worth another
// order.
func TestRefusedOrder(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("[gate.test] creating new order: %w (ca=x)", err) }
	problem := func(kind string) acme.Problem { return acme.Problem{Type: acme.ProblemTypeNamespace + kind} }
	challenge := problem("unauthorized")
	challenge.Resource = acme.Authorization{}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":              {nil, false},
		"unknown certificate":   {wrap(problem("malformed")), true},
		"lost database":         {wrap(problem("serverInternal")), true},
		"another account":       {wrap(problem("unauthorized")), true},
		"rate limit":            {wrap(problem("rateLimited")), false},
		"failed challenge":      {wrap(challenge), false},
		"unreachable authority": {wrap(&url.Error{Op: "Post", URL: "https://x", Err: errors.New("refused")}), false},
		"new account":           {errors.New("no certificate chains"), true},
	} {
		if got := refusedOrder(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// refuser is an issuer that refuses all orders as an authority does that was
// rebuilt.
type refuser struct {
	*certmagic.ACMEIssuer
	orders atomic.Int32
}

func (i *refuser) Issue(context.Context, *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.orders.Add(1)
	return nil, fmt.Errorf("creating new order: %w", acme.Problem{Type: acme.ProblemTypeMalformed, Detail: "unknown certificate"})
}

// An authority that refuses both orders gets two of them for each of
// certmagic's attempts, and no more.
func TestRefusedOrdersAreBounded(t *testing.T) {
	var a pair
	inBubble(t, func(t *testing.T, r *rig, name string) {
		a = issue(t, name, 89*day, 90*day)
		keep(t, r.storage, name, a)
	}, func(t *testing.T, r *rig, name string) {
		named, unnamed := &refuser{ACMEIssuer: r.issuer}, &refuser{ACMEIssuer: r.issuer}
		r.config.Issuers = []certmagic.Issuer{named}
		r.unrelated.Issuers = []certmagic.Issuer{unnamed}
		r.run(t)
		time.Sleep(10 * time.Second) // the second order may wait for the lock of the first one
		synctest.Wait()
		if named.orders.Load() != 1 || unnamed.orders.Load() != 1 {
			t.Errorf("%d orders that name the replaced certificate and %d that do not, want one each\n%s", named.orders.Load(), unnamed.orders.Load(), r.log)
		}
		r.want(t, a, "unknown certificate")
		time.Sleep(12 * time.Hour)
		if with, without := named.orders.Load(), unnamed.orders.Load(); with != without || with < 10 || with > 30 {
			t.Errorf("%d and %d orders in 12 hours", with, without)
		}
		wantServed(t, r.Manager, name, a)
	})
}
