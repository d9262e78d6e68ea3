package provider

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// refreshToken can be exchanged for new tokens once. A used one is kept, so that
// its reuse is detected.
type refreshToken struct {
	grant *grant
	used  bool
}

// accessToken is valid for userinfo.
type accessToken struct {
	grant   *grant
	scopes  []string
	issued  time.Time
	expires time.Time
}

// tokens is the answer of the token endpoint (RFC 6749, section 5.1).
type tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token"`
	IDToken      string `json:"id_token"`
	Scope        string `json:"scope"`
}

// token is the token endpoint.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	client, form, err := p.fromClient(r)
	var issued *tokens
	if err == nil {
		issued, err = p.exchange(client, form)
	}
	if err != nil {
		writeFailure(w, err)
		return
	}
	w.Header().Set("Pragma", "no-cache") // required by RFC 6749, section 5.1
	writeJSON(w, http.StatusOK, issued)
}

func (p *Provider) exchange(client *Client, form url.Values) (*tokens, error) {
	switch form.Get("grant_type") {
	case "authorization_code":
		c, f := p.redeem(client, form)
		if f != nil {
			return nil, f
		}
		return p.issue(c.grant, c.grant.scopes, c.nonce)
	case "refresh_token":
		g, f := p.rotate(client, form)
		if f != nil {
			return nil, f
		}
		narrowed := slices.Collect(strings.FieldsSeq(form.Get("scope")))
		if len(narrowed) == 0 {
			narrowed = g.scopes
		}
		return p.issue(g, narrowed, "")
	case "":
		return nil, &failure{"invalid_request", "grant_type is missing"}
	}
	return nil, &failure{"unsupported_grant_type", "expected authorization_code or refresh_token"}
}

// redeem uses up a code, even if the request has a mistake. A second use means
// that the code was stolen, and ends everything that came from it (RFC 6749,
// section 4.1.2).
func (p *Provider) redeem(client *Client, form url.Values) (*code, *failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.codes.get(form.Get("code"))
	switch {
	case !form.Has("code"):
		return nil, &failure{"invalid_request", "code is missing"}
	case !ok || c.grant.client != client || !p.live(c.grant):
		return nil, &failure{"invalid_grant", "the code is unknown, expired or for another client"}
	case c.used:
		p.grants.delete(c.grant.id)
		return nil, &failure{"invalid_grant", "the code was used before"}
	}
	c.used = true
	switch {
	case form.Get("redirect_uri") != c.redirectURI:
		return nil, &failure{"invalid_grant", "the redirect_uri differs from the authorization request"}
	case !verifies(form.Get("code_verifier"), c.challenge):
		return nil, &failure{"invalid_grant", "the code_verifier does not belong to the code_challenge"}
	}
	c.grant.session.clients[client.ID] = client
	return c, nil
}

// verifies checks a PKCE verifier (RFC 7636, sections 4.1 and 4.6).
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// rotate uses up a refresh token. A second use means that the token was stolen,
// and ends everything that came from it (RFC 9700, section 4.14.2).
func (p *Provider) rotate(client *Client, form url.Values) (*grant, *failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.refresh.get(form.Get("refresh_token"))
	switch {
	case !form.Has("refresh_token"):
		return nil, &failure{"invalid_request", "refresh_token is missing"}
	case !ok || t.grant.client != client || !p.live(t.grant):
		return nil, &failure{"invalid_grant", "the refresh token is unknown, expired, revoked or for another client"}
	case t.used:
		p.grants.delete(t.grant.id)
		return nil, &failure{"invalid_grant", "the refresh token was used before"}
	}
	for scope := range strings.FieldsSeq(form.Get("scope")) {
		if !slices.Contains(t.grant.scopes, scope) {
			return nil, &failure{"invalid_scope", "the scope has more than was granted"}
		}
	}
	t.used = true
	return t.grant, nil
}

// issue returns new tokens for a grant.
func (p *Provider) issue(g *grant, scopes []string, nonce string) (*tokens, error) {
	now := p.options.Now()
	a := &accessToken{grant: g, scopes: scopes, issued: now, expires: now.Add(p.options.AccessTokenLifetime)}
	if a.expires.After(g.session.expires) {
		a.expires = g.session.expires
	}
	access, err := p.signer.accessToken(a)
	if err != nil {
		return nil, err
	}
	idToken, err := p.signer.idToken(a, access, nonce)
	if err != nil {
		return nil, err
	}
	refresh := secret()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.access.put(access, a, a.expires)
	p.refresh.put(refresh, &refreshToken{grant: g}, g.session.expires)
	return &tokens{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(a.expires.Sub(now) / time.Second),
		RefreshToken: refresh, IDToken: idToken, Scope: strings.Join(scopes, " "),
	}, nil
}

// accessToken returns an opaque value, or a JWT (RFC 9068) with
// Options.AccessTokenAudience.
func (s *signer) accessToken(a *accessToken) (string, error) {
	if len(s.options.AccessTokenAudience) == 0 {
		return secret(), nil
	}
	from := a.grant.session
	return s.sign("at+jwt", map[string]any{
		"iss": s.options.Issuer, "aud": s.options.AccessTokenAudience, "sub": from.user.subject(),
		"iat": a.issued.Unix(), "exp": a.expires.Unix(), "jti": rand.Text(), "sid": from.id,
		"client_id": a.grant.client.ID, "scope": strings.Join(a.scopes, " "),
		"roles": roles(from.user), "preferred_username": from.user.Username,
	})
}

// idToken returns an ID token (OpenID Connect Core 1.0, section 2). It has no
// profile: userinfo has that.
func (s *signer) idToken(a *accessToken, access, nonce string) (string, error) {
	from := a.grant.session
	claims := map[string]any{
		"iss": s.options.Issuer, "aud": a.grant.client.ID, "sub": from.user.subject(), "sid": from.id,
		"iat": a.issued.Unix(), "exp": a.expires.Unix(), "auth_time": from.since.Unix(), "at_hash": atHash(access),
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	return s.sign(idTokenType, claims)
}
