package provider

import (
	"context"
	"errors"
	"net/url"
	"slices"
)

// refusals are the error codes with which a token endpoint refuses a code, or its user
// (RFC 6749, section 5.2; OpenID Connect Core 1.0, section 3.1.2.6). Other codes mean
// that the sign-in is configured wrongly.
var refusals = []string{
	"invalid_grant", "access_denied", "login_required", "interaction_required", "consent_required",
	"account_selection_required",
	"bad_verification_code", // GitHub
}

// clientFaults are the error codes that say nothing about a user, because the provider
// does not accept the gateway itself. They end no login. A request to refresh has
// nothing else that could be wrong but the refresh token, so all other codes are about
// that: Dex calls an expired one invalid_request.
var clientFaults = []string{
	"invalid_client",
	"incorrect_client_credentials", // GitHub
}

// Exchange exchanges the code of an authorization response for tokens (RFC 6749,
// section 4.1.3), verifies the ID token, requests userinfo if the provider has it,
// and makes the profile. The caller must have checked state and iss. The error is
// ErrRefused, ErrClient, ErrFault or ErrTimeout.
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
	tokens, err := p.tokens(ctx, m, client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code},
		"redirect_uri": {p.options.RedirectURL}, "code_verifier": {a.Verifier},
	})
	if err != nil {
		return nil, err
	}
	id, subject := claims{}, ""
	if p.openID() {
		if tokens.ID == "" {
			return nil, p.fault("token", errors.New("the answer has no id_token; is openid among the scopes?"))
		}
		if id, err = p.verifyIDToken(ctx, m, tokens, a.Nonce); err != nil {
			return nil, err
		}
		subject, _ = id["sub"].(string)
		p.fillIn(ctx, id, tokens.Access)
	}
	userinfo, subject, err := p.person(ctx, m, tokens.Access, subject)
	if err != nil {
		return nil, err
	}
	access := claims{}
	if !p.mapping.tellsRoles(userinfo, id) {
		if access, err = p.accessRoles(ctx, m, tokens.Access, subject); err != nil {
			p.logger.Warn("the roles in the access token cannot be read", "error", err)
		}
	}
	grant := &Grant{Tokens: tokens, Proof: p.options.TwoFactors.proof(id, p.now())}
	if sid, err := id.identifier("sid"); err == nil {
		grant.Session = sid
	}
	grant.Profile, grant.Said = p.Profile(subject, p.mapping.encodeSaid(userinfo, id, access), Said{})
	return grant, nil
}

// Refresh exchanges the refresh token for new tokens (RFC 6749, section 6), and reads the claims
// about subject again, who must be the same (OpenID Connect Core 1.0, section 12.2). If the answer
// has no refresh token or no ID token, the old one is kept.
//
// After ErrEnded the login is over. After any other error the provider has not
// answered, or not all of it, and the login goes on. A grant that is returned with an
// error has the new tokens: the caller must store them, because the old refresh token
// may be used up. Its Said lacks the sources that were silent.
func (p *Provider) Refresh(ctx context.Context, t Tokens, subject string) (*Grant, error) {
	if t.Refresh == "" || subject == "" {
		return nil, p.fault("token", errors.New("a refresh token and the subject it is for are needed"))
	}
	m, client, err := p.tokenEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := p.tokens(ctx, m, client, url.Values{
		"grant_type": {refreshGrant}, "refresh_token": {t.Refresh},
	})
	if err != nil {
		return nil, p.ending(err)
	}
	if tokens.Refresh == "" {
		tokens.Refresh = t.Refresh
	}
	grant := &Grant{Tokens: tokens, Before: p.mapping.encodeSaid(nil, keptClaims(t.ID, subject), nil)}
	id, silent, err := p.renewedID(ctx, m, tokens, subject)
	if id == nil { // there is none, or it may not be valid
		grant.Tokens.ID = t.ID
	}
	if err != nil {
		return grant, p.ending(err)
	}
	p.fillIn(ctx, id, tokens.Access)
	userinfo, _, err := p.person(ctx, m, tokens.Access, subject)
	if err != nil {
		if err = p.ending(err); errors.Is(err, ErrEnded) {
			return grant, err
		}
		userinfo, silent = nil, errors.Join(silent, err)
	}
	access := claims{}
	switch place := keptClaims(t.ID, subject).overage(p.mapping.Roles); {
	case id == nil && place != "": // that of the login still names the place
		access[p.mapping.Roles] = p.groups(ctx, place, tokens.Access)
	case !p.mapping.tellsRoles(userinfo, id):
		if access, err = p.accessRoles(ctx, m, tokens.Access, subject); err != nil {
			silent = errors.Join(silent, err)
		}
	}
	grant.Said = p.mapping.encodeSaid(userinfo, id, access)
	return grant, silent
}

// renewedID verifies the ID token that came with a refresh. Without one the result is
// nil. It is also nil, and silent tells why, if the keys to verify it cannot be had.
func (p *Provider) renewedID(
	ctx context.Context, m *metadata, t Tokens, subject string,
) (id claims, silent, err error) {
	if t.ID == "" || !p.openID() {
		return nil, nil, nil
	}
	id, err = p.verifyIDToken(ctx, m, t, "")
	switch {
	case err != nil && unanswered(err):
		return nil, err, nil
	case err != nil:
		return nil, nil, err
	case id["sub"] != subject:
		return nil, nil, p.fault("token", errors.New("the ID token is about another person than the login"))
	}
	return id, nil, nil
}

// ending returns the error of a renewal: as it is if the provider has not answered, or
// does not accept the gateway. Anything else that it answers ends the login.
func (p *Provider) ending(err error) error {
	if unanswered(err) || errors.Is(err, ErrClient) {
		return err
	}
	operation, cause := "token", err
	if known, ok := errors.AsType[*Error](err); ok {
		operation, cause = known.Operation, known.Err
	}
	if refused, ok := errors.AsType[*refusal](err); ok && slices.Contains(clientFaults, refused.code) {
		return &Error{Provider: p.options.Name, Operation: operation, Kind: ErrClient, Err: cause}
	}
	return &Error{Provider: p.options.Name, Operation: operation, Kind: ErrEnded, Err: cause}
}

// tokenEndpoint returns the metadata, and how the client authenticates at the token
// endpoint.
func (p *Provider) tokenEndpoint(ctx context.Context) (*metadata, authentication, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, authentication{}, err
	}
	client, err := authenticate(p.options.Client, m.AuthMethods)
	if err != nil {
		return nil, authentication{}, p.fault("token", err)
	}
	return m, client, nil
}

// person requests userinfo, if the provider has it. It must be about subject, unless
// subject is empty: then it tells who it is.
func (p *Provider) person(ctx context.Context, m *metadata, access, subject string) (claims, string, error) {
	if m.Userinfo == "" {
		if subject == "" {
			return nil, "", p.fault("userinfo", errors.New("no source names the user: "+
				"a provider without ID tokens needs a userinfo endpoint"))
		}
		return claims{}, subject, nil
	}
	userinfo, err := p.userinfo(ctx, m, access)
	if err != nil {
		return nil, "", err
	}
	named, err := p.subject(userinfo)
	if err != nil {
		return nil, "", p.fault("userinfo", err)
	}
	if subject != "" && subject != named {
		return nil, "", p.fault("userinfo",
			errors.New("userinfo is about another person than the ID token or the login"))
	}
	return userinfo, named, nil
}
