package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"
)

// idlePerHost is how many connections the clients of tests keep.
const idlePerHost = 256

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns a client with that dialer.
func newClient(dial dialFunc, timeout time.Duration) *Client {
	return New(Options{
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			if _, _, err := net.SplitHostPort(address); err != nil {
				address += ":80"
			}
			return dial(ctx, "tcp", address)
		},
		Timeout: timeout, MaxIdle: idlePerHost,
	})
}

// fixture is a client of one upstream.
type fixture struct {
	*Client
	url string
}

func newFixture(t testing.TB, timeout time.Duration, url string) *fixture {
	t.Helper()
	f := &fixture{newClient((&net.Dialer{}).DialContext, timeout), url}
	t.Cleanup(f.CloseIdleConnections)
	return f
}

// send sends a request as the proxy does, and returns the body of the response.
func (f *fixture) send(ctx context.Context, method string, body io.Reader) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, f.url, body)
	if err != nil {
		return "", err
	}
	r.URL = &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Opaque: "/a%20b", RawQuery: "c=%zz"}
	response, err := f.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

// statusOf returns the status with which the gateway answers an error.
func statusOf(err error) int {
	var network net.Error
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, context.Canceled):
		return 499
	case errors.As(err, &network) && network.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// effort returns how many requests a stress test makes: few, or AUTHGATE_STRESS.
func effort(t testing.TB, few int) int {
	t.Helper()
	many := os.Getenv("AUTHGATE_STRESS")
	if many == "" {
		return few
	}
	n, err := strconv.Atoi(many)
	if err != nil || n <= 0 {
		t.Fatalf("AUTHGATE_STRESS=%s: expected a number of requests", many)
	}
	return n
}

func newServer(t testing.TB, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return s
}
