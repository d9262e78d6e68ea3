package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/pages"
	"authgate/gateway/wire/peer"
	"authgate/policy"
)

// Site is what the exchanges of one configuration share. It does not change.
type Site struct {
	Service   *Service
	Pages     *pages.Set
	PublicURL string
	Prefix    string // of own endpoints
	Hosts     hosts
	Cookies   Cookies
	HSTS      string        // Strict-Transport-Security; empty: not sent
	AltSvc    string        // Alt-Svc, which leads to HTTP/3; empty: not sent
	BodyPause time.Duration // how long the body of a request may pause
	// TokenHeader is the header that may hold a token for the gateway, canonical; empty: none.
	TokenHeader string

	// ProviderOrigins returns where users may be redirected to sign in.
	ProviderOrigins func() []string
	// CSRFToken returns the anti-CSRF token of a login, see [CrossSite.Token].
	CSRFToken func(ex *Exchange, login string) string
	// EndedByTime is that of the logins; see [login.Logins.EndedByTime].
	EndedByTime func(ctx context.Context, trace, scope string) bool

	home   string // the canonical host of PublicURL, where users sign in
	start  string // the URL of the page of the user's applications; empty: there is none
	port   string // of PublicURL with its colon; empty: the default
	forms  string // origins of the other hosts, to which a form may lead
	domain string // that shares its cookies, after a dot; empty: none

	endpoints map[string]bool // paths of own endpoints to which nobody is led after sign-in

	hidden       hiddenPaths
	trusted      peer.Proxies
	keepsSlashes bool // some route keeps encoded slashes
}

// NewSite returns the site of a configuration of a gateway.
func NewSite(cfg *config.Config, service *Service) (*Site, error) {
	p, err := pages.New(cfg.Site.Pages())
	if err != nil {
		return nil, err
	}
	s := &Site{
		Service: service, Pages: p,
		PublicURL: cfg.PublicURL.String(), Prefix: cfg.Endpoints.Prefix,
		Hosts: newHosts(cfg), Cookies: newCookies(cfg, service.Now), BodyPause: cfg.Limits.BodyPause,
		TokenHeader: http.CanonicalHeaderKey(cfg.Token.Header),
		home:        cfg.Hosts()[0], start: cfg.StartPage(), trusted: cfg.Listen.TrustedProxies,
	}
	s.endpoints = map[string]bool{s.Own(config.EndpointVerify): true}
	for _, name := range cfg.OwnEndpoints() {
		s.endpoints[s.Own(name)] = !isLanding(name)
	}
	s.hidden.set(cfg)
	if port := cfg.PublicURL.Port(); port != "" {
		s.port = ":" + port
	}
	if cfg.Session.Domain != "" {
		s.domain = "." + cfg.Session.Domain
	}
	others := s.others(cfg.Hosts())
	s.forms = s.sources(others)
	// It binds a sign-in that has several steps: at another host, or with a second factor,
	// which only accounts of the file can have.
	if len(others) > 0 && s.domain == "" || cfg.Accounts.File != "" {
		s.Cookies.Names.Browser = config.CookieLogin
	}
	s.keepsSlashes = slices.ContainsFunc(cfg.Routes,
		func(r config.Route) bool { return r.EncodedSlashes == config.EncodedSlashesKeep })
	if age := cfg.TLS.HSTS; age > 0 {
		s.HSTS = fmt.Sprintf("max-age=%d", int(age.Seconds()))
	}
	if port := cfg.Listen.HTTP3Port(cfg.PublicURL); port != "" {
		s.AltSvc = fmt.Sprintf(`h3=":%s"; ma=86400`, port)
	}
	return s, nil
}

// ParseTarget parses the target of a request for a canonical host. It accepts encoded
// slashes if some route keeps them, and opaque paths if some route of the host takes them;
// the route of the request decides.
func (s *Site) ParseTarget(host, target string) (policy.Path, error) {
	switch {
	case s.Hosts.Opaque(host):
		return policy.ParseTargetOpaque(target)
	case s.keepsSlashes:
		return policy.ParseTargetWithSlashes(target)
	}
	return policy.ParseTarget(target)
}

// Own returns the path of an own endpoint.
func (s *Site) Own(name string) string { return config.OwnPath(s.Prefix, name) }

// SecureURL returns where a request by plain HTTP is redirected to: the same
// host if it is a name of the gateway's, with the port of public_url, and else
// public_url. Addresses are the gateway's only so that load balancers can ask
// for them; people are led to the name that they know.
func (s *Site) SecureURL(host string, path policy.Path) string {
	if !s.Hosts.Has(host) || peer.ParseAddr(host).IsValid() {
		return s.PublicURL + target(path)
	}
	return s.Origin(host) + target(path)
}
