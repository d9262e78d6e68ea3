package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// exchangedClaim has the tokens that led to one that a client got by an exchange.
const exchangedClaim = "exchanged"

// exchanged names a token that was exchanged. The token of an exchange ends with it.
type exchanged struct {
	ID         string `json:"jti"`
	Client     string `json:"client_id"`
	Federation string `json:"federation,omitempty"`
}

// Exchange returns an access token by which a client acts for the subject of a live access token, on
// the terms that check leaves (RFC 8693). check gets the terms of the subject token. The new token ends
// with all that ends the subject token. The error is ErrNotAdmitted if the policy of the client does not
// let the subject in, and ErrInvalid or a Rejection if the subject token is not valid.
func (g *Grants) Exchange(ctx context.Context, token string, t Terms, check func(of, t *Terms) error) (*Issued, error) {
	of, err := g.verify(ctx, token, true)
	if err == nil {
		err = g.admits(of.terms.Client, of.identity)
	}
	if err != nil {
		return nil, err
	}
	if err := check(&of.terms, &t); err != nil {
		return nil, err
	}
	if len(of.actors) == maxActors {
		return nil, invalid(fmt.Sprintf("%d clients act one for the other already", maxActors))
	}
	t.OpenID, t.Nonce, t.Refresh = false, "", 0
	now := g.options.Now().Truncate(time.Second)
	access := *of.accessToken
	access.id, access.client, access.federation, access.scopes = rand.Text(), t.Client, t.Federation, t.Scopes
	access.audience, access.revokedKey = []string{t.Resource}, revokedPrefix+access.id
	access.actors = append([]string{clientMark + t.Client}, of.actors...)
	access.exchanged = append([]exchanged{{of.id, of.client, of.federation}}, of.exchanged...)
	if end := now.Add(t.Access); end.Before(access.expires) {
		access.expires = end
	}
	access.expires = of.identity.Bound(access.expires).Truncate(time.Second)
	current, err := g.resolve(ctx, &access)
	if err != nil {
		return nil, err
	}
	id := current.identity
	if !g.options.Admits(t.Client, id) {
		return nil, ErrNotAdmitted
	}
	claims := g.claims(id, &t, now)
	claims["jti"], claims[exchangedClaim] = access.id, access.exchanged
	for name, value := range map[string]string{
		"sid": access.login, "grant": access.grant, vouchedClaim: access.vouched,
	} {
		if value != "" {
			claims[name] = value
		}
	}
	if id.AMR != nil {
		claims["amr"] = id.AMR
	}
	if !id.AuthTime.IsZero() {
		claims["auth_time"] = id.AuthTime.Unix()
	}
	signed, err := g.options.Keys.SignType(tokenType, claims)
	if err != nil {
		return nil, fmt.Errorf("signing an access token: %w", err)
	}
	return &Issued{Access: signed, ExpiresIn: access.expires.Sub(now), Terms: t, Identity: id}, nil
}

// lentTo returns the client to which the subject lent, before any exchange.
func (access *accessToken) lentTo() string {
	if last := len(access.exchanged) - 1; last >= 0 {
		return access.exchanged[last].Client
	}
	return access.client
}

// checkExchanges refuses a token after an exchange that the configuration does not permit any more.
func (g *Grants) checkExchanges(access *accessToken) error {
	client := access.client
	for _, one := range access.exchanged {
		if !g.options.Exchanges(client) || !g.options.Counts(one.Client) {
			return invalid("its client may not exchange tokens any more")
		}
		if err := g.federated(one.Client, one.Federation); err != nil {
			return err
		}
		client = one.Client
	}
	return nil
}

// revocations returns the keys under which the revocations of a token would be, and of those that led to it.
func (access *accessToken) revocations() []string {
	keys := []string{access.revokedKey}
	for _, one := range access.exchanged {
		keys = append(keys, revokedPrefix+one.ID)
	}
	return keys
}

// exchangedOf reads the claim of the tokens that led to one.
func exchangedOf(claim any) (all []exchanged, err error) {
	if claim == nil {
		return nil, nil
	}
	list, _ := claim.([]any)
	for _, one := range list {
		object, _ := one.(map[string]any)
		var e exchanged
		e.ID, _ = object["jti"].(string)
		e.Client, _ = object["client_id"].(string)
		e.Federation, _ = object["federation"].(string)
		all = append(all, e)
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(e exchanged) bool { return e.ID == "" || e.Client == "" }) {
		return nil, errors.New(exchangedClaim + " names no tokens")
	}
	return all, nil
}
