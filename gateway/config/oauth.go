package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"authgate/policy"
)

// Who may register as a client without being configured (RFC 7591).
const (
	registrationOff  = "off"
	RegistrationOpen = "open" // every program
)

// What a client may ask tokens for. On the wire, GrantDeviceCode has the name of RFC 8628.
const (
	GrantAuthorizationCode = "authorization_code"
	GrantRefreshToken      = "refresh_token"
	GrantDeviceCode        = "device_code"
	GrantClientCredentials = "client_credentials"
)

// Whether users are asked before a client acts for them.
const (
	consentAsk  = "ask"
	consentSkip = "skip"
)

// Whether a client must prove with each code that it began the sign-in (PKCE, RFC 7636).
const (
	pkceRequired = "required"
	pkceOptional = "optional" // for clients that cannot, and have a secret
)

// OAuth configures the authorization server and OpenID provider for applications that
// sign users in by themselves.
type OAuth struct {
	Enabled          bool                 `yaml:"enabled"`
	Clients          []OAuthClient        `yaml:"clients"`
	Registration     string               `yaml:"registration"` // off or open
	RegistrationRate registrationRate     `yaml:"registration_rate"`
	RedirectSchemes  []string             `yaml:"redirect_schemes"` // beside https, and http on loopback
	MetadataClients  OAuthMetadataClients `yaml:"metadata_clients"`
	Scopes           map[string][]string  `yaml:"scopes"` // the roles that a scope lends; empty: all scopes lend all roles
	CodeLifetime     time.Duration        `yaml:"code_lifetime"`
	DeviceLifetime   time.Duration        `yaml:"device_lifetime"`
}

// OAuthClient is a configured client.
type OAuthClient struct {
	ID                     string        `yaml:"id"`
	Name                   string        `yaml:"name"`    // for users; default: ID
	Secret                 Secret        `yaml:"secret"`  // or its hash; empty, as Secrets: a public client
	Secrets                []Secret      `yaml:"secrets"` // instead of Secret; each is valid
	RedirectURIs           []string      `yaml:"redirect_uris"`
	Grants                 []string      `yaml:"grants"`
	Roles                  []string      `yaml:"roles"`  // of the client itself, for GrantClientCredentials
	Policy                 string        `yaml:"policy"` // who may sign in to it, see Config.ClientPolicy
	Consent                string        `yaml:"consent"`
	PKCE                   string        `yaml:"pkce"`
	PostLogoutRedirectURIs []string      `yaml:"post_logout_redirect_uris"`
	BackchannelLogoutURI   string        `yaml:"backchannel_logout_uri"`
	TrustedRoots           string        `yaml:"trusted_roots"`    // of that URI: PEM file, beside the roots of the system
	AccessLifetime         time.Duration `yaml:"access_lifetime"`  // 0: that of token
	RefreshLifetime        time.Duration `yaml:"refresh_lifetime"` // 0: that of token

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// registrationRate limits the registrations from the address of one client.
type registrationRate struct {
	Requests int64         `yaml:"requests"` // in Per; 0: no limit
	Per      time.Duration `yaml:"per"`
}

// OAuthMetadataClients configures clients whose identifier is the URL of a document about
// them.
type OAuthMetadataClients struct {
	Enabled      bool     `yaml:"enabled"`
	Hosts        []string `yaml:"hosts"`         // of the URLs, at any address; empty: all hosts with public addresses
	TrustedRoots string   `yaml:"trusted_roots"` // PEM file, beside the roots of the system

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

func defaultOAuth() OAuth {
	return OAuth{
		Registration: registrationOff, RegistrationRate: registrationRate{Requests: 20, Per: time.Hour},
		MetadataClients: OAuthMetadataClients{Enabled: true},
		CodeLifetime:    time.Minute, DeviceLifetime: 10 * time.Minute,
	}
}

func defaultOAuthClient() OAuthClient {
	return OAuthClient{
		Grants: []string{GrantAuthorizationCode, GrantRefreshToken}, Consent: consentAsk, PKCE: pkceRequired,
	}
}

// Words returns the words that keys of the section take.
func (OAuth) Words() map[string][]string {
	return map[string][]string{"registration": {registrationOff, RegistrationOpen}}
}

// Words returns the words that keys of a client take.
func (OAuthClient) Words() map[string][]string {
	return map[string][]string{
		"grants":  {GrantAuthorizationCode, GrantRefreshToken, GrantDeviceCode, GrantClientCredentials},
		"consent": {consentAsk, consentSkip},
		"pkce":    {pkceRequired, pkceOptional},
	}
}

// AllSecrets returns the secrets of the client, of which each is valid. A public client
// has none.
func (c *OAuthClient) AllSecrets() []Secret {
	if c.Secret != "" {
		return []Secret{c.Secret}
	}
	return c.Secrets
}

// ExcusedPKCE reports whether the client gets codes without PKCE.
func (c *OAuthClient) ExcusedPKCE() bool { return c.PKCE == pkceOptional }

// SkipsConsent reports whether users are not asked.
func (c *OAuthClient) SkipsConsent() bool { return c.Consent == consentSkip }

// complete sets the names of clients that have none, and gives hosts the form of Hosts.
func (o *OAuth) complete() {
	for i, host := range o.MetadataClients.Hosts {
		o.MetadataClients.Hosts[i] = strings.ToLower(host)
	}
	for i := range o.Clients {
		if client := &o.Clients[i]; client.Name == "" {
			client.Name = client.ID
		}
	}
}

// clientRoots reads the extra roots for calls to clients, and for documents about them.
func (s sideReader) clientRoots(o *OAuth) {
	if m := &o.MetadataClients; m.TrustedRoots != "" {
		m.TrustedRootsContent = s.Authorities("oauth.metadata_clients.trusted_roots", m.TrustedRoots)
	}
	for i := range o.Clients {
		if c := &o.Clients[i]; c.TrustedRoots != "" {
			c.TrustedRootsContent = s.Authorities(fmt.Sprintf("oauth.clients[%d].trusted_roots", i), c.TrustedRoots)
		}
	}
}

// ClientPolicy returns what decides who may sign in to a client. It is nil if every user
// may.
func (c *Config) ClientPolicy(client *OAuthClient) *policy.Route { return c.clientPolicies[client.ID] }

// oauthEndpoints are the names of the gateway's own endpoints for OAuth.
var oauthEndpoints = []string{
	"oauth/authorize", "oauth/token", "oauth/device", "oauth/revoke", "oauth/introspect", "oauth/register",
	"oauth/userinfo", "oauth/logout", "device", "account/clients", "account/clients/revoke",
}

// Well-known paths (RFC 8615).
const (
	wellKnownServer   = "/.well-known/oauth-authorization-server" // RFC 8414, section 3
	wellKnownOpenID   = "/.well-known/openid-configuration"       // OpenID Connect Discovery 1.0, section 4
	WellKnownFinger   = "/.well-known/webfinger"                  // RFC 7033, section 4
	WellKnownResource = "/.well-known/oauth-protected-resource"   // RFC 9728, section 3
)

// WellKnown returns the paths outside of Endpoints.Prefix where the gateway answers itself,
// decoded. Without OAuth.Enabled there are none. They are those of MetadataPaths,
// WellKnownFinger, and WellKnownResource with the path of each resource.
func (c *Config) WellKnown() []string {
	return slices.Sorted(maps.Keys(c.wellKnown))
}

// IsWellKnown reports whether a path is one of WellKnown.
func (c *Config) IsWellKnown(path string) bool { return c.wellKnown[path] != nil }

// AnswersWellKnown reports whether the gateway answers at a path of WellKnown at a host, which
// has the form of policy.CanonicalHost. The documents about the issuer are at the host of
// public_url alone: applications at other hosts may have documents of their own.
func (c *Config) AnswersWellKnown(host, path string) bool {
	return slices.ContainsFunc(c.wellKnown[path], func(own string) bool { return matchesHost(own, host) })
}

// LacksResource reports whether a path is that of a document about a resource, and there is no
// such resource at the host, but another one. At a host without resources, such documents are
// the business of its applications.
func (c *Config) LacksResource(host, path string) bool {
	rest, found := strings.CutPrefix(path, WellKnownResource)
	return found && (rest == "" || rest[0] == '/') && !c.AnswersWellKnown(host, path) &&
		slices.ContainsFunc(c.resourceHosts, func(own string) bool { return matchesHost(own, host) })
}

// matchesHost reports whether a host is that of a pattern: the same, or one label below a wildcard.
// Without a host, the pattern means each.
func matchesHost(pattern, host string) bool {
	parent, wildcard := strings.CutPrefix(pattern, "*.")
	label, found := strings.CutSuffix(host, "."+parent)
	return pattern == "" || pattern == host || wildcard && found && label != "" && !strings.Contains(label, ".")
}

// completeWellKnown finds the hosts where the gateway answers at well-known paths. The empty
// host is any host of the gateway.
func (c *Config) completeWellKnown() {
	c.wellKnown = map[string][]string{}
	home, err := policy.CanonicalHost(c.PublicURL.Host)
	if err != nil {
		return // checkPublicURL reports it
	}
	for _, path := range append(c.MetadataPaths(), WellKnownFinger) {
		c.wellKnown[path] = []string{home}
	}
	known := map[Resource]bool{}
	for i := range c.Routes {
		resource, ok := c.Resource(&c.Routes[i])
		if ok && !known[resource] {
			known[resource] = true
			path := WellKnownResource + literalPath(resource.Path)
			c.wellKnown[path] = append(c.wellKnown[path], resource.Host)
			c.resourceHosts = append(c.resourceHosts, resource.Host)
		}
	}
	c.resourceHosts = unique(c.resourceHosts)
}

// wellKnown checks that no route has a path where the gateway answers itself.
func (k *checker) wellKnown() {
	c, r := k.cfg, k.report
	one := len(c.namedHosts()) == 1
	for i, route := range c.Routes {
		path, host := literalPath(route.Match), policy.PatternHost(route.Match)
		if own := c.wellKnown[path]; slices.Contains(own, host) || one && own != nil || c.AnswersWellKnown(host, path) {
			r.Fault(fmt.Sprintf("routes[%d].match", i), "%q can never be reached, because the gateway itself answers there "+
				"with oauth.enabled; remove the route", route.Match)
		}
	}
}

// MetadataPaths returns the paths of the documents about the issuer. The path of
// token.issuer follows the well-known path (RFC 8414, section 3.1). The document of OpenID
// Connect is also where clients of that look: after the path of the issuer.
func (c *Config) MetadataPaths() []string {
	issuer := ""
	if u, err := url.Parse(c.Token.Issuer); err == nil {
		issuer = strings.TrimSuffix(u.Path, "/")
	}
	return unique([]string{wellKnownServer + issuer, wellKnownOpenID + issuer, issuer + wellKnownOpenID})
}

// Resource is a part of the gateway that access tokens are for.
type Resource struct {
	Host string // in the form of Hosts; empty: any of the gateway's
	Path string // as in a URL, without a slash at its end; empty: all paths
}

// Resource returns the resource of a route that accepts bearer: its host, and its path up to
// the first wildcard.
func (c *Config) Resource(route *Route) (Resource, bool) {
	if !slices.Contains(route.Auth, policy.Bearer) {
		return Resource{}, false
	}
	literal, _, _ := strings.Cut(route.Match, "{")
	path := url.URL{Path: strings.TrimRight(literalPath(literal), "/")}
	return Resource{Host: policy.PatternHost(route.Match), Path: path.EscapedPath()}, true
}
