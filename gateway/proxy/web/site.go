package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/gateway/wire/peer"
)

// Site is shared by the exchanges of one configuration. It does not change.
type Site struct {
	*places.Places
	Service   *Service
	Pages     *pages.Set
	Cookies   Cookies
	HSTS      string        // Strict-Transport-Security; empty: not sent
	AltSvc    string        // Alt-Svc, which leads to HTTP/3; empty: not sent
	BodyPause time.Duration // how long the body of a request may pause
	// TokenHeader is the header that may hold a token for the gateway, canonical; empty: none.
	TokenHeader string

	// CSRFToken returns the anti-CSRF token of a login, see [CrossSite.Token].
	CSRFToken func(ex *Exchange, login string) string
	// EndedByTime is that of the logins; see [login.Logins.EndedByTime].
	EndedByTime func(ctx context.Context, trace, scope string) bool

	hidden  hiddenPaths
	trusted peer.Proxies
}

// NewSite returns the site of a configuration of a gateway.
func NewSite(cfg *config.Config, service *Service) (*Site, error) {
	p, err := pages.New(cfg.Site.Pages())
	if err != nil {
		return nil, err
	}
	s := &Site{
		Places: places.New(cfg), Service: service, Pages: p,
		Cookies: newCookies(cfg, service.Now), BodyPause: cfg.Limits.BodyPause,
		TokenHeader: http.CanonicalHeaderKey(cfg.Token.Header), trusted: cfg.Listen.TrustedProxies,
	}
	s.hidden.set(cfg)
	// It binds a sign-in that has several steps: at another host, or with a second factor,
	// which only accounts of the file can have.
	if s.Binds() || cfg.Accounts.File != "" {
		s.Cookies.Names.Browser = config.CookieLogin
	}
	if age := cfg.TLS.HSTS; age > 0 {
		s.HSTS = fmt.Sprintf("max-age=%d", int(age.Seconds()))
	}
	if port := cfg.Listen.HTTP3Port(cfg.PublicURL); port != "" {
		s.AltSvc = fmt.Sprintf(`h3=":%s"; ma=86400`, port)
	}
	return s, nil
}
