package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/gateway/wire/jose"
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

// What a token opens whose client names no resource.
const (
	defaultResourceScope = "scope" // userinfo alone, if all scopes are those of OpenID; else all routes
	defaultResourceAll   = "all"   // all routes that accept bearer
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
	IDTokenLifetime  time.Duration        `yaml:"id_token_lifetime"`
}

// OAuthClient is a configured client.
type OAuthClient struct {
	ID                     string        `yaml:"id"`
	Name                   string        `yaml:"name"`     // for users; default: ID
	Secret                 Secret        `yaml:"secret"`   // or its hash; empty, as Secrets: a public client
	Secrets                []Secret      `yaml:"secrets"`  // instead of Secret; each is valid
	JWKS                   *jwkSet       `yaml:"jwks"`     // public keys, instead of secrets
	JWKSURI                string        `yaml:"jwks_uri"` // where they are, instead of JWKS
	RedirectURIs           []string      `yaml:"redirect_uris"`
	Grants                 []string      `yaml:"grants"`
	Roles                  []string      `yaml:"roles"`  // of the client itself, for GrantClientCredentials
	Policy                 string        `yaml:"policy"` // who may sign in to it, see Config.ClientPolicy
	Consent                string        `yaml:"consent"`
	PKCE                   string        `yaml:"pkce"`
	DefaultResource        string        `yaml:"default_resource"` // of tokens, if the client names no resource
	PostLogoutRedirectURIs []string      `yaml:"post_logout_redirect_uris"`
	BackchannelLogoutURI   string        `yaml:"backchannel_logout_uri"`
	TrustedRoots           string        `yaml:"trusted_roots"`     // of that URI and JWKSURI: PEM file, beside the roots of the system
	AccessLifetime         time.Duration `yaml:"access_lifetime"`   // 0: that of token
	RefreshLifetime        time.Duration `yaml:"refresh_lifetime"`  // 0: that of token
	IDTokenLifetime        time.Duration `yaml:"id_token_lifetime"` // 0: that of OAuth

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// jwkSet is a JWK Set (RFC 7517, section 5) whose keys have no members but texts.
type jwkSet struct {
	Keys []map[string]string `yaml:"keys" json:"keys"`
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
		CodeLifetime:    time.Minute, DeviceLifetime: 10 * time.Minute, IDTokenLifetime: 10 * time.Minute,
	}
}

func defaultOAuthClient() OAuthClient {
	return OAuthClient{
		Grants: []string{GrantAuthorizationCode, GrantRefreshToken}, Consent: consentAsk, PKCE: pkceRequired,
		DefaultResource: defaultResourceScope,
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

		"default_resource": {defaultResourceScope, defaultResourceAll},
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

// Confidential reports whether the client can prove who it is.
func (c *OAuthClient) Confidential() bool {
	return len(c.AllSecrets()) > 0 || c.JWKS != nil || c.JWKSURI != ""
}

// PublicKeys returns the keys of JWKS, nil if it is not given.
func (c *OAuthClient) PublicKeys() (*jose.PublicKeys, error) {
	if c.JWKS == nil {
		return nil, nil
	}
	raw, err := json.Marshal(c.JWKS)
	if err != nil {
		return nil, err
	}
	return jose.ParsePublicKeys(raw)
}

// AssertionAlgorithms returns the algorithms with which clients sign their assertions (RFC 7523).
func AssertionAlgorithms() []string { return []string{"RS256", "ES256"} }

// ExcusedPKCE reports whether the client gets codes without PKCE.
func (c *OAuthClient) ExcusedPKCE() bool { return c.PKCE == pkceOptional }

// AllByDefault reports whether a token for no resource opens all routes, whatever its scopes are.
func (c *OAuthClient) AllByDefault() bool { return c.DefaultResource == defaultResourceAll }

// SkipsConsent reports whether users are not asked.
func (c *OAuthClient) SkipsConsent() bool { return c.Consent == consentSkip }

// actsForItself reports whether the client gets tokens of its own.
func (c OAuthClient) actsForItself() bool { return slices.Contains(c.Grants, GrantClientCredentials) }

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
