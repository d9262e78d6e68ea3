// Package clients tells who is a client of the authorization server, and its permissions.
//
// # Job
//
// A client is configured, or it has registered itself (RFC 7591), or its identifier is the
// URL of a document about it, which the package fetches. [Set.Find] finds a client of each
// kind, and [Set.Authenticate] checks how one proves who it is. [Client.Redirects] is the
// one rule for where users may be sent back.
//
// # Limits
//
// The package writes no response, makes no token, and asks no user. Documents are fetched
// again after a restart and after a reload.
//
// # Threats
//
// Everybody can name a document, so fetching one must not lead to places that only the gateway can
// reach: the address is checked when the connection is made, whatever the name resolves to, and no
// redirect is followed. A client cannot prove who it is with a secret of another, in two ways at
// once, or twice with one assertion.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/section"
	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

// Errors of Set. Any other error means that the answer is unknown.
var (
	// ErrUnknown: there is no such client. It wraps the reason.
	ErrUnknown = errors.New("clients: there is no such client")
	// ErrUnreachable: the document of the client does not answer now, or it is at an
	// address that must not be reached. The two are one error, because the difference would reveal
	// the network that only the gateway can see. It is also ErrUnknown.
	ErrUnreachable = fmt.Errorf("%w: its document cannot be had", ErrUnknown)
	// ErrUnauthenticated: the client did not prove who it is.
	ErrUnauthenticated = errors.New("clients: the client is not authenticated")
	// ErrTwoWays: the request names or proves the client in two ways.
	ErrTwoWays = errors.New("clients: the client authenticates in two ways at once")
)

// How a client proves who it is.
const (
	methodNone       = "none" // a public client, which cannot
	methodSecret     = "secret"
	methodPrivateKey = "private_key_jwt" // RFC 7523, section 2.2
	methodFederation = "an assertion of its federation"
)

// Client is a client of the authorization server. It must not be changed.
type Client struct {
	ID, Name          string
	Configured        bool // in the configuration
	Document          bool // ID is the URL of a document
	RedirectURIs      []string
	Grants            []string // in the words of the configuration
	method            string
	Roles             []string      // of the client itself
	Policy            *policy.Route // who may sign in to it; nil: every user
	SkipConsent       bool
	ExcusedPKCE       bool // it gets codes without PKCE
	AllByDefault      bool // a token for no resource opens all routes, whatever its scopes are
	PostLogout        []string
	BackchannelLogout string
	Access, Refresh   time.Duration // 0: those of token
	IDToken           time.Duration // 0: that of oauth
	Scopes            []string      // that the client has registered; nil: any

	federated bool // an assertion of its federation proves it, too

	secrets *auth.Secrets // of a configured client
	hash    string        // of the secret of a registered client
	keys    *jose.PublicKeys
	keysURI string // where keys are, if they are nil
}

// Confidential reports whether the client can prove who it is.
func (c *Client) Confidential() bool { return c.method != methodNone }

// May reports whether the client may ask tokens for a grant: the value of grant_type, or the
// word of the configuration.
func (c *Client) May(grant string) bool { return slices.Contains(c.Grants, GrantWord(grant)) }

// GrantWord returns the word of the configuration for a grant_type.
func GrantWord(grant string) string {
	switch grant {
	case deviceGrant:
		return config.GrantDeviceCode
	case AssertionGrant:
		return config.GrantJWTBearer
	case ExchangeGrant:
		return config.GrantTokenExchange
	}
	return grant
}

// deviceGrant is the grant_type of RFC 8628, section 3.4.
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// AssertionGrant is the grant_type of RFC 7523, section 2.1.
const AssertionGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// ExchangeGrant is the grant_type of RFC 8693, section 2.1.
const ExchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"

// Options are the parts of a Set.
type Options struct {
	Config   *config.Config
	Store    store.Store
	Now      func() time.Time // the clock of Store
	Verifier *auth.Verifier
	// Assertions are those of platforms, which prove clients by their federation.
	Assertions *assertions.Set
}

// Set is the clients of a configuration, and those that it lets in.
type Set struct {
	oauth      *config.OAuth
	store      store.Store
	now        func() time.Time
	verifier   *auth.Verifier
	assertions *assertions.Set
	configured map[string]*Client

	documents *remote[*Client]
	keys      *remote[*jose.PublicKeys]
	ownKeys   map[string]*remote[*jose.PublicKeys] // of configured clients whose keys are elsewhere, by ID
}

// Configured reports whether the configuration has a client.
func (s *Set) Configured(id string) bool { return s.configured[id] != nil }

// New returns the clients of a configuration.
func New(o Options) (*Set, error) { return newSet(o, nil) }

// newSet is New with a resolver for the hosts of documents; nil means that of the system.
func newSet(o Options, resolver *net.Resolver) (*Set, error) {
	f, err := newFetcher(&o.Config.OAuth.MetadataClients, o.Now, resolver)
	if err != nil {
		return nil, err
	}
	s := &Set{
		oauth: &o.Config.OAuth, store: o.Store, now: o.Now, verifier: o.Verifier, assertions: o.Assertions,
		configured: map[string]*Client{},
		keys:       newRemote(f, o.Now, readKeys), ownKeys: map[string]*remote[*jose.PublicKeys]{},
	}
	s.documents = newRemote(f, o.Now, s.documentClient)
	for i := range s.oauth.Clients {
		client := &s.oauth.Clients[i]
		if s.configured[client.ID], err = configuredClient(client, o.Config.ClientPolicy(client)); err != nil {
			return nil, fmt.Errorf("oauth.clients[%s]: %w", client.ID, err)
		}
		if client.JWKSURI != "" {
			roots, err := section.RootsWith(client.TrustedRootsContent)
			if err != nil {
				return nil, fmt.Errorf("oauth.clients[%s].trusted_roots: %w", client.ID, err)
			}
			s.ownKeys[client.ID] = newRemote(newOwnFetcher(roots), o.Now, readKeys)
		}
	}
	return s, nil
}

func readKeys(_ string, body []byte) (*jose.PublicKeys, error) { return jose.ParsePublicKeys(body) }

// configuredClient returns a client of the configuration.
func configuredClient(c *config.OAuthClient, who *policy.Route) (*Client, error) {
	client := &Client{
		ID: c.ID, Name: c.Name, Configured: true, RedirectURIs: c.RedirectURIs, Grants: c.Grants, method: methodNone,
		Roles: c.Roles, Policy: who, SkipConsent: c.SkipsConsent(), ExcusedPKCE: c.ExcusedPKCE(),
		AllByDefault:      c.AllByDefault(),
		PostLogout:        c.PostLogoutRedirectURIs,
		BackchannelLogout: c.BackchannelLogoutURI, Access: c.AccessLifetime, Refresh: c.RefreshLifetime,
		IDToken: c.IDTokenLifetime,
		keysURI: c.JWKSURI, federated: len(c.Federation) > 0,
	}
	var err error
	if client.keys, err = c.PublicKeys(); err != nil {
		return nil, err
	}
	var texts []string
	var hashes []password.Hash
	for _, secret := range c.AllSecrets() {
		if !password.IsHash(secret.Reveal()) {
			texts = append(texts, secret.Reveal())
		} else if hash, err := password.Parse(secret.Reveal()); err == nil { // the configuration was checked
			hashes = append(hashes, hash)
		}
	}
	switch {
	case len(c.AllSecrets()) > 0:
		client.method, client.secrets = methodSecret, auth.NewSecrets(c.ID, texts, hashes)
	case c.JWKS != nil || c.JWKSURI != "":
		client.method = methodPrivateKey
	case client.federated:
		client.method = methodFederation
	}
	return client, nil
}

// Find returns the client of an identifier, which a client of the gateway at an address names. The
// error is ErrUnknown, ErrUnreachable, an *auth.StartsError, or one of the store.
func (s *Set) Find(ctx context.Context, id string, from netip.Addr) (*Client, error) {
	if client, ok := s.configured[id]; ok {
		return client, nil
	}
	switch {
	case strings.HasPrefix(id, "https://"):
		if !s.oauth.MetadataClients.Enabled {
			return nil, fmt.Errorf("%w: oauth.metadata_clients.enabled is false", ErrUnknown)
		}
		return s.documents.get(ctx, id, from, time.Time{})
	case registeredForm.MatchString(id):
		return s.registered(ctx, id)
	}
	// Without the identifier, which may be a secret in the wrong field.
	return nil, fmt.Errorf("%w: it is not configured", ErrUnknown)
}

// Keep makes sure that a client which a user has allowed something is not forgotten for clients
// that strangers name.
func (s *Set) Keep(c *Client) {
	if c.Document {
		s.documents.keep(c.ID)
		s.keys.keep(c.keysURI)
	}
}

// Counts reports whether there can be a client with an identifier, by the configuration. It looks
// up neither a registration nor a document.
func (s *Set) Counts(id string) bool {
	_, configured := s.configured[id]
	document := s.oauth.MetadataClients.Enabled && s.documents.fetcher.check(id) == nil
	return configured || document || registeredForm.MatchString(id)
}

// Admits reports whether the policy of a client lets a user in, by who they are. A client that acts
// for itself is no user.
func (s *Set) Admits(id string, user *policy.Identity) bool {
	client := s.configured[id]
	return client == nil || client.Policy == nil || user.Provider == policy.ClientProvider ||
		client.Policy.AllowsUser(user)
}

// documentClient makes a client of the document at its identifier.
func (s *Set) documentClient(id string, body []byte) (*Client, error) {
	m, err := readMetadata(s.oauth, body)
	if err != nil {
		return nil, err
	}
	client := &Client{
		ID: id, Name: m.Name, Document: true, RedirectURIs: m.RedirectURIs, Grants: m.Grants, method: methodNone,
		PostLogout: m.PostLogout, Scopes: m.Scopes, keys: m.Keys, keysURI: m.KeysURI,
	}
	switch {
	case m.ID != id:
		return nil, fmt.Errorf("its client_id is %.100q", m.ID)
	case m.secret:
		return nil, errors.New("it has a secret, which everybody can read")
	case m.Method == methodPrivateKey && m.Keys == nil && m.KeysURI == "":
		return nil, errors.New("it has neither jwks nor jwks_uri for private_key_jwt")
	case m.Method == methodPrivateKey:
		client.method = methodPrivateKey
	case m.Method != "" && m.Method != methodNone:
		return nil, fmt.Errorf("its token_endpoint_auth_method is %.50q, expected none or private_key_jwt", m.Method)
	}
	return client, nil
}
