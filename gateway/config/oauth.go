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
const RegistrationOpen = "open" // every program

// The grants of clients. On the wire, GrantDeviceCode has the name of RFC
// 8628, GrantJWTBearer that of RFC 7523, and GrantTokenExchange that of RFC 8693.
const (
	GrantAuthorizationCode = "authorization_code"
	GrantRefreshToken      = "refresh_token"
	GrantDeviceCode        = "device_code"
	GrantClientCredentials = "client_credentials"
	GrantJWTBearer         = "jwt_bearer"
	GrantTokenExchange     = "token_exchange"
)

// Whether users are asked before a client acts for them.
const consentSkip = "skip"

// Whether a client must prove with each code that it began the sign-in (PKCE, RFC 7636).
const pkceOptional = "optional" // for clients that cannot, and have a secret

// What a token opens whose client names no resource.
const defaultResourceAll = "all" // all routes that accept bearer

// OAuth configures the authorization server and OpenID provider for applications that
// sign users in by themselves.
type OAuth struct {
	Enabled          bool                 `yaml:"enabled"`
	Clients          []OAuthClient        `yaml:"clients"`
	CrossApp         []CrossApp           `yaml:"cross_app"`
	Registration     string               `yaml:"registration" default:"off" words:"off open"` // off or open
	RegistrationRate registrationRate     `yaml:"registration_rate"`
	RedirectSchemes  []string             `yaml:"redirect_schemes" check:"scheme"` // beside https, and http on loopback
	MetadataClients  OAuthMetadataClients `yaml:"metadata_clients"`
	Scopes           map[string][]string  `yaml:"scopes"`
	CodeLifetime     time.Duration        `yaml:"code_lifetime" default:"1m" min:"1s" max:"10m"`
	DeviceLifetime   time.Duration        `yaml:"device_lifetime" default:"10m" min:"1s" max:"1h"`
	IDTokenLifetime  time.Duration        `yaml:"id_token_lifetime" default:"10m" min:"1s" max:"720h"`
}

// Why returns why keys of the section have the bounds that they have.
func (OAuth) Why() map[string]string {
	return map[string]string{
		"code_lifetime":     "; a code must be short-lived (RFC 6749, section 4.1.2)",
		"device_lifetime":   "; who guesses codes would have that long for each",
		"id_token_lifetime": " (30 days); an ID token cannot be taken back",
	}
}

// OAuthClient is a configured client.
type OAuthClient struct {
	ID                     string   `yaml:"id"`
	Name                   string   `yaml:"name"`     // for users; default: ID
	Secret                 Secret   `yaml:"secret"`   // or its hash; empty, as Secrets: a public client
	Secrets                []Secret `yaml:"secrets"`  // instead of Secret; each is valid
	JWKS                   *jwkSet  `yaml:"jwks"`     // public keys, instead of secrets
	JWKSURI                string   `yaml:"jwks_uri"` // where they are, instead of JWKS
	RedirectURIs           []string `yaml:"redirect_uris"`
	Grants                 []string `yaml:"grants" default:"authorization_code refresh_token"`
	Roles                  []string `yaml:"roles" check:"role"` // of the client itself
	Policy                 string   `yaml:"policy"`             // who may sign in to it, see Config.ClientPolicy
	Consent                string   `yaml:"consent" default:"ask" words:"ask skip"`
	PKCE                   string   `yaml:"pkce" default:"required" words:"required optional"`
	DefaultResource        string   `yaml:"default_resource" default:"scope" words:"scope all"`
	PostLogoutRedirectURIs []string `yaml:"post_logout_redirect_uris"`
	BackchannelLogoutURI   string   `yaml:"backchannel_logout_uri"`
	TrustedRoots           string   `yaml:"trusted_roots" file:"public"`

	Federation []Federation `yaml:"federation"` // assertions that prove the client
	Exchange   Exchange     `yaml:"exchange"`   // of tokens, to act for their users
	// A lifetime that is 0 is that of Token or of OAuth.
	AccessLifetime  time.Duration `yaml:"access_lifetime" min:"1s"`
	RefreshLifetime time.Duration `yaml:"refresh_lifetime" min:"1s" max:"720h" why:" (30 days)"`
	IDTokenLifetime time.Duration `yaml:"id_token_lifetime" min:"1s" max:"720h"`

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// Why returns why keys of the section have the bounds that they have.
func (OAuthClient) Why() map[string]string {
	return map[string]string{"id_token_lifetime": " (30 days); an ID token cannot be taken back"}
}

// Words returns the words that no tag has room for.
func (OAuthClient) Words() map[string][]string {
	return map[string][]string{
		"grants": {"authorization_code", "refresh_token", "device_code", "client_credentials", "jwt_bearer",
			"token_exchange"},
	}
}

// Federation names assertions of a trusted issuer that prove a client.
type Federation struct {
	Issuer      string              `yaml:"issuer"` // the name of one of token.trusted_issuers
	Claims      map[string][]string `yaml:"claims"` // all are needed; see policy.HasClaim
	MaxLifetime time.Duration       `yaml:"max_lifetime" default:"1h" min:"1s" max:"24h"`
}

// Exchange names the resources whose tokens a client may exchange, and those that it gets tokens for.
type Exchange struct {
	From []string `yaml:"from"`
	To   []string `yaml:"to"`
}

// ExchangeOf returns what a client may exchange, nil for nothing.
func (o *OAuth) ExchangeOf(client string) *Exchange {
	for i := range o.Clients {
		if c := &o.Clients[i]; c.ID == client && slices.Contains(c.Grants, GrantTokenExchange) {
			return &c.Exchange
		}
	}
	return nil
}

// CrossApp lets a provider vouch for its users at clients (ID-JAG).
type CrossApp struct {
	Provider string   `yaml:"provider"` // its name
	Clients  []string `yaml:"clients"`  // identifiers, or URLs of metadata documents
}

// Vouches reports whether a provider may vouch for its users at a client.
func (o *OAuth) Vouches(provider, client string) bool {
	return slices.ContainsFunc(o.CrossApp, func(x CrossApp) bool {
		return x.Provider == provider && slices.Contains(x.Clients, client)
	})
}

// Vouching returns the names of the providers that vouch for their users.
func (o *OAuth) Vouching() (names []string) {
	for _, x := range o.CrossApp {
		names = append(names, x.Provider)
	}
	return names
}

// jwkSet is a JWK Set (RFC 7517, section 5) whose keys have no members but texts.
type jwkSet struct {
	Keys []map[string]string `yaml:"keys" json:"keys"`
}

// registrationRate limits the registrations from the address of one client.
type registrationRate struct {
	Requests int64         `yaml:"requests" default:"20" range:"1..1000000000" zero:"no limit"` // in Per; 0: no limit
	Per      time.Duration `yaml:"per" default:"1h" range:"100ms..24h"`
}

// OAuthMetadataClients configures clients whose identifier is the URL of a document about
// them.
type OAuthMetadataClients struct {
	Enabled      bool     `yaml:"enabled" default:"true"`
	Hosts        []string `yaml:"hosts" check:"host"`
	TrustedRoots string   `yaml:"trusted_roots" file:"public"` // PEM file, beside the roots of the system

	TrustedRootsContent []byte `yaml:"-"` // of the file
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
	return len(c.AllSecrets()) > 0 || c.JWKS != nil || c.JWKSURI != "" || len(c.Federation) > 0
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

// ActsForItself reports whether the client gets tokens of its own.
func (c OAuthClient) ActsForItself() bool {
	return slices.Contains(c.Grants, GrantClientCredentials) || slices.Contains(c.Grants, GrantJWTBearer)
}

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
