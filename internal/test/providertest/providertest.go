// Package providertest is for tests: identity providers and trusted issuers that answer
// as a test says, without a network.
package providertest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"authgate/gateway/identity/provider"
)

// Server is asked about tokens, and answers with a T. It refuses all until a test sets its
// answer.
type Server[T any] struct {
	Identifier string // its issuer

	mu     sync.Mutex
	asked  []string
	answer func(ctx context.Context, token string) (*T, error)
}

// Issuer returns the identifier.
func (s *Server[T]) Issuer() string { return s.Identifier }

// Ask answers about a token.
func (s *Server[T]) Ask(ctx context.Context, token string) (*T, error) {
	s.mu.Lock()
	s.asked = append(s.asked, token)
	answer := s.answer
	s.mu.Unlock()
	if answer == nil {
		return nil, Fails(provider.ErrInvalid)
	}
	return answer(ctx, token)
}

// Answers sets the answer.
func (s *Server[T]) Answers(answer func(ctx context.Context, token string) (*T, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Knows makes it accept one token.
func (s *Server[T]) Knows(token string, answer T) {
	s.Answers(func(_ context.Context, asked string) (*T, error) {
		if asked != token {
			return nil, Fails(provider.ErrInvalid)
		}
		return &answer, nil
	})
}

// Questions returns the tokens that it was asked about.
func (s *Server[T]) Questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Fails returns an error of a provider.
func Fails(kind error) error {
	return &provider.Error{Provider: "keycloak", Operation: "token", Kind: kind, Err: errors.New("as the test says")}
}

// Failures returns the ways in which a provider or an issuer fails, by name. store is what a
// store says that fails.
func Failures(store error) map[string]error {
	return map[string]error{
		"bad": provider.ErrInvalid, "fault": provider.ErrFault, "timeout": provider.ErrTimeout,
		"refused": provider.ErrEnded, "client": provider.ErrClient, "mix-up": provider.ErrMixUp,
		"deadline": context.DeadlineExceeded, "store": store,
	}
}

// Trusted is a trusted issuer: with Opaque of opaque tokens, and otherwise of JWTs.
type Trusted struct {
	Server[provider.AccessToken]
	Opaque bool
}

// NewTrusted returns the trusted issuer with that identifier.
func NewTrusted(identifier string, opaque bool) *Trusted {
	return &Trusted{Server: Server[provider.AccessToken]{Identifier: identifier}, Opaque: opaque}
}

// Verify verifies a JWT.
func (i *Trusted) Verify(ctx context.Context, token string) (*provider.AccessToken, error) {
	if i.Opaque {
		return nil, errors.New("an opaque token was taken for a JWT")
	}
	return i.Ask(ctx, token)
}

// Introspect asks about an opaque token.
func (i *Trusted) Introspect(ctx context.Context, token string) (*provider.AccessToken, error) {
	if !i.Opaque {
		return nil, errors.New("a JWT was taken for an opaque token")
	}
	return i.Ask(ctx, token)
}

// Access is a trusted issuer's answer for a token of carol.
func Access(jti string, expires time.Time) provider.AccessToken {
	return provider.AccessToken{
		Profile: provider.Profile{Subject: "7", Username: "carol", Name: "Carol", Email: "carol@example.org",
			Roles: []string{"user"}, Claims: map[string]any{"a": "b"}},
		Scopes: []string{"read", "write"}, ID: jti, Expires: expires,
	}
}

// JWT returns a new JWT that names the issuer. Its signature is not valid.
func JWT(issuer string) string {
	encode := func(part string) string { return base64.RawURLEncoding.EncodeToString([]byte(part)) }
	return encode(`{"alg":"ES256"}`) + "." +
		encode(fmt.Sprintf(`{"iss":%q,"jti":%q}`, issuer, rand.Text())) + "." + encode("signature")
}
