package oauth

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// idToken returns the ID token beside the tokens of a client (OpenID Connect Core 1.0, section 2).
// It tells of a sign-in, and opens nothing.
func (s *programs) idToken(client *clients.Client, issued *grants.Issued) (string, error) {
	lifetime := cmp.Or(client.IDToken, s.section.IDTokenLifetime)
	id, now := issued.Identity, s.options.Now()
	claims := claimsOf(id, issued.Terms.Scopes)
	claims["iss"], claims["aud"] = s.issuer, issued.Terms.Client
	named := policy.Identity{Ends: id.Ends}
	named.Roles, _ = claims["groups"].([]string)
	claims["iat"], claims["exp"] = now.Unix(), named.Bound(now.Add(lifetime)).Unix()
	claims["sid"] = issued.Login.ID
	claims["at_hash"] = halfHash(issued.Access)
	if at := id.AuthTime; !at.IsZero() {
		claims["auth_time"] = at.Unix()
	}
	if len(id.AMR) > 0 {
		claims["amr"] = id.AMR
	}
	claims["acr"] = acr(id.Factors())
	if issued.Terms.Nonce != "" {
		claims["nonce"] = issued.Terms.Nonce
	}
	token, err := s.ids.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("signing an ID token: %w", err)
	}
	return token, nil
}

// acr returns the class of a sign-in with so many factors (OpenID Connect Core 1.0, section 2).
func acr(factors int) string { return fmt.Sprintf("factors:%d", factors) }

// hint has the claims of an ID token that a client sends back.
type hint struct{ subject, client, login string }

// readHint reads an ID token that may have expired. The same key may sign other tokens, which
// are no hint: an ID token is one for a client that tells of a login and of an access token.
func (s *core) readHint(token string) (*hint, error) {
	claims, err := s.hints.Verified(token)
	if err != nil {
		return nil, err
	}
	h := &hint{}
	var hash string
	for name, at := range map[string]*string{"sub": &h.subject, "aud": &h.client, "sid": &h.login, "at_hash": &hash} {
		if *at, _ = claims[name].(string); *at == "" {
			return nil, fmt.Errorf("the token is no ID token: it has no %s", name)
		}
	}
	if claims["iss"] != s.issuer {
		return nil, fmt.Errorf("the token is of the issuer %.100q", fmt.Sprint(claims["iss"]))
	}
	return h, nil
}

// halfHash returns the left half of the SHA-256 of an access token (section 3.1.3.6).
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

// claimsOf returns the claims of a user by scopes (OpenID Connect Core 1.0, section 5.4).
func claimsOf(id *policy.Identity, scopes []string) map[string]any {
	whole := id
	if id.Owner != nil {
		whole = id.Owner // the groups of the user, not the roles that the token lends
	}
	claims := map[string]any{"sub": subjectOf(id)}
	for _, scope := range scopes {
		switch scope {
		case scopeProfile:
			claims["preferred_username"] = id.Username
			if id.Name != "" {
				claims["name"] = id.Name
			}
		case scopeEmail:
			if address := cmp.Or(id.Email, id.Unverified); address != "" {
				claims["email"], claims["email_verified"] = address, verified(id)
			}
		case scopeGroups:
			claims["groups"] = append([]string{}, whole.Roles...)
		}
	}
	return claims
}

// verified reports whether the address of a user is known to be theirs: the operator has
// written it, or the provider says so, and does not only say nothing.
func verified(id *policy.Identity) bool {
	said := id.Claims["email_verified"]
	return id.Email != "" && (id.Provider == policy.LocalProvider || said == true || said == "true")
}

// userinfoRows returns the rows of oauth/userinfo (OpenID Connect Core 1.0, section 5.3).
func (s *programs) userinfoRows() []endpoint.Row {
	rows := endpoint.Shared(forPrograms(userinfoPath, http.MethodGet, s.userinfo))
	return append(rows, endpoint.Shared(forPrograms(userinfoPath, http.MethodPost, s.userinfo))[0])
}

func (s *programs) userinfo(ex *web.Exchange) error {
	token, err := presentedToken(ex)
	if err != nil {
		return err
	}
	if token == "" {
		return web.Challenge(auth.ErrNoCredentials, auth.BearerChallenge(s.options.Realm, false))
	}
	id, terms, err := s.grants.Authenticate(&ex.Store, token)
	if err != nil {
		if errors.Is(err, auth.ErrRejected) {
			err = web.Refused(web.CredentialAccessToken, err)
		}
		return web.Challenge(err, auth.BearerChallenge(s.options.Realm, true))
	}
	ex.Identify(id)
	if !s.clients.Admits(terms.Client, id) {
		ex.Reason = "the policy of the client does not let the user in any more"
		ex.Audit("denied", slog.String("client_id", terms.Client), slog.String("reason", ex.Reason))
		return web.Forbidden()
	}
	if !slices.Contains(terms.Scopes, scopeOpenID) {
		return web.Refused(web.CredentialAccessToken,
			web.InsufficientScope(s.options.Realm, []string{scopeOpenID}, "the token has not the scope openid"))
	}
	ex.JSON(web.TypeJSON, http.StatusOK, claimsOf(id, terms.Scopes))
	return nil
}

// presentedToken returns the token that a request presents in its header or in the form of a POST
// (RFC 6750, sections 2.1 and 2.2), "" if there is none. One in the query is not read, because
// addresses are logged.
func presentedToken(ex *web.Exchange) (string, error) {
	query, err := readQuery(ex)
	if err != nil {
		return "", err
	}
	var tokens []string
	if ex.Credentials.Scheme == "bearer" {
		tokens = append(tokens, ex.Credentials.Value)
	}
	if ex.Canonical.Method == http.MethodPost && ex.MediaType() == web.TypeForm {
		form, err := bodies.ParseForm(ex.Body)
		if err != nil {
			return "", web.BadRequest("The body is not a form.", nil)
		}
		tokens = append(tokens, given(form)["access_token"]...)
	}
	switch {
	case len(tokens)+len(query["access_token"]) > 1:
		return "", web.BadRequest(
			"The request presents more than one token. Give one, in one place (RFC 6750, section 2).", nil)
	case len(tokens) == 0:
		return "", nil
	}
	return tokens[0], nil
}
