package provider

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/coreos/go-oidc/v3/oidc"
)

// verifyIDToken verifies the ID token that came with an access token (OpenID Connect
// Core 1.0, section 3.1.3.7). The nonce is empty if none was sent, as in a refresh.
func (p *Provider) verifyIDToken(ctx context.Context, m *metadata, tokens Tokens, nonce string) (claims, error) {
	token, c, err := p.verify(ctx, m, tokens.ID, plainTypes, &oidc.Config{
		ClientID: p.options.Client.ID, SupportedSigningAlgs: m.algorithms(),
	})
	if err == nil {
		err = p.checkIDToken(token, c, tokens.Access, nonce)
	}
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired { // although it is new
		err = fmt.Errorf("%w: %w", err, ErrClock)
	}
	if err != nil {
		return nil, p.fault("token", fmt.Errorf("the ID token: %w", err))
	}
	return c, nil
}

// checkIDToken checks what go-oidc leaves to its callers.
func (p *Provider) checkIDToken(token *oidc.IDToken, c claims, access, nonce string) error {
	if err := c.checkTimes(p.now(), "iat"); err != nil {
		return err
	}
	azp, named := c["azp"]
	switch {
	case named && azp != p.options.Client.ID:
		return fmt.Errorf("azp is %q, expected %q", azp, p.options.Client.ID)
	case !named && len(token.Audience) > 1:
		return fmt.Errorf("it is for several, %q, and has no azp to say which asked for it", token.Audience)
	}
	if nonce != "" && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1 {
		return errors.New("the nonce is not that of the attempt to log in")
	}
	if _, ok := c["sid"]; ok {
		if _, err := c.identifier("sid"); err != nil {
			return err
		}
	}
	if _, ok := c["at_hash"]; ok {
		return token.VerifyAccessToken(access)
	}
	return nil
}
