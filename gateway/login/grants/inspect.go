package grants

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/store"
	"authgate/policy"
)

// Revoke ends a token of a client (RFC 7009): an access token alone, a refresh token with its
// grant and all its tokens. Of a token that is not valid, or of another client, it does
// nothing, and returns nil.
func (g *Grants) Revoke(ctx context.Context, client, token string) (*Revoked, error) {
	ctx = store.Ending(ctx)
	if s, ok := parse(refreshMark, token); ok {
		known, _, err := g.load(ctx, s.name())
		if errors.Is(err, ErrInvalid) || err == nil && known.Client != client {
			return nil, nil
		}
		if err == nil {
			err = g.options.Store.Delete(ctx, grantPrefix+s.name())
		}
		if err != nil {
			return nil, fmt.Errorf("revoking a refresh token: %w", err)
		}
		return &Revoked{known.Subject, known.Login}, nil
	}
	access, err := g.parse(token)
	if err != nil || access.client != client {
		return nil, nil // nothing to revoke
	}
	if err := g.options.Store.Put(ctx, access.revokedKey, []byte("1"), access.expires); err != nil {
		return nil, fmt.Errorf("revoking an access token: %w", err)
	}
	subject := access.subject
	if !strings.Contains(subject, ":") {
		subject = policy.LocalProvider + ":" + subject
	}
	return &Revoked{subject, access.login}, nil
}

// Revoked tells whose token a client has revoked.
type Revoked struct {
	Subject string
	Login   string // sid; empty: the client's own token
}

// Inspected describes a token of a client. If it is not active, nothing else is set.
type Inspected struct {
	Active          bool
	Terms           Terms
	Identity        *policy.Identity
	Issued, Expires time.Time
	ID              string // jti; empty for a refresh token
	Refresh         bool   // it is a refresh token
}

// Inspect describes a token to a client (RFC 7662). Only its own tokens are active.
func (g *Grants) Inspect(ctx context.Context, client, token string) (*Inspected, error) {
	found, err := g.inspect(ctx, token)
	if err == nil {
		err = g.admits(found.Terms.Client, found.Identity)
	}
	if errors.Is(err, ErrInvalid) || errors.Is(err, auth.ErrRejected) || err == nil && found.Terms.Client != client {
		return &Inspected{}, nil
	}
	return found, err
}

func (g *Grants) inspect(ctx context.Context, token string) (*Inspected, error) {
	s, ok := parse(refreshMark, token)
	if !ok {
		known, err := g.verify(ctx, token, true)
		if err != nil {
			return nil, err
		}
		return &Inspected{
			Active: true, Terms: known.terms, Identity: known.identity, Issued: known.issued, Expires: known.expires,
			ID: known.id,
		}, nil
	}
	known, _, err := g.load(ctx, s.name())
	if err != nil {
		return nil, err
	}
	if known.Current != s.hash() {
		return nil, invalid("the refresh token was used")
	}
	if err := g.federated(known.Client, known.Federation); err != nil {
		return nil, err
	}
	by, err := g.lenderOf(ctx, s.name(), known, known.Expires)
	if err != nil {
		return nil, err
	}
	return &Inspected{
		Active: true, Terms: known.Terms, Identity: g.Lend(known.Scopes, by.identity), Issued: known.Used,
		Expires: known.Expires, Refresh: true,
	}, nil
}
