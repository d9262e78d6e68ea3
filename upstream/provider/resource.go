package provider

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// roles returns the claim roles of a user, which is never null.
func roles(u *User) []string { return append([]string{}, u.Roles...) }

// known returns a live access token, or nil.
func (p *Provider) known(token string) *accessToken {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.access.get(token)
	if !ok || !p.live(a.grant) {
		return nil
	}
	return a
}

// userinfo returns the claims that the scopes of the access token permit (OpenID
// Connect Core 1.0, section 5.3).
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		refuse(w, false)
		return
	}
	a := p.known(token)
	if a == nil {
		refuse(w, true)
		return
	}
	user := a.grant.session.user
	claims := map[string]any{"sub": user.subject(), "roles": roles(user)}
	if slices.Contains(a.scopes, "profile") {
		claims["name"], claims["preferred_username"] = user.Name, user.Username
	}
	if slices.Contains(a.scopes, "email") {
		claims["email"], claims["email_verified"] = user.Email, user.EmailVerified
	}
	writeJSON(w, http.StatusOK, claims)
}

// introspect returns the state of an access token to a client with a secret (RFC
// 7662). Refresh tokens are inactive here, so that no resource server accepts one
// as an access token.
func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) {
	client, form, err := p.fromClient(r)
	switch {
	case err != nil:
	case client.Secret == "":
		err = &failure{"invalid_client", "only clients with a secret can use introspection"}
	case !form.Has("token"):
		err = &failure{"invalid_request", "token is missing"}
	}
	if err != nil {
		writeFailure(w, err)
		return
	}
	a := p.known(form.Get("token"))
	if a == nil {
		writeJSON(w, http.StatusOK, map[string]any{"active": false})
		return
	}
	s := a.grant.session
	claims := map[string]any{
		"active": true, "iss": p.options.Issuer, "sub": s.user.subject(), "username": s.user.Username,
		"client_id": a.grant.client.ID, "scope": strings.Join(a.scopes, " "), "token_type": "Bearer",
		"iat": a.issued.Unix(), "exp": a.expires.Unix(), "sid": s.id, "roles": roles(s.user),
	}
	if aud := p.options.AccessTokenAudience; len(aud) > 0 {
		claims["aud"] = aud
	}
	writeJSON(w, http.StatusOK, claims)
}

// revoke ends a token (RFC 7009).
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	client, form, err := p.fromClient(r)
	if err == nil {
		err = p.revokeToken(client, form)
	}
	if err != nil {
		writeFailure(w, err)
	}
}

// revokeToken ends an access token, or the whole grant of a refresh token. An
// unknown token is not an error.
func (p *Provider) revokeToken(client *Client, form url.Values) error {
	token := form.Get("token")
	p.mu.Lock()
	defer p.mu.Unlock()
	a, isAccess := p.access.get(token)
	t, isRefresh := p.refresh.get(token)
	switch {
	case !form.Has("token"):
		return &failure{"invalid_request", "token is missing"}
	case isAccess && a.grant.client != client, isRefresh && t.grant.client != client:
		return &failure{"invalid_grant", "the token was issued to another client"}
	case isAccess:
		p.access.delete(token)
	case isRefresh:
		p.grants.delete(t.grant.id)
	}
	return nil
}
