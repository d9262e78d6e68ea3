package oauth

import (
	"errors"
	"slices"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
)

// accessTokenType is the type of access tokens in an exchange (RFC 8693, section 3).
const accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

// byExchange gives a client a token by which it acts for the user of another token (RFC 8693).
func (s *programs) byExchange(ex *web.Exchange, c *call) (*grants.Issued, error) {
	permitted := s.section.ExchangeOf(c.client.ID)
	if permitted == nil || !c.client.Confidential() {
		return nil, refuse(codeUnauthorizedClient, "Only a client that proves who it is may exchange tokens.")
	}
	if err := checkExchange(c); err != nil {
		return nil, err
	}
	resource, _, ok := s.findResource(c.form.Get("resource"))
	if !ok || !s.lists(permitted.To, resource) {
		return nil, refuse(codeInvalidTarget, "The client may not exchange tokens for this resource.")
	}
	terms := grants.Terms{Client: c.client.ID, Resource: resource, Access: s.lifetimes.access, Federation: c.entry()}
	if c.client.Access > 0 {
		terms.Access = c.client.Access
	}
	issued, err := s.grants.Exchange(&ex.Store, c.form.Get("subject_token"), terms, func(of, t *grants.Terms) error {
		if !s.lists(permitted.From, of.Resource) {
			return refuse(codeInvalidRequest, "The client may not exchange tokens of the subject_token's resource.")
		}
		t.Scopes = strings.Fields(c.form.Get("scope"))
		for _, scope := range t.Scopes {
			if !slices.Contains(of.Scopes, scope) {
				return refuse(codeInvalidScope, "The subject_token does not have this scope.")
			}
		}
		if len(t.Scopes) == 0 {
			t.Scopes = of.Scopes
		}
		return nil
	})
	return issued, refusedSubject(c.client.ID, err)
}

// refusedSubject returns the error of a subject_token that a client has presented, for the audit log. Only a
// token that does not verify is one that was never good.
func refusedSubject(client string, err error) error {
	if errors.Is(err, grants.ErrInvalid) || errors.Is(err, auth.ErrRejected) {
		err = &refusal{codeInvalidRequest, "The subject_token is not valid here.", err}
	}
	if refusalOf(err) == nil {
		return err
	}
	return &web.Refusal{
		Err: err, Kind: web.CredentialAccessToken, Past: !errors.Is(err, auth.ErrRejected), Client: client,
	}
}

// checkExchange checks the parameters of an exchange, apart from their values.
func checkExchange(c *call) error {
	requested := c.form.Get("requested_token_type")
	switch {
	case c.form.Has("actor_token") || c.form.Has("actor_token_type"):
		return refuse(codeInvalidRequest, "The client itself is the actor. Leave out actor_token.")
	case c.form.Get("subject_token") == "":
		return refuse(codeInvalidRequest, "The parameter subject_token is needed.")
	case c.form.Get("subject_token_type") != accessTokenType:
		return refuse(codeInvalidRequest, "subject_token_type must be "+accessTokenType+".")
	case requested != "" && requested != accessTokenType:
		return refuse(codeInvalidRequest, "requested_token_type must be "+accessTokenType+", or absent.")
	case c.form.Has("audience"):
		return refuse(codeInvalidTarget, "Name the target by resource, and not by audience.")
	case len(c.form["resource"]) != 1:
		return refuse(codeInvalidTarget, "One parameter resource is needed: the address of what the token is for.")
	}
	return nil
}

// lists reports whether a list of the configuration has a resource, in any spelling.
func (s *programs) lists(configured []string, resource string) bool {
	return slices.ContainsFunc(configured, func(one string) bool {
		found, _, ok := s.findResource(one)
		return ok && found == resource
	})
}
