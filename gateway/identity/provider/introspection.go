package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Introspect asks the issuer about an access token that only the issuer can read
// (RFC 7662). The issuer decides whether it is valid for this gateway, but iss and
// aud, if present in the answer, must match. The error is ErrInvalid if the token is
// not active or not valid, and otherwise ErrFault or ErrTimeout.
func (t *Trusted) Introspect(ctx context.Context, raw string) (*AccessToken, error) {
	if t.options.Introspection == nil || raw == "" {
		return nil, t.invalid("introspection",
			errors.New("opaque tokens of this issuer are not taken; see introspection"))
	}
	c, err := t.introspect(ctx, raw)
	if err != nil {
		return nil, err
	}
	if err := t.checkIntrospected(c); err != nil {
		return nil, t.invalid("introspection", err)
	}
	return t.accessToken("introspection", c)
}

// introspect calls the introspection endpoint.
func (t *Trusted) introspect(ctx context.Context, raw string) (claims, error) {
	endpoint, announced := t.options.Introspection.URL, []string(nil)
	if endpoint == "" {
		m, err := t.metadata(ctx)
		if err != nil {
			return nil, err
		}
		endpoint, announced = m.Introspection, m.IntrospectionAuthMethods
	}
	if err := checkEndpoint("introspection_endpoint", endpoint); err != nil {
		return nil, t.client.fail("introspection", err)
	}
	client, err := authenticate(t.options.Introspection.Client, announced)
	if err != nil {
		return nil, t.client.fail("introspection", err)
	}
	r, err := client.request(endpoint, url.Values{"token": {raw}, "token_type_hint": {"access_token"}})
	if err != nil {
		return nil, t.client.fail("introspection", err)
	}
	got, err := t.client.send(ctx, "introspection", r)
	if err != nil {
		return nil, err
	}
	c, err := decodeClaims(got.body)
	if err != nil {
		return nil, t.client.fail("introspection", fmt.Errorf("the answer: %w", err))
	}
	return c, nil
}

// checkIntrospected checks an answer. A refresh token is active, too, so token_type,
// if present, must be that of a bearer token.
func (t *Trusted) checkIntrospected(c claims) error {
	if c["active"] != true {
		return errors.New("it is not active")
	}
	if kind, ok := c.present("token_type"); ok {
		name, _ := kind.(string)
		if !strings.EqualFold(name, "Bearer") && name != "access_token" {
			return fmt.Errorf("it is of the type %s, expected Bearer", quoted(kind))
		}
	}
	if iss, ok := c.present("iss"); ok && iss != t.options.Issuer {
		return fmt.Errorf("iss is %s, expected %q", quoted(iss), t.options.Issuer)
	}
	if _, ok := c.present("aud"); ok {
		if err := c.checkAudience(t.options.Audience...); err != nil {
			return err
		}
	}
	if err := t.checkAccess(c); err != nil {
		return err
	}
	return c.checkTimes(t.now())
}
