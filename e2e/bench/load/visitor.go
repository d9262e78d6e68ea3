package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// Visitor asks a gateway as many clients do.
type Visitor struct {
	URL       string
	Transport http.RoundTripper
}

// Visitor returns clients of a server, which speak HTTP/1.1, HTTP/2 or HTTP/3.
func (g Generator) Visitor(url, protocol string) Visitor { return Visitor{url, g.transport(protocol)} }

// transport returns a client of one protocol.
func (g Generator) transport(protocol string) http.RoundTripper {
	config := &tls.Config{RootCAs: g.roots}
	if protocol == "HTTP/3" {
		return &http3.Transport{TLSClientConfig: config}
	}
	// As many connections are kept as there are clients. Otherwise each would open one for each request.
	t := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols), MaxIdleConnsPerHost: 1000}
	t.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	t.Protocols.SetHTTP2(protocol == "HTTP/2")
	return t
}

// Visit is a request: GET, or POST if it has a body.
type Visit struct {
	Method string // of a request without a body, if it is not GET
	Path   string
	From   string // the address that a proxy would name; default its own
	Cookie string
	Body   []byte
	JSON   bool // the body is JSON
}

// SignIn is a visit that signs a user in at a path.
func SignIn(path, username, password string) Visit {
	body, _ := json.Marshal(map[string]string{"username": username, "password": password}) // cannot fail
	return Visit{Path: path, Body: body, JSON: true}
}

// Ask returns how long the answer took, and its status.
func (v Visitor) Ask(ctx context.Context, what Visit) (time.Duration, int, error) {
	took, got, err := v.Answer(ctx, what)
	if err != nil {
		return 0, 0, err
	}
	return took, got.StatusCode, nil
}

// Answer returns how long the answer took, and the answer without its body.
func (v Visitor) Answer(ctx context.Context, what Visit) (time.Duration, *http.Response, error) {
	if what.Body != nil {
		what.Method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, what.Method, v.URL+what.Path, bytes.NewReader(what.Body))
	if err != nil {
		return 0, nil, err
	}
	if what.From != "" {
		r.Header.Set("X-Forwarded-For", what.From)
		r.Header.Set("X-Forwarded-Proto", "https")
	}
	if what.Cookie != "" {
		r.Header.Set("Cookie", what.Cookie)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if what.JSON {
		r.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	response, err := v.Transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return time.Since(began), response, errors.Join(err, response.Body.Close())
}

// Want sends a request, whose answer must have a status, and returns how long the answer took.
func (v Visitor) Want(ctx context.Context, status int, what Visit) (time.Duration, error) {
	took, got, err := v.Ask(ctx, what)
	if err == nil && got != status {
		err = fmt.Errorf("the answer is %d, want %d", got, status)
	}
	return took, err
}
