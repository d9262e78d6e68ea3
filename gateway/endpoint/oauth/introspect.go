package oauth

import (
	"log/slog"
	"strings"

	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// revoke is POST oauth/revoke (RFC 7009): an access token ends alone, a refresh token with
// all that was issued for it.
func (s *programs) revoke(ex *web.Exchange, c *call) (any, error) {
	token := c.form.Get("token")
	if token == "" {
		return nil, refuse(codeInvalidRequest, "The parameter token is needed.")
	}
	ctx, end := ex.Store.Recording()
	defer end()
	revoked, err := s.grants.Revoke(ctx, c.client.ID, token)
	if revoked != nil {
		ex.Audit("token_revoked", slog.String("client_id", c.client.ID), slog.String("subject", revoked.Subject),
			slog.String("login", revoked.Login))
	}
	return struct{}{}, err
}

// inspected is the answer of the introspection endpoint (RFC 7662, section 2.2).
type inspected struct {
	Active   bool   `json:"active"`
	Scope    string `json:"scope,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	Username string `json:"username,omitempty"`
	Type     string `json:"token_type,omitempty"`
	Expires  int64  `json:"exp,omitempty"`
	Issued   int64  `json:"iat,omitempty"`
	Subject  string `json:"sub,omitempty"`
	Audience any    `json:"aud,omitempty"`
	Issuer   string `json:"iss,omitempty"`
	ID       string `json:"jti,omitempty"`

	Act *policy.Act `json:"act,omitempty"`
}

// introspect is POST oauth/introspect. A client learns of its own tokens alone.
func (s *programs) introspect(ex *web.Exchange, c *call) (any, error) {
	if !c.client.Confidential() {
		err := refuse(codeInvalidClient, "Only a client with a secret or a key may ask about tokens.")
		s.auditRejected(ex, c.client.ID, true, err)
		return nil, err
	}
	token := c.form.Get("token")
	if token == "" {
		return nil, refuse(codeInvalidRequest, "The parameter token is needed.")
	}
	found, err := s.grants.Inspect(&ex.Store, c.client.ID, token)
	if err != nil || !found.Active {
		return inspected{}, err
	}
	answer := inspected{
		Active: true, Scope: strings.Join(found.Terms.Scopes, " "), ClientID: found.Terms.Client,
		Expires: found.Expires.Unix(), Issuer: s.issuer, ID: found.ID,
	}
	if !found.Issued.IsZero() {
		answer.Issued = found.Issued.Unix()
	}
	if !found.Refresh {
		answer.Type = "Bearer"
	}
	if id := found.Identity; id != nil {
		answer.Subject, answer.Username, answer.Act = subjectOf(id), id.Username, id.Act()
	}
	if found.Terms.Resource != "" {
		answer.Audience = found.Terms.Resource
	} else {
		answer.Audience = s.audience
	}
	return answer, nil
}
