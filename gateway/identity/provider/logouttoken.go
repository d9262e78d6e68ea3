package provider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// logoutEvent is the required member of events in a logout token (OpenID
	// Connect Back-Channel Logout 1.0, section 2.4).
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// logoutTokenAge is how old a logout token may be, whatever its exp.
	logoutTokenAge = 10 * time.Minute
)

// ErrReplayed: the logout token was used before.
var ErrReplayed = errors.New("provider: the logout token was used before")

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
	c, _, err := p.verify(ctx, m, raw, logoutForm, m.algorithms())
	if err != nil {
		return nil, err
	}
	if err := c.checkAudience(p.options.Client.ID); err != nil {
		return nil, err
	}
	return readLogoutToken(c, p.now())
}

// readLogoutToken reads the claims of a logout token. A nonce would make it an ID
// token (OpenID Connect Back-Channel Logout 1.0, section 2.6).
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
	if _, ok := c["nonce"]; ok {
		return nil, errors.New("it has a nonce, so it is no logout token")
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
