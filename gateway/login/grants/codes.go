package grants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/rotation"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// Code describes the request that a code answers.
type Code struct {
	Terms
	RedirectURI string `json:"redirect_uri,omitempty"` // as the client gave it; empty: not given
	Challenge   string `json:"challenge,omitempty"`    // for the proof of the code, by S256 (RFC 7636)
}

// lender is the record of the user and the login that a grant depends on: it ends with them.
type lender struct {
	Login      string `json:"sid"`
	Generation int    `json:"gen,omitempty"` // of the login; see login.Login.Generation
	Subject    string `json:"sub"`
	Consent    string `json:"consent"` // its ID
}

// grant is the record of a grant. It begins as a code, whose one use makes it a grant, so that a
// second use of the code finds and ends the grant of the first.
type grant struct {
	lender
	Code
	Redeemed       bool      `json:"redeemed,omitempty"`
	ByCode         string    `json:"by_code,omitempty"` // hash of the code; empty: a device has it
	rotation.State           // of its refresh tokens
	Used           time.Time `json:"used"`
	Expires        time.Time `json:"expires"`
}

// NewCode returns a new code, which the login of id lends. The error is ErrNoConsent without
// the consent of the user; see Consents.Give.
func (g *Grants) NewCode(ctx context.Context, id *policy.Identity, c Code) (code string, err error) {
	by, err := g.newLender(ctx, id, &c.Terms)
	if err != nil {
		return "", err
	}
	s, now := newSecret(codeMark), g.options.Now()
	made := &grant{lender: *by, Code: c, ByCode: s.hash(), Used: now, Expires: now.Add(g.options.CodeLifetime)}
	value, err := json.Marshal(made)
	if err != nil {
		return "", fmt.Errorf("recording a code: %w", err)
	}
	if err := g.options.Store.Put(ctx, grantPrefix+s.name(), value, made.Expires); err != nil {
		return "", fmt.Errorf("recording a code: %w", err)
	}
	return s.String(), nil
}

// newLender returns the lender of a grant that the user of id makes now.
func (g *Grants) newLender(ctx context.Context, id *policy.Identity, t *Terms) (*lender, error) {
	_, in, _, err := g.options.Holders.Find(ctx, id.Login, g.options.Now())
	if err != nil {
		return nil, loginError(err)
	}
	consents, _, err := consentsOf(ctx, g.options.Store, id.Subject)
	if err != nil {
		return nil, err
	}
	consents.keepCurrent(g.options.Holders)
	consent := consents.of(t.Client)
	if consent == nil || !consent.covers(t.Resource, t.Scopes) {
		return nil, ErrNoConsent
	}
	return &lender{Login: in.ID, Generation: in.Generation(), Subject: id.Subject, Consent: consent.ID}, nil
}

// loginError turns "no such login" into ErrInvalid: a grant ends with its login.
func loginError(err error) error {
	if errors.Is(err, auth.ErrRejected) || errors.Is(err, login.ErrNoLogin) {
		return invalid("its login has ended, or its user is disabled or has changed")
	}
	return err
}

// load returns the record of a grant of that name.
func (g *Grants) load(ctx context.Context, name string) (*grant, []byte, error) {
	raw, err := record.Find(ctx, g.options.Store, grantPrefix+name)
	if err != nil {
		return nil, nil, err
	}
	if raw == nil {
		return nil, nil, invalid("it is unknown, or has expired, or its grant has ended")
	}
	known, err := record.Decode[grant](raw)
	return known, raw, err
}

// Redeem exchanges a code for tokens. check compares the client, the redirect URI and the
// proof; its error is returned, and consumes nothing. Of several calls, one succeeds. Another
// one that check accepts ends the grant and all its tokens (RFC 9700, section 4.5), with a
// *ReuseError. Other errors are ErrInvalid.
func (g *Grants) Redeem(ctx context.Context, code string, check func(*Code) error) (*Issued, error) {
	s, ok := parse(codeMark, code)
	if !ok {
		return nil, ErrNeverIssued
	}
	return rotation.Retry(func() (*Issued, error) { return g.redeem(ctx, s, check) })
}

// redeem is one attempt of Redeem. It fails with rotation.ErrStale if its read was too old.
func (g *Grants) redeem(ctx context.Context, s secret, check func(*Code) error) (*Issued, error) {
	known, raw, err := g.load(ctx, s.name())
	if err != nil {
		return nil, err
	}
	now := g.options.Now()
	if known.ByCode != s.hash() || !known.Redeemed && !now.Before(known.Expires) {
		return nil, invalid("the code has expired")
	}
	asked := known.Code
	asked.Scopes = slices.Clone(asked.Scopes)
	if err := check(&asked); err != nil {
		return nil, err
	}
	if known.Redeemed {
		return nil, g.reused(ctx, "code", s, known, raw)
	}
	by, err := g.findLender(ctx, &known.lender, now)
	if err == nil {
		err = g.admits(known.Client, by.identity)
	}
	if err != nil {
		return nil, err
	}
	next, refresh := known.asRedeemed(s, now)
	next.Federation = asked.Federation
	value, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	err = g.options.Store.Swap(ctx, grantPrefix+s.name(), raw, value, next.Expires)
	if errors.Is(err, store.ErrConflict) {
		return nil, rotation.ErrStale // as a rule, it is used now
	}
	if err != nil {
		return nil, fmt.Errorf("redeeming a code: %w", err)
	}
	return g.beginGrant(ctx, by, s, next, nil, refresh)
}

// asRedeemed returns the grant that known becomes when its code, or the code of its device, is used,
// and its first refresh token, if it has one.
func (known *grant) asRedeemed(s secret, now time.Time) (next *grant, refresh string) {
	redeemed := *known
	redeemed.Redeemed, redeemed.Used = true, now
	redeemed.Expires = now.Add(max(redeemed.Terms.Access, redeemed.Terms.Refresh))
	if redeemed.Terms.Refresh > 0 {
		first := s.next()
		redeemed.Current, refresh = first.hash(), first.String()
	}
	return &redeemed, refresh
}

// beginGrant makes the login lend a grant, and returns its first tokens. value, if not nil, is the
// record, which is not in the store yet.
func (g *Grants) beginGrant(
	ctx context.Context, by *liveLender, s secret, made *grant, value []byte, refresh string,
) (*Issued, error) {
	key, client := grantPrefix+s.name(), ""
	if made.OpenID {
		client = made.Client
	}
	in, err := g.options.Logins.Lend(ctx, made.Login, client, func(in *login.Login) (string, []byte, time.Time, error) {
		if in.Generation() != made.Generation {
			return "", nil, time.Time{}, login.ErrNoLogin // the password has changed since
		}
		return key, value, made.Expires, nil
	})
	if err != nil {
		_ = g.options.Store.Delete(ctx, key) // a grant that no login names opens nothing
		return nil, loginError(err)
	}
	by.login = in
	issued, err := g.issue(by, made, &made.Terms, s.name())
	if err == nil {
		issued.Refresh = refresh
	}
	return issued, err
}

// liveLender is a lender as the store has it now.
type liveLender struct {
	identity *policy.Identity
	login    *login.Login
	basis    record.Basis // the consents of the user, the login, and what the user depends on
}

// findLender returns a lender as it is now. The error is ErrInvalid if the login has ended or the
// user has withdrawn the consent.
func (g *Grants) findLender(ctx context.Context, l *lender, expires time.Time) (*liveLender, error) {
	consents, raw, err := consentsOf(ctx, g.options.Store, l.Subject)
	if err != nil {
		return nil, err
	}
	if !consents.hold(l.Consent) {
		return nil, invalid("the user has withdrawn the consent")
	}
	id, in, basis, err := g.options.Holders.Find(ctx, l.Login, expires)
	if err != nil {
		return nil, loginError(err)
	}
	if in.Generation() != l.Generation {
		return nil, invalid("issued before the user changed the password")
	}
	basis = append(record.Basis{{Key: consentsKey(l.Subject), Raw: raw}}, basis...)
	return &liveLender{id, in, basis}, nil
}

// admits refuses a user whom the policy of a client does not let in any more. The grant stays,
// because the user may meet the policy again.
func (g *Grants) admits(client string, user *policy.Identity) error {
	if !g.options.Admits(client, user) {
		return invalid("the policy of its client does not let its user in any more")
	}
	return nil
}

// reused ends a grant whose code or refresh token was used again. It fails with rotation.ErrStale if
// the store does not hold raw any more.
func (g *Grants) reused(ctx context.Context, what string, s secret, known *grant, raw []byte) error {
	// A value that has expired removes the record.
	err := g.options.Store.Swap(store.Ending(ctx), grantPrefix+s.name(), raw, []byte{}, time.Unix(1, 0))
	if errors.Is(err, store.ErrConflict) {
		return rotation.ErrStale
	}
	if err != nil {
		return fmt.Errorf("ending a grant: %w", err)
	}
	return &ReuseError{What: what, Client: known.Client, Subject: known.Subject, Login: known.Login}
}
