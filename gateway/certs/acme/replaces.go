package acme

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
)

// An order for a renewal names the certificate that it replaces (RFC 9773, section
// 5), which exempts the order from some rate limits. The authority refuses it if it
// does not know that certificate or issued it to another account: after it was
// rebuilt with an empty database, or after tls.email was changed. certmagic names
// the certificate in each attempt, so all of them would be refused.
//
// Therefore this package follows each such refusal with one order that does not name
// the certificate. The schedule of certmagic, from a minute to six hours, also bounds
// these orders.

// againTime bounds the order without the name.
const againTime = attemptTime

// unrelated is an issuer whose orders do not name the replaced certificate, because
// certmagic names it only for an *certmagic.ACMEIssuer.
type unrelated struct{ *certmagic.ACMEIssuer }

// PreCheck implements certmagic.PreChecker. It never prompts for an email address.
func (u unrelated) PreCheck(ctx context.Context, names []string, _ bool) error {
	return u.ACMEIssuer.PreCheck(ctx, names, false)
}

// refusedOrder reports whether an order failed in a way that an order without the
// replaced certificate may avoid. Failed challenges, rate limits and an unreachable
// authority are not among them.
func refusedOrder(err error) bool {
	if problem, ok := errors.AsType[acme.Problem](err); ok {
		_, challenge := problem.Resource.(acme.Authorization)
		return !challenge && problem.Type != acme.ProblemTypeRateLimited
	}
	// If the authority does not know the account, certmagic registers a new one,
	// but sends the order for the old one, and fails with this error.
	return err != nil && strings.Contains(err.Error(), "no certificate chains")
}

// unrelatedOrders sends orders that do not name the replaced certificate.
type unrelatedOrders struct {
	manager *Manager
	config  *certmagic.Config
	refused chan string // domains whose renewal the authority has refused
}

func newUnrelatedOrders(m *Manager, template certmagic.Config) *unrelatedOrders {
	u := &unrelatedOrders{manager: m, refused: make(chan string, maxRefused)}
	template.OnEvent = u.notice
	u.config = certmagic.New(m.cache, template)
	u.config.Issuers = []certmagic.Issuer{unrelated{m.issuer}}
	return u
}

// try requests an order, and reports whether it will be sent.
func (u *unrelatedOrders) try(domain string, err error) bool {
	select {
	case u.refused <- domain:
	default:
		return false
	}
	u.manager.logger.Warn("the authority refused to renew the certificate; it is ordered once more, "+
		"without naming the replaced certificate, "+
		"in case the authority was rebuilt or the account has changed", "domain", domain, "error", err.Error())
	return true
}

// run sends the orders that try requests, until ctx ends.
func (u *unrelatedOrders) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case domain := <-u.refused:
			u.renew(ctx, domain)
		}
	}
}

// renew sends one order. If it fails, certmagic reports that to notice.
func (u *unrelatedOrders) renew(ctx context.Context, domain string) {
	m := u.manager
	attempt, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	if err := u.config.RenewCertSync(attempt, domain, false); err != nil {
		return
	}
	if err := m.load(ctx, domain); err != nil && ctx.Err() == nil {
		m.failed(domain, err)
		return
	}
	m.logger.Info("the certificate was renewed, without naming the replaced certificate",
		"domain", domain, "expires", m.expires(domain).UTC().Format(time.RFC3339))
}

// notice is for certmagic.Config.OnEvent. No other order follows one that fails.
func (u *unrelatedOrders) notice(ctx context.Context, event string, data map[string]any) error {
	if event == "cert_failed" && !errors.Is(ctx.Err(), context.Canceled) { // a stop is not a failure
		u.manager.failed(fmt.Sprint(data["identifier"]), data["error"])
	}
	return nil
}
