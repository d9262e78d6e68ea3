package grants

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"authgate/gateway/identity/auth"
	"authgate/policy"
)

// Authenticate returns the identity that a live access token proves, and its terms, whatever
// resource it is for. The error is a Rejection if it is not valid.
func (g *Grants) Authenticate(ctx context.Context, token string) (*policy.Identity, *Terms, error) {
	known, err := g.verify(ctx, token, true)
	if err != nil {
		return nil, nil, err
	}
	return known.identity, &known.terms, nil
}

// Target is the resource that a route has.
type Target struct {
	Shared string // its name; empty: the route shares none
	// At returns the address of the route for the host of a request, which is a resource too.
	At func(host string) string
}

// At returns the mechanism for access tokens of grants in front of that for others. It
// decides about every bearer token that says that it is one of a grant. A token is valid for a
// target, or if its audience is one of those. For the zero Target, tokens of grants open nothing.
func (g *Grants) At(target Target, audience []string, others auth.Authenticator) *Bearers {
	return &Bearers{others, g, target, audience}
}

// Bearers is the mechanism that At returns.
type Bearers struct {
	auth.Authenticator
	grants   *Grants
	target   Target
	audience []string
}

// Authenticate implements auth.Authenticator.
func (b *Bearers) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if !b.decides(creds) {
		return b.Authenticator.Authenticate(ctx, creds)
	}
	return b.authenticate(ctx, creds, true)
}

// Alive implements auth.Authenticator.
func (b *Bearers) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if !b.decides(creds) {
		return b.Authenticator.Alive(ctx, creds)
	}
	return b.authenticate(ctx, creds, false)
}

// decides reports whether credentials are a bearer token that says that it is one of a grant.
// Cookies hold none.
func (b *Bearers) decides(creds *auth.Credentials) bool {
	return creds.Scheme == "bearer" && (b.grants.isAccess(creds.Value) || isSecret(creds.Value))
}

func (b *Bearers) authenticate(ctx context.Context, creds *auth.Credentials, patient bool) (*policy.Identity, error) {
	switch {
	case isSecret(creds.Value):
		return nil, badToken("a code or a refresh token, and no access token")
	case b.target.At == nil:
		return nil, badToken("tokens of clients open nothing here")
	}
	known, err := b.grants.verify(ctx, creds.Value, patient)
	if err != nil {
		return nil, err
	}
	if err := b.CheckAudience(known.audience, creds.Host); err != nil {
		return nil, err
	}
	return known.identity, nil
}

// CheckAudience refuses a token that is not for the resource of a request to a host.
func (b *Bearers) CheckAudience(audience []string, host string) error {
	for _, one := range audience {
		if slices.Contains(b.audience, one) || one == b.target.Shared || one == b.target.At(host) {
			return nil
		}
	}
	return badToken(fmt.Sprintf("for the resource %s, and that of the route is %s", audience[0],
		cmp.Or(b.target.Shared, b.target.At(host))))
}
