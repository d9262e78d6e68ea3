package acme

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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

// An authority that was rebuilt refuses both orders. It gets two of them for each of
// certmagic's attempts, and no more.
func TestRefusedOrdersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.keep(t, 89*day, 90*day)
		refuse := func(context.Context) error {
			return fmt.Errorf("creating new order: %w", acme.Problem{Type: acme.ProblemTypeMalformed, Detail: "unknown certificate"})
		}
		r.open(t)
		named, unnamed := &fakeIssuer{ACMEIssuer: r.issuer, answer: refuse}, &fakeIssuer{ACMEIssuer: r.issuer, answer: refuse}
		r.config.Issuers, r.unrelated.Issuers = []certmagic.Issuer{named}, []certmagic.Issuer{unnamed}
		r.run(t)
		time.Sleep(10 * time.Second) // the second order may wait for the lock of the first one
		synctest.Wait()
		if named.orders.Load() != 1 || unnamed.orders.Load() != 1 {
			t.Errorf("%d orders that name the replaced certificate and %d that do not, want one each\n%s", named.orders.Load(), unnamed.orders.Load(), &r.log)
		}
		r.want(t, a, "unknown certificate")
		time.Sleep(12 * time.Hour)
		if with, without := named.orders.Load(), unnamed.orders.Load(); with != without || with < 10 || with > 30 {
			t.Errorf("%d and %d orders in 12 hours", with, without)
		}
		r.wantServed(t, a, r.name)
	})
}
