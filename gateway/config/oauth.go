package config

import (
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
	Policy                 string        `yaml:"policy"` // who may sign in to it; empty: every user. See Config.ClientPolicy
	Consent                string        `yaml:"consent"`
	PostLogoutRedirectURIs []string      `yaml:"post_logout_redirect_uris"`
	BackchannelLogoutURI   string        `yaml:"backchannel_logout_uri"`
	AccessLifetime         time.Duration `yaml:"access_lifetime"`  // 0: that of token
	RefreshLifetime        time.Duration `yaml:"refresh_lifetime"` // 0: that of token
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
	return OAuthClient{Grants: []string{GrantAuthorizationCode, GrantRefreshToken}, Consent: consentAsk}
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

// SkipsConsent reports whether users are not asked.
func (c *OAuthClient) SkipsConsent() bool { return c.Consent == consentSkip }

// complete sets the names of clients that have none.
func (o *OAuth) complete() {
	for i := range o.Clients {
		if client := &o.Clients[i]; client.Name == "" {
			client.Name = client.ID
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

// WellKnown returns the paths outside of Endpoints.Prefix where the gateway answers if
// OAuth.Enabled is set: MetadataPaths, WellKnownFinger, and the documents of the routes
// that accept bearer, which are WellKnownResource and the path of the resource. They are
// decoded.
func (c *Config) WellKnown() []string {
	if !c.OAuth.Enabled {
		return nil
	}
	paths := append(c.MetadataPaths(), WellKnownFinger)
	for i := range c.Routes {
		if resource, ok := c.Resource(&c.Routes[i]); ok {
			paths = append(paths, WellKnownResource+resource.Path)
		}
	}
	return unique(paths)
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

// Resource is what access tokens are for: a part of the gateway.
type Resource struct {
	Host string // in the form of Hosts; empty: any of the gateway's
	Path string // decoded, without a slash at its end; empty: all paths
}

// Resource returns the resource of a route that accepts bearer: its host, and its path up to
// the first wildcard.
func (c *Config) Resource(route *Route) (Resource, bool) {
	if !slices.Contains(route.Auth, policy.Bearer) {
		return Resource{}, false
	}
	literal, _, _ := strings.Cut(route.Match, "{")
	return Resource{Host: policy.PatternHost(route.Match), Path: strings.TrimRight(literalPath(literal), "/")}, true
}
