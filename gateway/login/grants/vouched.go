package grants

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// Vouched is the word of a provider for its user at a client: a cross-app assertion that was verified
// (draft-ietf-oauth-identity-assertion-authz-grant).
type Vouched struct {
	Provider, Issuer string
	ID               string // jti
	Issued           time.Time
	Left             time.Duration // until it expires
	Profile          provider.Profile
}

// vouched is the record of an access token that a client got so. Its user may have no login.
type vouched struct {
	Provider string           `json:"provider"`
	Issuer   string           `json:"issuer"`
	Client   string           `json:"client"`
	Consent  string           `json:"consent"` // its ID
	Profile  provider.Profile `json:"profile"`
}

func (v *vouched) subject() string { return v.Provider + ":" + v.Profile.Subject }

// Vouch returns an access token for a client that acts for the user of an assertion, which serves
// once. The error is ErrNotAdmitted if the policy of the client does not let the user in. It is
// ErrInvalid if the assertion was used, or is older than an end of the access.
func (g *Grants) Vouch(ctx context.Context, v *Vouched, t Terms, name string) (*Issued, error) {
	now := g.options.Now().Truncate(time.Second)
	t.OpenID, t.Nonce, t.Refresh = false, "", 0
	made := &vouched{Provider: v.Provider, Issuer: v.Issuer, Client: t.Client, Profile: v.Profile}
	id, _, err := g.vouchedUser(ctx, made, now.Add(t.Access))
	if err != nil {
		return nil, err
	}
	if !g.options.Admits(t.Client, id) {
		return nil, ErrNotAdmitted
	}
	consents := NewConsents(g.options.Store, g.options.Now, g.options.Holders)
	if made.Consent, err = consents.vouch(ctx, made.subject(), name, &t, v.Issued); err != nil {
		return nil, err
	}
	used := usedPrefix + record.Hash([]byte(v.Issuer+"\x00"+v.ID))
	err = g.options.Store.Swap(ctx, used, nil, []byte{}, g.options.Now().Add(v.Left+time.Minute))
	if errors.Is(err, store.ErrConflict) {
		return nil, invalid("the assertion was used before")
	}
	if err != nil {
		return nil, fmt.Errorf("recording an assertion: %w", err)
	}
	lent, handle := g.Lend(t.Scopes, id), rand.Text()
	value, err := json.Marshal(made)
	if err == nil {
		err = g.options.Store.Put(ctx, vouchedPrefix+handle, value, id.Expires)
	}
	if err != nil {
		return nil, fmt.Errorf("recording an access token: %w", err)
	}
	claims := g.claims(lent, &t, now)
	claims[vouchedClaim] = handle
	token, err := g.options.Keys.SignType(tokenType, claims)
	if err != nil {
		return nil, fmt.Errorf("signing an access token: %w", err)
	}
	return &Issued{Access: token, ExpiresIn: id.Expires.Sub(now), Terms: t, Identity: lent}, nil
}

// vouchedUser returns the user of a record as they are now, for whom its client acts.
func (g *Grants) vouchedUser(
	ctx context.Context, v *vouched, expires time.Time,
) (*policy.Identity, record.Stored, error) {
	if !g.options.Vouches(v.Provider, v.Client) || !g.options.Counts(v.Client) {
		return nil, record.Stored{}, invalid("the provider does not vouch at the client any more")
	}
	id, stored, err := g.options.Holders.Vouched(ctx, v.Provider, v.Issuer, &v.Profile, expires)
	if errors.Is(err, auth.ErrRejected) {
		err = invalid("the provider is another one now")
	}
	if err == nil {
		id.Actor = clientMark + v.Client
	}
	return id, stored, err
}

// resolveVouched returns who a token is that a client got by the word of a provider.
func (g *Grants) resolveVouched(ctx context.Context, access *accessToken) (*verified, error) {
	key := vouchedPrefix + access.vouched
	raw, err := record.Find(ctx, g.options.Store, key)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, invalid("its record has ended")
	}
	known, err := record.Decode[vouched](raw)
	if err != nil {
		return nil, err
	}
	consents, given, err := consentsOf(ctx, g.options.Store, known.subject())
	if err != nil {
		return nil, err
	}
	if !consents.hold(known.Consent) {
		return nil, invalid("the user, the operator or the provider has ended the access of its client")
	}
	id, user, err := g.vouchedUser(ctx, known, access.expires)
	if err != nil {
		return nil, err
	}
	if subject(id) != access.subject || known.Client != access.lentTo() {
		return nil, invalid("it is not of its record")
	}
	return &verified{
		accessToken: access, identity: g.Lend(access.scopes, actedFor(id, access.actors)),
		basis: record.Basis{{Key: key, Raw: raw}, {Key: consentsKey(known.subject()), Raw: given}, user},
		terms: Terms{Client: access.client, Resource: g.resourceOf(access.audience), Scopes: access.scopes},
	}, nil
}

// EndVouched ends the access of clients by the word of providers for a user: PROVIDER:NAME, or a
// subject. It returns at how many clients. known are subjects of the user.
func (c *Consents) EndVouched(ctx context.Context, user string, known ...string) (ended int, err error) {
	subjects := map[string]bool{user: true}
	for _, subject := range known {
		subjects[subject] = true
	}
	err = c.store.Walk(ctx, vouchedPrefix, func(keys []string) error {
		for _, key := range keys {
			raw, err := record.Find(ctx, c.store, key)
			if err != nil {
				return err
			}
			if raw == nil { // it has just expired
				continue
			}
			known, err := record.Decode[vouched](raw)
			if err != nil {
				return err
			}
			id, _, err := c.holders.Vouched(ctx, known.Provider, known.Issuer, &known.Profile, time.Time{})
			if err == nil && known.Provider+":"+id.Username == user {
				subjects[id.Subject] = true
			}
			if err != nil && !errors.Is(err, auth.ErrRejected) {
				return err
			}
		}
		return nil
	})
	for subject := range subjects {
		n, failed := c.EndVouchedOf(ctx, subject)
		ended, err = ended+n, errors.Join(err, failed)
	}
	return ended, err
}
