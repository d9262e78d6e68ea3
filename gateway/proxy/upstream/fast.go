package upstream

import (
	"context"
	"net/http"
	"time"

	"authgate/gateway/proxy/upstream/http1"
)

// Start sends a plain request by the fast path; see http1.Client.Start. It changes
// p to a request for the target.
//
// It returns the response if that comes at once and is plain too. Otherwise one RoundTrip
// of the second result gets it: that goes on with the request, or sends it if nothing was
// sent.
func (b *Transport) Start(ctx context.Context, p *http1.Plain) (*http1.Response, http.RoundTripper) {
	u := b.upstream
	t := u.first(ctx)
	several := len(u.targets) > 1
	if several {
		t.inFlight.Add(1)
	}
	response, rest := b.start(ctx, t, p)
	switch {
	case rest != nil:
		return nil, rest
	case response == nil:
		u.next.Add(^uint64(0)) // nothing was sent: RoundTrip, which connects to it, has the same turn
		rest = b
	case several && response.Body == nil:
		context.AfterFunc(ctx, func() { t.inFlight.Add(-1) }) // its body is still to come
		return response, nil
	}
	if several {
		t.inFlight.Add(-1)
	}
	return response, rest
}

// first returns the target that has the turn. It is not inlined, because the buffer would be on the
// stack while the request is sent, and the stack would grow; see docs/decisions/0009.
//
//go:noinline
func (u *Upstream) first(ctx context.Context) *target {
	var buffer [usualTargets]choice
	return u.order(ctx, buffer[:0], u.next.Add(1))[0].target
}

// start sends a plain request to a target. It returns neither if nothing was sent.
func (b *Transport) start(ctx context.Context, t *target, p *http1.Plain) (*http1.Response, http.RoundTripper) {
	client := b.transport.fast(t)
	if client == nil {
		return nil, nil
	}
	if t.prefix != "" {
		p.Path = t.prefix + p.Path
	}
	if t.host != "" {
		p.Host = t.host
	}
	u, start := b.upstream, time.Now()
	response, rest := client.Start(ctx, start, t.dial, p)
	switch {
	case response != nil:
		u.budget.earn()
		u.observe(start)
		u.succeeded(t)
		return response, nil
	case rest != nil:
		u.budget.earn()
		return nil, &started{way: b, target: t, rest: rest, start: start}
	}
	return nil, nil
}

// started is a request that the fast path has sent to a target, and whose
// response is still to come.
type started struct {
	way    *Transport
	target *target
	rest   http.RoundTripper
	start  time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *started) RoundTrip(r *http.Request) (*http.Response, error) {
	u, several := s.way.upstream, len(s.way.upstream.targets) > 1
	defer u.observe(s.start)
	a := attempts{
		way: s.way, request: r, path: r.URL.Opaque, restore: func() {},
		start: s.start, left: u.config.Retries,
	}
	s.target.address(r, a.path)
	response, err := valid(s.way.transport.finish(r, s.rest))
	if err == nil {
		if several {
			s.target.hold(response)
		}
		u.succeeded(s.target)
		return response, nil
	}
	if several {
		s.target.inFlight.Add(-1)
	}
	if !a.more(s.target, err, len(u.targets)-1) {
		return nil, &Error{Upstream: u.name, Err: err}
	}
	var others []choice
	for _, c := range u.order(r.Context(), nil, u.next.Load()) {
		if c.target != s.target {
			others = append(others, c)
		}
	}
	return a.run(others)
}
