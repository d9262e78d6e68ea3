package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// logoutEvent is the required member of events in a logout token (OpenID
	// Connect Back-Channel Logout 1.0, section 2.4).
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// logoutTokenAge is how old a logout token may be, whatever its exp.
	logoutTokenAge = 10 * time.Minute
)

// LogoutToken is a verified logout token. It ends all sessions of a user (Subject) or
// one session (Session); one of the two may be empty.
type LogoutToken struct {
	ID, Subject, Session string    // jti, sub, sid
	Expires              time.Time // then the token is no longer accepted, and its ID need not be stored
}

// VerifyLogoutToken validates a back-channel logout token (OpenID Connect Back-Channel
// Logout 1.0, section 2.6). The caller must check that its ID is used only once, and
// store the ID until Expires. The error is ErrInvalid, or that of fetching the
// provider's keys.
func (p *Provider) VerifyLogoutToken(ctx context.Context, raw string) (*LogoutToken, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, err
	}
	token, err := p.verifyLogoutToken(ctx, m, raw)
	if err != nil {
		return nil, fail(p.options.Name, "logout token", ErrInvalid, err)
	}
	return token, nil
}

func (p *Provider) verifyLogoutToken(ctx context.Context, m *metadata, raw string) (*LogoutToken, error) {
	key, err := p.keyFor(ctx, m, raw, logoutTypes, m.algorithms())
	if err != nil {
		return nil, err
	}
	if p.id == "" {
		return nil, errors.New("no issuer is configured")
	}
	verifier := oidc.NewVerifier(p.id, key, &oidc.Config{
		ClientID: p.options.Client.ID, SupportedSigningAlgs: m.algorithms(), Now: p.now,
	})
	token, err := verifier.VerifyLogout(ctx, raw)
	if err != nil {
		return nil, err
	}
	c, err := payload(token.Claims)
	if err != nil {
		return nil, err
	}
	return readLogoutToken(c, p.now())
}

// readLogoutToken checks what go-oidc does not.
func readLogoutToken(c claims, now time.Time) (*LogoutToken, error) {
	if err := c.checkTimes(now, "iat", "exp"); err != nil {
		return nil, err
	}
	expires, _, _ := c.date("exp")
	issued, _, _ := c.date("iat")
	if latest := issued.Add(logoutTokenAge); latest.Before(expires) {
		expires = latest
	}
	if !now.Before(expires) {
		return nil, fmt.Errorf("it is older than %s", logoutTokenAge)
	}
	events, _ := c["events"].(map[string]any)
	if _, ok := events[logoutEvent].(map[string]any); !ok {
		return nil, fmt.Errorf("events has no object %s", logoutEvent)
	}
	token := &LogoutToken{Expires: expires}
	for name, field := range map[string]*string{"jti": &token.ID, "sub": &token.Subject, "sid": &token.Session} {
		if _, ok := c[name]; !ok && name != "jti" {
			continue
		}
		var err error
		if *field, err = c.identifier(name); err != nil {
			return nil, err
		}
	}
	if token.Subject == "" && token.Session == "" {
		return nil, errors.New("it has neither sub nor sid")
	}
	return token, nil
}
