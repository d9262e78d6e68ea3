package auth

import (
	"context"
	"strings"

	"authgate/policy"
)

// ReadToken reads the values of the header that holds nothing but a token for the gateway.
// The token counts when UseToken takes it. The error is ErrAmbiguous.
func (c *Credentials) ReadToken(values []string) error {
	if len(values) > 1 {
		return ErrAmbiguous
	}
	if len(values) == 1 {
		c.Token = strings.Trim(values[0], " \t")
	}
	return nil
}

// UseToken makes Token the credential in place of Authorization.
func (c *Credentials) UseToken() { c.Scheme, c.Value, c.Apart = "bearer", c.Token, true }

// UseProxyAuthorization makes the value of Proxy-Authorization (RFC 9110, section 11.7.1)
// the credential in place of Authorization.
func (c *Credentials) UseProxyAuthorization(value string) {
	c.Scheme, c.Value = splitAuthorization(value)
	c.Apart = true
}

// Authorization splits the value of an Authorization header as Credentials.Read does.
func Authorization(value string) Credentials {
	var c Credentials
	c.Scheme, c.Value = splitAuthorization(value)
	return c
}

// Unaccepted is the last mechanism of a chain for credentials that can only be meant for the
// gateway. It rejects those that no other mechanism has taken.
type Unaccepted struct{}

// Authenticate implements Authenticator.
func (Unaccepted) Authenticate(_ context.Context, creds *Credentials) (*policy.Identity, error) {
	detail := DetailBadToken
	if creds.Scheme == "basic" {
		detail = DetailWrongPassword
	}
	return nil, &Rejection{Detail: detail, Reason: "the header for the gateway holds nothing that the route accepts"}
}

// Alive implements Authenticator.
func (u Unaccepted) Alive(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	return u.Authenticate(ctx, creds)
}

// Challenge implements Authenticator.
func (Unaccepted) Challenge(*Credentials) Challenge { return "" }
