package oauth

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/identity/assertions"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
)

// byCrossApp gives a client a token for the user whom a provider vouches for
// (draft-ietf-oauth-identity-assertion-authz-grant, section 5).
func (s *programs) byCrossApp(ex *web.Exchange, c *call) (*grants.Issued, error) {
	issued, err := s.vouched(ex, c)
	if err != nil {
		s.auditRejected(ex, c.client.ID, true, err)
		return nil, err
	}
	return issued, nil
}

func (s *programs) vouched(ex *web.Exchange, c *call) (issued *grants.Issued, err error) {
	listed := func(name string) bool { return s.section.Vouches(name, c.client.ID) }
	switch {
	case !c.client.Confidential():
		return nil, refuse(codeInvalidClient, "Only a client with a secret or a key may act for users by an assertion.")
	case !slices.ContainsFunc(s.section.Vouching(), listed):
		return nil, refuse(codeUnauthorizedClient, "No provider vouches for its users at this client.")
	}
	accept := func(v *assertions.Vouched) error {
		c.proof = &assertions.Proof{Client: c.client.ID, Issuer: v.Provider, Subject: v.Subject, Entry: c.entry()}
		issued, err = s.vouch(ex, c, v)
		if errors.Is(err, grants.ErrInvalid) {
			return assertions.Refused(err)
		}
		return err
	}
	return issued, s.assertions.Vouch(&ex.Store, c.form.Get("assertion"), c.client.ID, ex.Peer.Client, accept)
}

// vouch gives a client a token by a verified assertion.
func (s *programs) vouch(ex *web.Exchange, c *call, v *assertions.Vouched) (*grants.Issued, error) {
	form, err := s.bounded(c.form, v)
	if err != nil {
		return nil, err
	}
	terms, err := s.terms(c.client, form)
	if err != nil {
		return nil, err
	}
	terms.Federation = c.entry()
	return s.grants.Vouch(&ex.Store, &grants.Vouched{
		Provider: v.Provider, Issuer: v.Issuer, ID: v.ID, Issued: v.Issued, Left: v.Left, Profile: v.Profile,
	}, terms, c.client.Name)
}

// bounded returns a form with the scope and the resource of an assertion where it has none. It refuses
// others.
func (s *programs) bounded(form url.Values, v *assertions.Vouched) (url.Values, error) {
	form = maps.Clone(form)
	if granted := strings.Fields(v.Scope); len(granted) > 0 {
		for scope := range strings.FieldsSeq(form.Get("scope")) {
			if !slices.Contains(granted, scope) {
				return nil, refuse(codeInvalidScope, "The assertion does not have this scope.")
			}
		}
		if form.Get("scope") == "" {
			form.Set("scope", v.Scope)
		}
	}
	if len(v.Resources) == 0 {
		return form, nil
	}
	if len(form["resource"]) == 0 {
		form["resource"] = v.Resources
	}
	for _, asked := range form["resource"] {
		same := func(granted string) bool {
			a, _, known := s.findResource(asked)
			b, _, ok := s.findResource(granted)
			return asked == granted || known && ok && a == b
		}
		if !slices.ContainsFunc(v.Resources, same) {
			return nil, refuse(codeInvalidTarget, "The assertion is not for this resource.")
		}
	}
	return form, nil
}
