package upstream

import (
	"context"
	"net/http"
	"time"

	"authgate/gateway/upstream/http1"
)

// Start sends a plain request by the fast path; see http1.Client.Start.
func (b *Transport) Start(ctx context.Context, p *http1.Plain) (*http1.Response, http.RoundTripper) {
	u := b.upstream
	// The address is the next one's only if the request is sent: the other way, which
	// connects to it, must not find that it is the turn of another.
	t := u.order(u.next.Load() + 1)[0]
	client := b.transport.fast(t.url)
	if client == nil {
		return nil, nil
	}
	start := time.Now()
	response, rest := client.Start(ctx, start, t.url.Host, p)
	switch {
	case response != nil:
		u.next.Add(1)
		u.observe(start)
		return response, nil
	case rest != nil:
		u.next.Add(1)
		return nil, &started{upstream: u, target: t, rest: rest, start: start}
	}
	return nil, nil
}

// started is a request that the fast path has sent to a target, and whose
// response is still to come.
type started struct {
	upstream *Upstream
	target   *target
	rest     http.RoundTripper
	start    time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *started) RoundTrip(r *http.Request) (*http.Response, error) {
	defer s.upstream.observe(s.start)
	r.URL.Scheme, r.URL.Host = s.target.url.Scheme, s.target.url.Host
	response, err := valid(s.rest.RoundTrip(r))
	if err != nil {
		return nil, &Error{Upstream: s.upstream.name, Err: err}
	}
	return response, nil
}
