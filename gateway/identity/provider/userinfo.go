package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"authgate/policy"
)

// userinfo requests the claims of the user for whom the access token was issued
// (OpenID Connect Core 1.0, section 5.3). go-oidc can do this, too, but fetches the
// keys of a signed answer without the limits of this package, and copies answers
// into its errors.
func (p *Provider) userinfo(ctx context.Context, m *metadata, access string) (claims, error) {
	r, err := http.NewRequest(http.MethodGet, m.Userinfo, nil)
	if err != nil {
		return nil, p.fault("userinfo", err)
	}
	r.Header.Set("Authorization", "Bearer "+access)
	r.Header.Set("Accept", "application/json")
	got, err := p.client.send(ctx, "userinfo", r)
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusOK {
		return nil, p.fault("userinfo", fmt.Errorf("answered %s, expected 200", statusText(got.status)))
	}
	read := decodeClaims
	if got.mediaType == "application/jwt" {
		read = func(raw []byte) (claims, error) { return p.verifyUserinfo(ctx, m, string(raw)) }
	}
	c, err := read(got.body)
	if err != nil {
		return nil, p.fault("userinfo", fmt.Errorf("the answer: %w", err))
	}
	return c, nil
}

// verifyUserinfo verifies a signed answer (OpenID Connect Core 1.0, section 5.3.2).
// It may lack iss and aud, but if present they must match.
func (p *Provider) verifyUserinfo(ctx context.Context, m *metadata, raw string) (claims, error) {
	c, _, err := p.open(ctx, m, raw, plainForm, supportedAlgorithms)
	if err != nil {
		return nil, err
	}
	if iss, ok := c.present("iss"); ok && iss != p.options.Issuer {
		return nil, fmt.Errorf("iss is %s, expected %q", quoted(iss), p.options.Issuer)
	}
	if _, ok := c.present("aud"); ok {
		if err := c.checkAudience(p.options.Client.ID); err != nil {
			return nil, err
		}
	}
	return c, c.checkTimes(p.now())
}

// wholeNumber is the form of an identifier that is a number.
var wholeNumber = regexp.MustCompile(`^[0-9]{1,20}$`)

// subject reads the subject from userinfo: sub, or without OpenID Connect the
// configured claim, which may be a whole number, as the id of GitHub.
func (p *Provider) subject(userinfo claims) (string, error) {
	if p.openID() {
		return userinfo.subject()
	}
	name := p.options.SubjectClaim
	switch value := policy.LookupClaim(userinfo, name).(type) {
	case string:
		return value, checkSubject(name, value)
	case json.Number:
		if wholeNumber.MatchString(value.String()) {
			return value.String(), nil
		}
		return "", fmt.Errorf("%s is a number, but not a whole number", name)
	default:
		return "", fmt.Errorf("%s is %s, expected a string or a whole number that identifies the user permanently; "+
			"see subject_claim", name, kindOf(value))
	}
}
