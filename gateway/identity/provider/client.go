package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// maxAnswer is the longest accepted answer, in bytes after decompression.
	// Discovery documents and key sets take a few KiB.
	maxAnswer = 1 << 20
	// defaultTimeout bounds a call if the options do not.
	defaultTimeout = 10 * time.Second
)

// client makes all calls to one provider, including those of the libraries, with
// the same limits.
type client struct {
	name    string
	http    *http.Client
	timeout time.Duration
	now     func() time.Time
	observe func(operation string, took time.Duration, err error) // may be nil
}

// newClient returns a client that uses the transport of c, or its own if c has
// none.
func newClient(name string, c Connection) *client {
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout:    c.Timeout, // a dial goes on after its call has ended
		}
	}
	return &client{
		name: name, http: &http.Client{Transport: limits{base: c.Transport}},
		timeout: c.Timeout, now: c.Now, observe: c.Observe,
	}
}

// call runs f, which makes one call, within the timeout. The context makes the
// libraries use the HTTP client with the limits.
func (c *client) call(ctx context.Context, operation string, f func(context.Context) error) error {
	started := c.now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := f(oidc.ClientContext(ctx, c.http))
	if err != nil {
		err = c.fail(operation, err)
	}
	if c.observe != nil {
		c.observe(operation, c.now().Sub(started), err)
	}
	return err
}

// fail returns the error of a call as an *Error.
func (c *client) fail(operation string, err error) error {
	kind := ErrFault
	if timedOut(err) {
		kind = ErrTimeout
	}
	return fail(c.name, operation, kind, err)
}

// answer is an answer with a 2xx status.
type answer struct {
	status    int
	mediaType string // lower case, without parameters; empty if it cannot be parsed
	body      []byte
}

// send sends one request.
func (c *client) send(ctx context.Context, operation string, r *http.Request) (*answer, error) {
	var got *answer
	err := c.call(ctx, operation, func(ctx context.Context) (err error) {
		got, err = c.do(ctx, r)
		return err
	})
	return got, err
}

// do sends one request, within a call.
func (c *client) do(ctx context.Context, r *http.Request) (*answer, error) {
	resp, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &answer{status: resp.StatusCode, mediaType: mediaType, body: body}, err
}

// limits is the transport of every call. It reads the whole answer, so that size
// and time are bounded in one place. It returns only 2xx answers: the libraries
// would copy others, which may contain a secret, into their errors. It refuses
// redirects, because they would send credentials to an address that is neither
// configured nor announced.
type limits struct {
	base       http.RoundTripper
	credential *credential // nil: none
}

// RoundTrip implements http.RoundTripper.
func (l limits) RoundTrip(r *http.Request) (*http.Response, error) {
	r, err := l.credential.on(r)
	if err != nil {
		return nil, err
	}
	resp, err := l.base.RoundTrip(r)
	if err != nil {
		return nil, noAnswer{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 3 {
		return nil, redirected(resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil {
		err = r.Context().Err() // a provider that is given up may end its answer before the connection is closed
	}
	if err != nil {
		return nil, noAnswer{fmt.Errorf("reading the answer: %w", err)}
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if resp.StatusCode/100 != 2 {
		return nil, readRefusal(r, resp, body)
	}
	resp.Body, resp.Request = io.NopCloser(bytes.NewReader(body)), r
	return resp, nil
}

// noAnswer is the error of a call that the provider has not answered: it was not
// reached, or its answer broke off.
type noAnswer struct{ error }

func (e noAnswer) Unwrap() error { return e.error }

// unanswered reports whether an error leaves the answer open: there is no answer, the answer is
// that there is none now (5xx, 408, 429), or the keys to read it with cannot be had.
func unanswered(err error) bool {
	if known, ok := errors.AsType[*Error](err); ok && (known.Operation == "keys" || known.Operation == "discovery") {
		return true
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.status/100 == 5 ||
			refused.status == http.StatusRequestTimeout || refused.status == http.StatusTooManyRequests
	}
	_, silent := errors.AsType[noAnswer](err)
	return silent || errors.Is(err, errKeysRest) || errors.Is(err, context.Canceled) || timedOut(err)
}

// redirected is the status of a redirect.
type redirected int

func (status redirected) Error() string {
	return fmt.Sprintf("answered %s, and redirects are not followed; configure the address where the answer is",
		statusText(int(status)))
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (l limits) CloseIdleConnections() {
	if closer, ok := l.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status)))
}

// refusal is an error answer (RFC 6749, section 5.2; from userinfo, RFC 6750,
// section 3). Some providers send one with status 200.
type refusal struct {
	status            int
	code, description string // clipped; may be empty
}

const (
	maxErrorCode        = 64
	maxErrorDescription = 200
)

func (r *refusal) Error() string {
	text := "answered " + statusText(r.status)
	if r.code != "" {
		text += fmt.Sprintf(", error %q", r.code)
	}
	if r.description != "" {
		text += fmt.Sprintf(", %q", r.description)
	}
	return text
}

// challengeErrors matches the parameters of a Bearer challenge that readRefusal
// reads. Their values have no quote and no backslash.
var challengeErrors = regexp.MustCompile(`(?:^|[\s,])(error|error_description)="([^"\\]*)"`)

// readRefusal reads error and error_description from the body of an answer, or else
// from its challenge, and nothing else.
func readRefusal(r *http.Request, resp *http.Response, body []byte) *refusal {
	var said struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &said) != nil || said.Code == "" {
		for _, found := range challengeErrors.FindAllStringSubmatch(resp.Header.Get("WWW-Authenticate"), -1) {
			if found[1] == "error" {
				said.Code = found[2]
			} else {
				said.Description = found[2]
			}
		}
	}
	return newRefusal(r, resp.StatusCode, said.Code, said.Description)
}

// newRefusal returns a refusal without the texts that contain a secret of the
// request.
func newRefusal(r *http.Request, status int, code, description string) *refusal {
	for _, secret := range secretsOf(r) {
		if secret != "" && strings.Contains(code, secret) {
			code = ""
		}
		if secret != "" && strings.Contains(description, secret) {
			description = ""
		}
	}
	return &refusal{status: status, code: clip(code, maxErrorCode), description: clip(description, maxErrorDescription)}
}

// secretsOf returns the secret values in a request.
func secretsOf(r *http.Request) []string {
	var secrets []string
	if _, credentials, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		secrets = append(secrets, credentials)
	}
	if _, password, ok := r.BasicAuth(); ok {
		secrets = append(secrets, password)
		if plain, err := url.QueryUnescape(password); err == nil { // RFC 6749, section 2.3.1
			secrets = append(secrets, plain)
		}
	}
	if r.GetBody == nil {
		return secrets
	}
	body, err := r.GetBody()
	if err != nil {
		return secrets
	}
	defer body.Close()
	raw, _ := io.ReadAll(body)
	form, _ := url.ParseQuery(string(raw))
	for _, name := range []string{"code", "code_verifier", "refresh_token", "token", "client_secret"} {
		secrets = append(secrets, form[name]...)
	}
	return secrets
}
