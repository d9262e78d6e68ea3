package oauth

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/section"
	"authgate/gateway/login"
)

const (
	// deliveryTime bounds all attempts to tell one client of one ended login, attemptTime each
	// of them.
	deliveryTime = 10 * time.Second
	attemptTime  = 3 * time.Second
	// deliveriesAtOnce is how many clients are being told at most. A client that does not
	// answer holds its place for deliveryTime.
	deliveriesAtOnce = 1024

	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
)

// backchannel tells clients that a login has ended (OpenID Connect Back-Channel Logout 1.0).
type backchannel struct {
	usual   *http.Client
	private map[string]*http.Client // to clients with roots of their own, by their ID
	places  chan struct{}           // one for each delivery that is running
	pauses  []time.Duration
}

func newBackchannel(configured []config.OAuthClient) (*backchannel, error) {
	b := &backchannel{
		usual: newTeller(nil), private: map[string]*http.Client{},
		places: make(chan struct{}, deliveriesAtOnce),
		pauses: []time.Duration{0, 500 * time.Millisecond, 2 * time.Second},
	}
	for i := range configured {
		c := &configured[i]
		if c.TrustedRoots == "" {
			continue
		}
		roots, err := section.RootsWith(c.TrustedRootsContent)
		if err != nil {
			return nil, fmt.Errorf("oauth.clients[%s].trusted_roots: %w", c.ID, err)
		}
		b.private[c.ID] = newTeller(roots)
	}
	return b, nil
}

// newTeller returns the HTTP client that sends logout tokens to servers that these roots vouch for;
// nil: those of the system.
func newTeller(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: attemptTime,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: attemptTime,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// to returns the HTTP client for an OAuth client.
func (b *backchannel) to(client string) *http.Client {
	if own := b.private[client]; own != nil {
		return own
	}
	return b.usual
}

// notifier tells clients of logins that have ended.
type notifier struct {
	*core
	backchannel *backchannel
}

// loginEnded tells the clients of a login that it has ended. It does not wait for them.
func (s *notifier) loginEnded(ended *login.Login) {
	for i := range s.section.Clients {
		c := &s.section.Clients[i]
		if c.BackchannelLogoutURI == "" || !slices.Contains(ended.Clients, c.ID) {
			continue
		}
		select {
		case s.backchannel.places <- struct{}{}:
			go func() {
				defer func() { <-s.backchannel.places }()
				s.report(c, ended, s.tell(c, ended))
			}()
		default:
			s.report(c, ended, errors.New("too many clients do not answer"))
		}
	}
}

// report counts a delivery, and logs one that has failed.
func (s *notifier) report(c *config.OAuthClient, ended *login.Login, err error) {
	s.site.Service.Metrics.BackchannelLogout(err)
	if err != nil {
		s.site.Service.Logger.Warn("a client was not told that a login has ended: its own session may go on",
			"client_id", c.ID, "login", ended.ID, "error", err.Error())
	}
}

// tell sends a logout token, several times if need be.
func (s *notifier) tell(c *config.OAuthClient, ended *login.Login) error {
	ctx, end := context.WithTimeout(context.Background(), deliveryTime)
	defer end()
	token, err := s.logoutToken(c.ID, ended)
	if err != nil {
		return err
	}
	for _, pause := range s.backchannel.pauses {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		var again bool
		if again, err = s.backchannel.send(ctx, c, token); err == nil || !again {
			return err
		}
	}
	return err
}

// logoutToken returns the token for a client (section 2.4). A login has one sid at all its
// clients.
func (s *notifier) logoutToken(client string, ended *login.Login) (string, error) {
	now := s.options.Now()
	subject := ended.Username
	if ended.Delegated != nil {
		subject = ended.Subject()
	}
	return s.ids.SignType("logout+jwt", map[string]any{
		"iss": s.issuer, "aud": client, "sub": subject, "sid": ended.ID, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(),
		"events": map[string]any{logoutEvent: struct{}{}},
	})
}

// send sends a logout token once. again tells whether another attempt may succeed.
func (b *backchannel) send(ctx context.Context, c *config.OAuthClient, token string) (again bool, err error) {
	ctx, end := context.WithTimeout(ctx, attemptTime)
	defer end()
	body := url.Values{"logout_token": {token}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BackchannelLogoutURI, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := b.to(c.ID).Do(request)
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 4<<10))
	if response.StatusCode/100 == 2 {
		return false, nil
	}
	return response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests,
		fmt.Errorf("the client answered %s", response.Status)
}
