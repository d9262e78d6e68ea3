package provider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// CrossAppType is the typ of an assertion by which a provider vouches for its user at a client
// (draft-ietf-oauth-identity-assertion-authz-grant, section 4), in lower case.
const CrossAppType = "oauth-id-jag+jwt"

// Assertion is the content of a valid assertion (RFC 7523, section 3).
type Assertion struct {
	Subject         string
	Issued, Expires time.Time
	Left            time.Duration  // until Expires
	Claims          map[string]any // those that policies see, and sub

	// Of a cross-app assertion.
	ID        string   // jti
	Client    string   // client_id
	Resources []string // empty: not given
	Scope     string
	Profile   Profile // of the user
}

// VerifyAssertion verifies an assertion of the issuer for one audience, which must be the only one. It
// tells nothing about who the program is. The error is ErrInvalid if the assertion is not valid, and
// otherwise ErrFault or ErrTimeout.
func (t *Trusted) VerifyAssertion(ctx context.Context, raw, audience string) (*Assertion, error) {
	c, a, err := t.verifyAssertion(ctx, raw, audience, assertionForm, t.options.Algorithms)
	if err != nil {
		return nil, t.invalid("assertion", err)
	}
	a.Claims = t.mapping.bounded(c)
	a.Claims["sub"] = a.Subject
	return a, nil
}

// VerifyCrossApp verifies an assertion of the provider about one of its users; see VerifyAssertion.
func (p *Provider) VerifyCrossApp(ctx context.Context, raw, audience string) (*Assertion, error) {
	c, a, err := p.verifyAssertion(ctx, raw, audience, crossAppForm, nil)
	if err == nil {
		err = a.readCrossApp(c)
	}
	if err != nil {
		return nil, fail(p.options.Name, "assertion", ErrInvalid, err)
	}
	c = p.mapping.bounded(c)
	a.Profile = p.mapping.profile(a.Subject, p.mapping.rolesOf(c), c)
	return a, nil
}

// verifyAssertion checks the parts that all assertions have.
func (i *issuer) verifyAssertion(
	ctx context.Context, raw, audience string, form tokenForm, algorithms []string,
) (claims, *Assertion, error) {
	m, err := i.metadata(ctx)
	if err != nil {
		return nil, nil, err
	}
	if m.keys == nil {
		return nil, nil, i.noKeys()
	}
	c, _, err := i.verify(ctx, m, raw, form, m.accepted(algorithms))
	if err != nil {
		return nil, nil, err
	}
	a, now := &Assertion{}, i.now()
	if a.Subject, _ = c["sub"].(string); a.Subject == "" {
		return nil, nil, errors.New("sub is missing, or no text")
	}
	if err := c.checkTimes(now, "exp", "iat"); err != nil {
		return nil, nil, err
	}
	if _, _, err := c.date("nbf"); err != nil {
		return nil, nil, err
	}
	a.Issued, _, _ = c.date("iat")
	a.Expires, _, _ = c.date("exp")
	a.Left = a.Expires.Sub(now)
	for _, name := range []string{"cnf", "events"} { // bound to a key; said about something else
		if _, ok := c.present(name); ok {
			return nil, nil, fmt.Errorf("it has %s, so it is no assertion of a bearer", name)
		}
	}
	all, err := c.audience()
	if err == nil && (len(all) != 1 || all[0] != audience) {
		err = fmt.Errorf("aud is %q, expected %q alone", all, audience)
	}
	return c, a, err
}

// readCrossApp reads the further claims of a cross-app assertion.
func (a *Assertion) readCrossApp(c claims) error {
	_, err := c.subject()
	if err != nil {
		return err
	}
	if a.ID, err = c.identifier("jti"); err != nil {
		return err
	}
	if a.Client, _ = c["client_id"].(string); a.Client == "" {
		return errors.New("client_id is missing, or no text")
	}
	switch resource := c["resource"].(type) {
	case nil:
	case string:
		a.Resources = []string{resource}
	case []any:
		if a.Resources, err = stringsOf("resource", resource); err != nil {
			return err
		}
	default:
		return fmt.Errorf("resource is %s, expected a string or an array of strings", kindOf(resource))
	}
	scope, ok := c["scope"].(string)
	if a.Scope = scope; !ok && c["scope"] != nil {
		return fmt.Errorf("scope is %s, expected a string", kindOf(c["scope"]))
	}
	return nil
}
