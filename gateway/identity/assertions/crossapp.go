package assertions

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/identity/provider"
	"authgate/gateway/wire/jose"
)

// maxCrossApp is how long a cross-app assertion may live.
const maxCrossApp = time.Hour

// Vouching is a provider of users whose cross-app assertions are accepted; see provider.Provider.
type Vouching interface {
	Name() string
	Issuer() string
	VerifyCrossApp(ctx context.Context, raw, audience string) (*provider.Assertion, error)
}

// Vouched is a verified cross-app assertion.
type Vouched struct {
	Provider, Issuer string // the name of the provider, and its identifier
	*provider.Assertion
}

// IsCrossApp reports whether an assertion says that it is a cross-app assertion, and whether there can be
// one in this configuration.
func (s *Set) IsCrossApp(raw string) bool {
	if len(s.vouching) == 0 {
		return false
	}
	token, err := jose.Parse(raw)
	if err != nil {
		return false
	}
	typ, _ := token.Header["typ"].(string)
	return strings.TrimPrefix(strings.ToLower(typ), "application/") == provider.CrossAppType
}

// Vouch verifies a cross-app assertion for a client that has proved itself, and which a client of the
// gateway at an address sends. accept may refuse it, too, and its error is returned. The errors are those
// of Prove.
func (s *Set) Vouch(ctx context.Context, raw, client string, from netip.Addr, accept func(*Vouched) error) error {
	return s.verifier.CheckProof(ctx, client, "cross-app", from, func() error {
		v, err := s.vouch(ctx, raw, client)
		if err != nil {
			return err
		}
		return accept(v)
	})
}

func (s *Set) vouch(ctx context.Context, raw, client string) (*Vouched, error) {
	iss, _ := jose.IssuerOf(raw).(string)
	at := slices.IndexFunc(s.vouching, func(p Vouching) bool {
		return p.Issuer() == iss && iss != "" && s.oauth.Vouches(p.Name(), client)
	})
	switch {
	case len(raw) > maxBytes:
		return nil, refused("it is longer than %d bytes", maxBytes)
	case at < 0:
		return nil, refused("no provider of oauth.cross_app with the client %s has its issuer %.200q", client, iss)
	}
	p := s.vouching[at]
	a, err := p.VerifyCrossApp(ctx, raw, s.audience)
	switch {
	case errors.Is(err, provider.ErrInvalid):
		return nil, refused("%w", err)
	case err != nil:
		return nil, err
	case a.Client != client:
		return nil, refused("its client_id is %.200q", a.Client)
	case a.Expires.Sub(a.Issued) > maxCrossApp:
		return nil, refused("it lives for %v, more than %v", a.Expires.Sub(a.Issued), maxCrossApp)
	}
	return &Vouched{p.Name(), p.Issuer(), a}, nil
}

// Refused marks an error as a refusal of an assertion, so that it counts.
func Refused(err error) error { return refused("%w", err) }
