package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"authgate/e2e/bench/load"
	"authgate/e2e/bench/role"
)

// client asks servers one request at a time, each on a connection of its own.
type client struct{ http *http.Client }

func newClient(roots *x509.CertPool) client {
	return client{&http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}}
}

// answer is the answer of a server.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request. Each header is a line.
func (c client) send(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header = load.Headers(headers)
	request.Host = request.Header.Get("Host") // empty: that of url
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

// Get returns the status and the body of url. Each header is a line.
func (c client) Get(ctx context.Context, url string, headers ...string) (int, string, error) {
	got, err := c.send(ctx, http.MethodGet, url, "", headers...)
	return got.status, got.body, err
}

// sees checks that a route answers 200 to a credential, and that the upstream gets the user.
func (c client) sees(ctx context.Context, url, user string, headers ...string) error {
	status, seen, err := c.Get(ctx, url, headers...)
	if err == nil && (status != http.StatusOK || seen != user) {
		err = fmt.Errorf("%s answers %d and %q, want 200 and that the upstream sees %q", url, status, seen, user)
	}
	return err
}

// forwards checks that a plain proxy passes a header on.
func (c client) forwards(ctx context.Context, base string) error {
	const user = "no gateway checks this"
	return c.sees(ctx, base+role.WhoamiSuffix, user, "X-Auth-User: "+user)
}

// guarded checks that a route answers 401 without the credential, and that with it
// the upstream gets the user.
func (c client) guarded(ctx context.Context, url, user, credential string) error {
	status, _, err := c.Get(ctx, url)
	if err != nil {
		return err
	}
	if status != http.StatusUnauthorized {
		return fmt.Errorf("%s answers %d without a credential, want 401", url, status)
	}
	return c.sees(ctx, url, user, credential)
}

// decides checks that a server that is asked refuses a request without the credential, and names
// the user of one with it in a header.
func (c client) decides(ctx context.Context, url, credential, names string) error {
	got, err := c.send(ctx, http.MethodGet, url, "", Question()...)
	if err != nil || got.status != http.StatusUnauthorized {
		return fmt.Errorf("%s answers %d without a credential, want 401 (%w)", url, got.status, err)
	}
	got, err = c.send(ctx, http.MethodGet, url, "", append(Question(), credential)...)
	if err != nil || got.status/100 != 2 || got.header.Get(names) != "alice" {
		return fmt.Errorf("%s answers %d and %q, want 2xx and the user alice (%w)",
			url, got.status, got.header.Get(names), err)
	}
	return nil
}

// signedIn has the credentials of a login.
type signedIn struct{ token, Cookie string }

// SignIn signs a user in at url for a session, and a token where there are tokens. Each
// header is a line.
func (c client) SignIn(ctx context.Context, url, username, password string, headers ...string) (signedIn, error) {
	body := string(load.SignIn("", username, password).Body)
	got, err := c.send(ctx, http.MethodPost, url, body, append(headers, "Content-Type: application/json")...)
	if err != nil {
		return signedIn{}, err
	}
	var tokens struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(got.body), &tokens); err != nil || got.status != http.StatusOK {
		return signedIn{}, fmt.Errorf("POST /login: %d: %s", got.status, got.body)
	}
	for _, cookie := range (&http.Response{Header: got.header}).Cookies() {
		if cookie.Name == "session_id" {
			return signedIn{tokens.AccessToken, cookie.Name + "=" + cookie.Value}, nil
		}
	}
	return signedIn{}, errors.New("POST /login gave no session cookie")
}
