package oauth

import (
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/jose"
)

// call is the request of a client to an endpoint for programs: its form, and who it is.
type call struct {
	client *clients.Client
	form   url.Values
	proof  *assertions.Proof // by which its platform proves the client; nil: another way
	// crossApp tells that a provider vouches for a user by the assertion of the grant.
	crossApp bool
}

// entry returns the entry of the client's federation that its tokens end with, "" if there is none.
func (c *call) entry() string {
	if c.proof == nil {
		return ""
	}
	return c.proof.Entry
}

// readCall reads the form of a request, and authenticates its client.
func (s *core) readCall(ex *web.Exchange) (*call, error) {
	var presented clients.Presented
	call, err := s.authenticate(ex, &presented)
	if err != nil {
		s.auditRejected(ex, presented.Claimed(), presented.Found, err)
	}
	return call, err
}

// authenticate reads the form, and authenticates the client that it fills presented with.
func (s *core) authenticate(ex *web.Exchange, presented *clients.Presented) (*call, error) {
	form, err := readForm(ex)
	if err != nil {
		return nil, err
	}
	*presented = clients.Presented{
		ID: form.Get("client_id"), Secret: form.Get("client_secret"),
		AssertionType: form.Get("client_assertion_type"), Assertion: form.Get("client_assertion"),
		Audience: []string{s.issuer, s.address(tokenPath), s.site.PublicURL + ex.Canonical.Path.Decoded},
		Address:  ex.Peer.Client,
	}
	switch ex.Credentials.Scheme {
	case "":
	case "basic":
		presented.Basic, presented.Value = true, ex.Credentials.Value
	default:
		return nil, &refusal{codeInvalidClient, "A client authenticates by Basic or in the form.", nil}
	}
	crossApp := false
	if form.Get("grant_type") == grantAssertion && ex.Canonical.Path.Decoded == s.site.Own(tokenPath) {
		given := form.Get("assertion")
		if given == "" {
			return nil, refuse(codeInvalidRequest, "The parameter assertion is needed.")
		}
		if crossApp = s.assertions.IsCrossApp(given); !crossApp {
			presented.Grant = given
		}
	}
	client, proof, err := s.clients.Authenticate(&ex.Store, presented)
	if err != nil {
		return nil, err
	}
	return &call{client, form, proof, crossApp}, nil
}

// maxClaimed is how many characters a client_id may have that no client has, for the audit log.
const maxClaimed = 64

// auditRejected records that a request did not prove its client, unless the gateway failed. Of a client that
// does not exist, id may be a secret in the wrong field.
func (s *core) auditRejected(ex *web.Exchange, id string, exists bool, err error) {
	throttled, limited := &auth.ThrottledError{}, &auth.StartsError{}
	if refusalOf(err) == nil && !errors.As(err, &throttled) && !errors.As(err, &limited) {
		return
	}
	if !exists && !s.clients.Configured(id) && (utf8.RuneCountInString(id) > maxClaimed || s.isOwnToken(id)) {
		id = ""
	}
	ex.AuditRefused("client_rejected", false, slog.String("reason", web.ReasonOf(err)), slog.String("client_id", id))
}

// isOwnToken reports whether a text has the form of a credential that the gateway gives, with space around it.
func (s *core) isOwnToken(text string) bool {
	text = strings.TrimSpace(text)
	return grants.IsToken(text) || auth.IsAPIToken(text) || jose.HasForm(text)
}

const detailNoForm = "The body is not a form."

// readForm reads the form of a request. A parameter that is there twice has no meaning (RFC
// 6749, section 3.2), but for those of RFC 8707 and RFC 8693 that name targets.
func readForm(ex *web.Exchange) (url.Values, error) {
	if ex.MediaType() != web.TypeForm {
		return nil, refuse(codeInvalidRequest, "The body must be "+web.TypeForm+".")
	}
	form, err := bodies.ParseForm(ex.Body)
	if err != nil {
		return nil, refuse(codeInvalidRequest, detailNoForm)
	}
	form = given(form)
	for name, values := range form {
		if len(values) > 1 && name != "resource" && name != "audience" {
			return nil, refuse(codeInvalidRequest, "A parameter is there more than once.")
		}
	}
	return form, nil
}

// readQuery reads the parameters of a request to an endpoint where clients send users.
func readQuery(ex *web.Exchange) (url.Values, error) {
	values, err := ex.Query()
	return given(values), err
}

// given returns the parameters that have a value. One without a value counts as omitted (RFC 6749,
// sections 3.1 and 3.2).
func given(values url.Values) url.Values {
	found := url.Values{}
	for name, all := range values {
		all = slices.DeleteFunc(all, func(value string) bool { return value == "" })
		if len(all) > 0 {
			found[name] = all
		}
	}
	return found
}

// address returns the URL of an own endpoint.
func (s *core) address(name string) string { return s.site.PublicURL + s.site.Own(name) }
