// Package clients tells who is a client of the authorization server, and what it may do.
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
// Everybody can name a document, so fetching one must not lead to what only the gateway can
// reach: the address is checked when the connection is made, whatever the name resolves to,
// and no redirect is followed. A client cannot prove who it is with a secret of another, in
// two ways at once, or twice with one assertion.
package clients

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/policy"
)

// Errors of Set. Any other error means that the answer is unknown.
var (
	// ErrUnknown: there is no such client. It wraps the reason.
	ErrUnknown = errors.New("clients: there is no such client")
	// ErrUnreachable: the document of the client does not answer now, or it is at an
	// address that must not be reached. The two are one error, because the difference would
	// tell what only the gateway can see.
	ErrUnreachable = errors.New("clients: the document of the client cannot be had")
	// ErrUnauthenticated: the client did not prove who it is.
	ErrUnauthenticated = errors.New("clients: the client is not authenticated")
	// ErrTwoWays: the request names or proves the client in two ways.
	ErrTwoWays = errors.New("clients: the client authenticates in two ways at once")
)

// How a client proves who it is.
const (
	MethodNone       = "none" // a public client, which cannot
	MethodSecret     = "secret"
	MethodPrivateKey = "private_key_jwt" // RFC 7523, section 2.2
)

// Client is a client of the authorization server. It must not be changed.
type Client struct {
	ID, Name          string
	Configured        bool // in the configuration
	Document          bool // ID is the URL of a document
	RedirectURIs      []string
	Grants            []string // in the words of the configuration
	Method            string
	Roles             []string      // of the client itself
	Policy            *policy.Route // who may sign in to it; nil: every user
	SkipConsent       bool
	PostLogout        []string
	BackchannelLogout string
	Access, Refresh   time.Duration // 0: those of token
	Scopes            []string      // that the client has registered; nil: any
}

// Confidential reports whether the client can prove who it is.
func (c *Client) Confidential() bool { return c.Method == MethodSecret || c.Method == MethodPrivateKey }

// May reports whether the client may ask tokens for a grant: the value of grant_type, or the
// word of the configuration.
func (c *Client) May(grant string) bool {
	if grant == deviceGrant {
		grant = config.GrantDeviceCode
	}
	return slices.Contains(c.Grants, grant)
}

// deviceGrant is the grant_type of RFC 8628, section 3.4.
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// Redirects reports whether users may be sent back to a URI.
func (c *Client) Redirects(uri string) bool { return slices.Contains(c.RedirectURIs, uri) }

// Options are what a Set needs.
type Options struct {
	Config   *config.Config
	Store    store.Store
	Now      func() time.Time // the clock of Store
	Verifier *auth.Verifier
}

// Set is the clients of a configuration.
type Set struct{ options Options }

// New returns the clients of a configuration.
func New(o Options) *Set { return &Set{options: o} }

// Find returns the client of an identifier. The error is ErrUnknown, ErrUnreachable, or one of
// the store.
func (s *Set) Find(_ context.Context, _ string) (*Client, error) { return nil, ErrUnknown }

// Presented is how a request says and proves which client sends it.
type Presented struct {
	Basic         bool   // the request has Basic credentials
	Value         string // of them
	ID            string // client_id in the form
	Secret        string // client_secret in the form
	AssertionType string
	Assertion     string
	Audience      []string // of assertions: the issuer and the URL of the endpoint
	Address       netip.Addr
}

// Authenticate returns the client that sends a request. A public client proves nothing. The
// error is ErrUnauthenticated, ErrTwoWays, ErrUnreachable, an auth.ThrottledError, auth.ErrBusy,
// or one of the store.
func (s *Set) Authenticate(_ context.Context, _ *Presented) (*Client, error) {
	return nil, ErrUnauthenticated
}

// RegistrationError is why a registration is refused (RFC 7591, section 3.2.2).
type RegistrationError struct {
	Code        string // invalid_redirect_uri or invalid_client_metadata
	Description string
}

// Error implements error.
func (e *RegistrationError) Error() string { return e.Code + ": " + e.Description }

// Register registers the client that a body describes, and returns the JSON of the answer.
// The error is a *RegistrationError, or one of the store.
func (s *Set) Register(_ context.Context, _ []byte) (answer any, err error) {
	return nil, &RegistrationError{"invalid_client_metadata", "Registration is not built."}
}
