package rig

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"authgate/gateway/proxy/upstream/http1"
)

// Upstream answers every request without a network, and remembers the newest one.
type Upstream struct {
	newest atomic.Pointer[http.Request] // nil: none has reached the upstream
	asked  atomic.Int64

	// Answer answers requests; nil: with 200 "hello".
	Answer func(*http.Request) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.newest.Store(r)
	u.asked.Add(1)
	if u.Answer != nil {
		return u.Answer(r)
	}
	return Response(r, http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, "hello"), nil
}

// Last returns the newest request that reached the upstream.
func (u *Upstream) Last() *http.Request { return u.newest.Load() }

// LastUser implements application.
func (u *Upstream) LastUser() string { return u.Last().Header.Get("X-Auth-User") }

// Reached implements application.
func (u *Upstream) Reached() int { return int(u.asked.Load()) }

// Forget makes Reached count from 0 again.
func (u *Upstream) Forget() { u.asked.Store(0) }

// FastUpstream is an Upstream that has the fast path, too. It sends nothing by it.
type FastUpstream struct {
	*Upstream
	Begun func(context.Context, *http1.Plain) // is called by each request that could be sent so
}

// Start implements the fast path of package forward.
func (f *FastUpstream) Start(ctx context.Context, p *http1.Plain) (*http1.Response, http.RoundTripper) {
	f.Begun(ctx, p)
	return nil, f.Upstream
}

// Response returns an answer of an upstream.
func Response(r *http.Request, status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: header, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
