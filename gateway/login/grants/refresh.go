package grants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"authgate/gateway/login/rotation"
	"authgate/gateway/store"
)

// Refresh exchanges a refresh token for new tokens. check compares the client and may narrow
// the scopes, for this access token alone; its error is returned, and consumes nothing. Of
// several calls, one succeeds. A token that is used again after the leeway ends the grant and
// not the login, with a *ReuseError (RFC 9700, section 4.14.2). Other errors are ErrInvalid.
func (g *Grants) Refresh(ctx context.Context, token string, check func(*Terms) error) (*Issued, error) {
	s, ok := parse(refreshMark, token)
	if !ok {
		return nil, ErrNeverIssued
	}
	return rotation.Retry(func() (*Issued, error) { return g.refresh(ctx, s, check) })
}

// refresh is one attempt of Refresh. It fails with rotation.ErrStale if its read was too old.
func (g *Grants) refresh(ctx context.Context, s secret, check func(*Terms) error) (*Issued, error) {
	known, raw, err := g.load(ctx, s.name())
	if err != nil {
		return nil, err
	}
	terms, err := known.narrowed(check)
	if err != nil {
		return nil, err
	}
	now := g.options.Now()
	if err := g.federated(known.Client, known.Federation); err != nil {
		return nil, err
	}
	by, err := g.lenderOf(ctx, s.name(), known, now)
	if err != nil {
		return nil, err
	}
	if known.Current != s.hash() {
		if known.JustReplaced(s.hash(), g.options.Leeway, now) {
			return nil, invalid("the refresh token was used again within the leeway")
		}
		return nil, g.reused(ctx, "refresh token", s, known, raw)
	}
	if err := g.admits(known.Client, by.identity); err != nil {
		return nil, err
	}
	following := s.next()
	next := *known
	next.State, next.Used = known.Rotate(following.hash(), g.options.Leeway, now), now
	next.Federation = terms.Federation
	value, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	err = g.options.Store.Swap(ctx, grantPrefix+s.name(), raw, value, known.Expires)
	if errors.Is(err, store.ErrConflict) {
		return nil, invalid("another call used the refresh token first")
	}
	if err != nil {
		return nil, fmt.Errorf("rotating a refresh token: %w", err)
	}
	issued, err := g.issue(by, &next, terms, s.name())
	if err == nil {
		issued.Refresh = following.String()
	}
	return issued, err
}

// narrowed returns the terms of the next access token, which check may have narrowed.
func (known *grant) narrowed(check func(*Terms) error) (*Terms, error) {
	terms, asked := known.Terms, known.Terms
	asked.Scopes = slices.Clone(asked.Scopes)
	if err := check(&asked); err != nil {
		return nil, err
	}
	for _, scope := range asked.Scopes {
		if !slices.Contains(known.Scopes, scope) {
			return nil, fmt.Errorf("grants: the scope %q was not granted", scope)
		}
	}
	terms.Federation = asked.Federation
	terms.Scopes, terms.OpenID, terms.Nonce = asked.Scopes, known.OpenID && asked.OpenID, ""
	return &terms, nil
}

// lenderOf returns the lender of a grant as it is now. The error is ErrInvalid if the grant opens nothing.
func (g *Grants) lenderOf(ctx context.Context, name string, known *grant, expires time.Time) (*liveLender, error) {
	if !known.Redeemed || !g.options.Now().Before(known.Expires) {
		return nil, invalid("its grant has expired")
	}
	if !g.options.Counts(known.Client) {
		return nil, invalid("its client is not configured any more")
	}
	by, err := g.findLender(ctx, &known.lender, expires)
	if err != nil {
		return nil, err
	}
	if !by.login.Names(grantPrefix + name) {
		return nil, invalid("its login has lent too much since, or its user has changed the password")
	}
	return by, nil
}
