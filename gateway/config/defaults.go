package config

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"authgate/gateway/config/strictyaml"
)

// defaults returns the configuration of an empty file.
func defaults() *Config {
	return &Config{
		PublicURL: &url.URL{Scheme: "https", Host: "localhost:8443"},
		Listen:    Listen{HTTPS: ":8443", HTTP: ":8080", Admin: "127.0.0.1:9090"},
		TLS:       TLS{Mode: TLSInternal, OnDemand: OnDemand{Names: 100, Burst: 10, Every: 6 * time.Hour}},
		DataDir:   "data",
		Store: Store{
			Driver: StoreSQLite, Path: "authgate.db", Addresses: []string{"127.0.0.1:6379"},
			KeyPrefix: "authgate:", MaxStaleness: 2 * time.Second,
		},
		Endpoints: Endpoints{Prefix: "/"},
		Basic:     Basic{Realm: "authgate"},
		Session:   Session{Cookie: "session_id", Lifetime: time.Hour, SameSite: sameSiteLax},
		Token: Token{
			Algorithm: AlgorithmHS256, Audience: []string{"authgate"}, AccessLifetime: 15 * time.Minute,
			RefreshLifetime: 168 * time.Hour, ReuseLeeway: 10 * time.Second, Delivery: DeliveryBody,
		},
		Delegated: Delegated{Cookie: "session", Lifetime: time.Hour},
		IdentityHeaders: IdentityHeaders{
			User: "X-Auth-User", Subject: "X-Auth-Subject", Name: "X-Auth-Name", Email: "X-Auth-Email",
			Roles: "X-Auth-Roles", Mechanism: "X-Auth-Mechanism", Provider: "X-Auth-Provider",
		},
		Limits: Limits{LoginFailures: 10, LoginWindow: 5 * time.Minute, MaxHeaderBytes: 65536, BodyPause: 2 * time.Minute},
		Log:    Log{Level: "info", Format: "json"},

		Tracing: Tracing{Sample: 1, ServiceName: "authgate"},

		ShutdownTimeout: 30 * time.Second,
	}
}

// setDefaults sets the defaults of an element of a list or a map.
func setDefaults(element any) {
	switch element := element.(type) {
	case *Provider:
		*element = Provider{
			Scopes: []string{"openid", "profile", "email"}, RolesClaim: "roles",
			UsernameClaim: "preferred_username", SubjectClaim: subjectClaim,
			Logout: LogoutAuto, Timeout: 10 * time.Second,
		}
	case *TrustedIssuer:
		*element = TrustedIssuer{RolesClaim: "roles", UsernameClaim: "preferred_username", Timeout: 10 * time.Second}
	case *Upstream:
		*element = Upstream{
			Timeout: 30 * time.Second, ConnectTimeout: 5 * time.Second, ReuseConnections: true, FastPath: true,
			Balance: BalanceRoundRobin, Retries: 1, Host: HostClient,
			Health: Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Status: "200-399", Failures: 2},
		}
	case *Route:
		*element = Route{
			Unauthenticated: UnauthenticatedAuto, Authorization: AuthorizationGateway, CrossOrigin: CrossOriginDeny, EncodedSlashes: EncodedSlashesReject,
			ServiceWorkers: ServiceWorkersRefuse,
			CORS:           CORS{MaxAge: 10 * time.Minute},
			Rate:           Rate{Per: time.Second, By: RateByClient},
		}
	}
}

// resolvePaths resolves relative paths: that of the database against data_dir,
// and all others against the folder of the main file.
func (c *Config) resolvePaths(resolve func(path string) string) {
	for _, path := range []*string{
		&c.DataDir, &c.TLS.Certificate, &c.TLS.Key, &c.TLS.TrustedRoots, &c.Token.PrivateKey,
		&c.Basic.Htpasswd, &c.Accounts.File, &c.Site.Logo,
	} {
		*path = resolve(*path)
	}
	for name, u := range c.Upstreams {
		u.TLS.CA, u.TLS.Certificate, u.TLS.Key = resolve(u.TLS.CA), resolve(u.TLS.Certificate), resolve(u.TLS.Key)
		c.Upstreams[name] = u
	}
	if c.Store.Path != "" && !filepath.IsAbs(c.Store.Path) {
		c.Store.Path = filepath.Join(c.DataDir, c.Store.Path)
	}
}

// complete sets values that depend on other values.
func (c *Config) complete(r *report) {
	if c.PublicURL != nil {
		canonicalOrigin(c.PublicURL)
		if c.Token.Issuer == "" {
			c.Token.Issuer = c.PublicURL.String()
		}
		if c.Site.Title == "" {
			c.Site.Title = c.PublicURL.Hostname()
		}
	}
	c.Session.Cookie, c.Delegated.Cookie = c.CookieName(c.Session.Cookie), c.CookieName(c.Delegated.Cookie)
	if c.TLS.Mode == TLSOff && !r.Given("listen.https") {
		c.Listen.HTTPS = ""
	}
	if len(c.TLS.Domains) == 0 {
		c.TLS.Domains = c.defaultDomains()
	}
	for i, domain := range c.TLS.Domains {
		c.TLS.Domains[i] = strings.ToLower(domain)
	}
	c.Tracing.complete()
	c.Session.Domain = strings.ToLower(c.Session.Domain)
	for i := range c.Providers {
		c.Providers[i].complete(len(c.Providers) > 1)
	}
	for i := range c.Token.TrustedIssuers {
		c.Token.TrustedIssuers[i].complete(c.Providers)
	}
	for name, u := range c.Upstreams {
		u.complete(r, strictyaml.Join("upstreams", name), c.IdentityHeaders)
		u.completeHealthHost(name, c)
		c.Upstreams[name] = u
	}
	for i := range c.Routes {
		if c.Routes[i].Name == "" {
			c.Routes[i].Name = c.Routes[i].Match
		}
	}
}

// complete sets URLs, and the identity headers that are not given to those of
// the top level.
func (u *Upstream) complete(r *report, path string, top IdentityHeaders) {
	if u.URL != nil && len(u.URLs) == 0 {
		u.URLs = []*url.URL{u.URL}
	}
	u.Health.complete()
	u.TLS.complete()
	if u.IdentityHeaders != nil {
		own := u.IdentityHeaders.byKey()
		for key, header := range top.byKey() {
			if r.Given(path + ".identity_headers." + key) {
				*header = *own[key]
			}
		}
	}
	u.IdentityHeaders = &top
}

// byKey returns pointers to the names by their keys.
func (h *IdentityHeaders) byKey() map[string]*string {
	return map[string]*string{
		"user": &h.User, "subject": &h.Subject, "name": &h.Name, "email": &h.Email,
		"roles": &h.Roles, "mechanism": &h.Mechanism, "provider": &h.Provider,
	}
}
