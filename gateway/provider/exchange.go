package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// refusals are the error codes of a token endpoint that concern this code, refresh
// token or user (RFC 6749, section 5.2; OpenID Connect Core 1.0, section 3.1.2.6).
// Other codes concern the client, its configuration, or the provider, and do not
// end a session.
var refusals = []string{
	"invalid_grant", "access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required",
	"bad_verification_code", "bad_refresh_token", // GitHub
}

// Exchange exchanges the code of an authorization response for tokens (RFC 6749,
// section 4.1.3), verifies the ID token, requests userinfo if the provider has it,
// and makes the profile. The caller must have checked state and iss. The error is
// ErrRefused, ErrFault or ErrTimeout.
func (p *Provider) Exchange(ctx context.Context, code string, a Attempt) (*Grant, error) {
	if err := p.checkAttempt(a); err != nil {
		return nil, p.fault("token", err)
	}
	if code == "" {
		return nil, p.fault("token", errors.New("there is no code to exchange"))
	}
	m, client, err := p.tokenEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := p.tokens(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		config := oauth2.Config{
			ClientID: client.id, ClientSecret: client.secret, RedirectURL: p.options.RedirectURL,
			Endpoint: oauth2.Endpoint{TokenURL: m.Token, AuthStyle: client.style},
		}
		return config.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier), oauth2.SetAuthURLParam("client_id", client.id))
	})
	if err != nil {
		return nil, err
	}
	if !p.openID() {
		return p.grant(ctx, m, tokens, person{})
	}
	if tokens.ID == "" {
		return nil, p.fault("token", errors.New("the answer has no id_token; is openid among the scopes?"))
	}
	id, err := p.verifyIDToken(ctx, m, tokens, a.Nonce)
	if err != nil {
		return nil, err
	}
	subject, _ := id["sub"].(string)
	return p.grant(ctx, m, tokens, person{subject: subject, fresh: id})
}

// Refresh exchanges the refresh token for new tokens (RFC 6749, section 6), which
// must be for the same subject (OpenID Connect Core 1.0, section 12.2). If the
// answer has no refresh token or no ID token, the old one is kept; without a new ID
// token, the profile keeps the claims that only the old one has. After ErrRefused
// the old tokens are useless. The error can also be ErrFault or ErrTimeout. A grant
// that is returned with an error has the new tokens and no profile: the caller must
// store them, because the old refresh token may be used up.
func (p *Provider) Refresh(ctx context.Context, t Tokens, subject string) (*Grant, error) {
	if t.Refresh == "" || subject == "" {
		return nil, p.fault("token", errors.New("a refresh token and the subject it is for are needed"))
	}
	m, client, err := p.tokenEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := p.tokens(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		// oauth2.Config can refresh, too, but does not send client_id with basic
		// authentication. Both keep the old refresh token if no new one comes.
		config := clientcredentials.Config{
			ClientID: client.id, ClientSecret: client.secret, TokenURL: m.Token, AuthStyle: client.style,
			EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}, "client_id": {client.id}},
		}
		return config.Token(ctx)
	})
	if err != nil {
		return nil, err
	}
	grant, err := p.refreshed(ctx, m, t, tokens, subject)
	if err != nil {
		tokens.ID = t.ID // a new one may not be valid
		return &Grant{Tokens: tokens}, err
	}
	return grant, nil
}

// refreshed makes the grant from the new tokens and the old ones, t.
func (p *Provider) refreshed(ctx context.Context, m *metadata, t, tokens Tokens, subject string) (_ *Grant, err error) {
	who := person{subject: subject}
	switch {
	case tokens.ID == "": // with a new one, the old claims do not count: what it lacks was removed
		tokens.ID, who.kept = t.ID, keptClaims(t.ID, subject)
	case p.openID():
		if who.fresh, err = p.verifyIDToken(ctx, m, tokens, ""); err != nil {
			return nil, err
		}
		if who.fresh["sub"] != subject {
			return nil, p.fault("token", errors.New("the ID token is about another person than the login"))
		}
	}
	return p.grant(ctx, m, tokens, who)
}

// tokenEndpoint returns the metadata, and how the client authenticates at the token
// endpoint.
func (p *Provider) tokenEndpoint(ctx context.Context) (*metadata, authentication, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, authentication{}, err
	}
	client, err := p.authentication(m)
	if err != nil {
		return nil, authentication{}, p.fault("token", err)
	}
	return m, client, nil
}

// authentication returns how the client authenticates at the token endpoint and
// similar ones.
func (p *Provider) authentication(m *metadata) (authentication, error) {
	return authenticate(p.options.Client, m.AuthMethods)
}

// tokens calls the token endpoint, and distinguishes refusals from faults.
func (p *Provider) tokens(ctx context.Context, ask func(context.Context) (*oauth2.Token, error)) (Tokens, error) {
	var tokens Tokens
	err := p.client.call(ctx, "token", func(ctx context.Context) error {
		got, err := ask(ctx)
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // an error with status 200; its text holds the body
			err = newRefusal(refused.Response.Request, refused.Response.StatusCode, refused.ErrorCode, refused.ErrorDescription)
		}
		if refused, ok := errors.AsType[*refusal](err); ok && slices.Contains(refusals, refused.code) {
			return fail(p.options.Name, "token", ErrRefused, refused)
		}
		if err != nil {
			return err
		}
		if got.Type() != "Bearer" {
			return fmt.Errorf("the token is of the type %q, expected Bearer", clip(got.TokenType, maxErrorCode))
		}
		tokens = Tokens{Access: got.AccessToken, Refresh: got.RefreshToken, Expires: expiry(got, p.now())}
		tokens.ID, _ = got.Extra("id_token").(string)
		return nil
	})
	return tokens, err
}

// expiry returns when the access token expires by the clock of the Provider; oauth2
// uses time.Now. The result is zero if the provider does not tell.
func expiry(token *oauth2.Token, now time.Time) time.Time {
	seconds, err := json.Number(fmt.Sprint(token.Extra("expires_in"))).Float64()
	if err != nil || !(seconds > 0) {
		return time.Time{}
	}
	return now.Add(time.Duration(min(seconds, maxExpiresIn)) * time.Second)
}

// maxExpiresIn, a year in seconds, bounds expires_in.
const maxExpiresIn = 365 * 24 * 60 * 60

// person is what is known about a user apart from userinfo.
type person struct {
	subject string // empty: it comes from userinfo
	fresh   claims // of the ID token in the answer; may be nil
	kept    claims // of the ID token of the login; may be nil
}

// grant requests userinfo, which must be about the same subject, and makes the
// profile.
func (p *Provider) grant(ctx context.Context, m *metadata, tokens Tokens, who person) (*Grant, error) {
	var userinfo claims
	if m.Userinfo != "" {
		var err error
		if userinfo, err = p.userinfo(ctx, m, tokens.Access); err != nil {
			return nil, err
		}
		subject, err := p.subject(userinfo)
		if err != nil {
			return nil, p.fault("userinfo", err)
		}
		if who.subject != "" && who.subject != subject {
			return nil, p.fault("userinfo", errors.New("userinfo is about another person than the ID token or the login"))
		}
		who.subject = subject
	}
	if who.subject == "" {
		return nil, p.fault("userinfo", errors.New("nothing says who it is: a provider without ID tokens needs a userinfo endpoint"))
	}
	roles, err := p.roles(ctx, m, tokens.Access, userinfo, who)
	if err != nil {
		return nil, p.fault("profile", err)
	}
	profile, err := p.mapping.profile(who.subject, roles, userinfo, who.fresh, who.kept)
	if err != nil {
		return nil, p.fault("profile", err)
	}
	session, _ := first("sid", who.fresh, who.kept).(string)
	return &Grant{Profile: profile, Tokens: tokens, Session: session}, nil
}
