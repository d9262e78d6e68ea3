package acme

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
)

// An order that renews a certificate names the one that it replaces (RFC 9773,
// section 5), which exempts it from some rate limits. The authority refuses the
// order if it does not know that certificate, or issued it to another account:
// after it was rebuilt with an empty database, or after tls.email was changed.
// certmagic names the certificate at each attempt, so this refusal is final
// unless one order leaves the name out.
//
// Each attempt of certmagic that ends so is followed by one order without the
// name. certmagic's schedule, from a minute to six hours, thus also bounds how
// often the authority is asked again.

// againTime bounds the order without the name.
const againTime = attemptTime

// unrelated is an issuer whose orders do not name the certificate that they
// replace: certmagic names it for an *certmagic.ACMEIssuer alone.
type unrelated struct{ *certmagic.ACMEIssuer }

// PreCheck implements certmagic.PreChecker. It never asks for an email address
// on the standard input.
func (u unrelated) PreCheck(ctx context.Context, names []string, _ bool) error {
	return u.ACMEIssuer.PreCheck(ctx, names, false)
}

// refusedOrder reports whether an order failed in a way that leaving out the
// replaced certificate may mend. Failed challenges and rate limits are not
// among them, and neither is an authority that cannot be reached.
func refusedOrder(err error) bool {
	if problem, ok := errors.AsType[acme.Problem](err); ok {
		_, challenge := problem.Resource.(acme.Authorization)
		return !challenge && problem.Type != acme.ProblemTypeRateLimited
	}
	// certmagic registers a new account if the authority does not know the one
	// at hand, but then sends the order for the old one, and fails with this.
	return err != nil && strings.Contains(err.Error(), "no certificate chains")
}

// tryUnrelated has an order without the replaced certificate sent, and reports
// whether it will be.
func (m *Manager) tryUnrelated(domain string, err error) bool {
	select {
	case m.refused <- domain:
	default:
		return false
	}
	m.logger.Warn("the authority refused to renew the certificate; it is ordered once more, as one that replaces none, "+
		"in case the authority was rebuilt or the account is another one", "domain", domain, "error", err.Error())
	return true
}

// renewUnrelated sends the orders that tryUnrelated asks for, until ctx ends.
func (m *Manager) renewUnrelated(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case domain := <-m.refused:
			m.renewOnce(ctx, domain)
		}
	}
}

// renewOnce makes one attempt without the replaced certificate. If it fails,
// notice has told why.
func (m *Manager) renewOnce(ctx context.Context, domain string) {
	attempt, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	if err := m.unrelated.RenewCertSync(attempt, domain, false); err != nil {
		return
	}
	if err := m.load(ctx, domain); err != nil && ctx.Err() == nil {
		m.failed(domain, err)
		return
	}
	m.logger.Info("the certificate was renewed by an order that replaces none",
		"domain", domain, "expires", m.expires(domain).UTC().Format(time.RFC3339))
}
