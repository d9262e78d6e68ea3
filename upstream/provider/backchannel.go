package provider

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// noticeTimeout bounds the delivery of one logout token.
const noticeTimeout = 5 * time.Second

// logoutToken tells a client that a session has ended (OpenID Connect
// Back-Channel Logout 1.0, section 2.4).
func (s *signer) logoutToken(c *Client, ended *session) (string, error) {
	now := s.options.Now()
	return s.sign("logout+jwt", map[string]any{
		"iss": s.options.Issuer, "aud": c.ID, "sub": ended.user.subject(), "sid": ended.id,
		"iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": rand.Text(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": struct{}{}},
	})
}

// notices delivers logout tokens. It tries each delivery once.
type notices struct {
	http   *http.Client
	logger *slog.Logger
	ctx    context.Context // for all deliveries; close cancels it
	stop   context.CancelFunc

	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup
}

func newNotices(client *http.Client, logger *slog.Logger) *notices {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	n := &notices{http: &own, logger: logger}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

// send delivers a token to a client. It adds the delivery to told.
func (n *notices) send(told *sync.WaitGroup, c *Client, token string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	told.Add(1)
	n.inFlight.Go(func() {
		defer told.Done()
		if err := n.post(c.BackchannelLogoutURI, token); err != nil {
			n.logger.Warn("logout token not delivered", "client", c.ID, "error", err)
		}
	})
}

// post sends the request (section 2.5).
func (n *notices) post(uri, token string) error {
	ctx, cancel := context.WithTimeout(n.ctx, noticeTimeout)
	defer cancel()
	body := strings.NewReader(url.Values{"logout_token": {token}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, uri, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", formType)
	response, err := n.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("POST %s was answered %s, want 200", uri, response.Status)
	}
	return nil
}

// close cancels deliveries in flight and waits for them.
func (n *notices) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	n.inFlight.Wait()
}
