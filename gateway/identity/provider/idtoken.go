package provider

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// verifyIDToken verifies the ID token that came with an access token (OpenID Connect
// Core 1.0, section 3.1.3.7). The nonce is empty if none was sent, as in a refresh.
func (p *Provider) verifyIDToken(ctx context.Context, m *metadata, tokens Tokens, nonce string) (claims, error) {
	c, algorithm, err := p.verify(ctx, m, tokens.ID, plainForm, m.algorithms())
	if err == nil {
		err = c.checkIDToken(p.options.Client.ID, nonce)
	}
	if err == nil {
		err = checkHash(c, algorithm, tokens.Access)
	}
	if errors.Is(err, errExpired) { // although it is new
		err = fmt.Errorf("%w: %w", err, ErrClock)
	}
	if err != nil {
		return nil, p.fault("token", fmt.Errorf("the ID token: %w", err))
	}
	return c, nil
}

// checkIDToken checks who the token is about, that it is for client, and for which attempt.
func (c claims) checkIDToken(client, nonce string) error {
	if _, err := c.subject(); err != nil {
		return err
	}
	if err := c.checkAudience(client); err != nil {
		return err
	}
	audience, _ := c.audience()
	switch azp, named := c.present("azp"); {
	case named && azp != client:
		return fmt.Errorf("azp is %s, expected %q", quoted(azp), client)
	case !named && len(audience) > 1:
		return fmt.Errorf("it is for several, %q, and has no azp to say which asked for it", audience)
	}
	sent, _ := c["nonce"].(string)
	if nonce != "" && subtle.ConstantTimeCompare([]byte(sent), []byte(nonce)) != 1 {
		return errors.New("the nonce is not that of the attempt to log in")
	}
	return nil
}

// checkHash checks at_hash, if there is one: the first half of a hash of the access
// token (OpenID Connect Core 1.0, section 3.1.3.6).
func checkHash(c claims, algorithm, access string) error {
	got, named := c.present("at_hash")
	if !named {
		return nil
	}
	var half []byte
	switch {
	case strings.HasSuffix(algorithm, "256"):
		sum := sha256.Sum256([]byte(access))
		half = sum[:16]
	case strings.HasSuffix(algorithm, "384"):
		sum := sha512.Sum384([]byte(access))
		half = sum[:24]
	default: // 512, and Ed25519
		sum := sha512.Sum512([]byte(access))
		half = sum[:32]
	}
	if got != base64.RawURLEncoding.EncodeToString(half) {
		return errors.New("at_hash is not that of the access token")
	}
	return nil
}
