package upstream

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/webdav"
)

// Transport sends each request to a target of an upstream, and to another one if
// it cannot connect, or if the request may be sent again. All its errors are of
// type *Error.
type Transport struct {
	upstream  *Upstream
	transport *transport
}

// RoundTrip implements http.RoundTripper.
func (b *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	u := b.upstream
	restore := func() {}
	if len(u.targets) > 1 {
		var err error
		if restore, err = keepBody(r); err != nil {
			return nil, &Error{Upstream: u.name, Err: err}
		}
	}
	start := time.Now()
	defer u.observe(start)
	u.budget.earn()
	a := attempts{way: b, request: r, path: r.URL.Opaque, restore: restore, start: start, left: u.config.Retries}
	a.named = namedOf(r)
	var buffer [usualTargets]choice
	return a.run(u.order(r.Context(), buffer[:0], u.next.Add(1)))
}

// attempts are the attempts to send one request.
type attempts struct {
	way     *Transport
	request *http.Request
	path    string // that the proxy asks for
	named   *webdav.Named
	restore func() // restores the body
	start   time.Time
	left    int  // how often the request may be sent again
	again   bool // it was sent before
}

// run tries targets until one answers, or the request must not be sent any more.
func (a *attempts) run(targets []choice) (*http.Response, error) {
	u := a.way.upstream
	var failure error
	for i, c := range targets {
		a.restore()
		response, err := a.send(c.target)
		if err == nil {
			return response, nil
		}
		failure = &Error{Upstream: u.name, Err: err}
		if !a.more(c.target, err, len(targets)-1-i) {
			break
		}
	}
	return nil, failure
}

// send sends the request to a target.
func (a *attempts) send(t *target) (*http.Response, error) {
	u, r := a.way.upstream, a.request
	t.address(r, a.path)
	if a.named != nil {
		a.named.SetHeader(r.Header, t.base(r.Host))
	}
	several := len(u.targets) > 1
	if several {
		t.inFlight.Add(1)
	}
	response, err := valid(a.way.transport.roundTrip(r, a.again))
	if err != nil {
		if several {
			t.inFlight.Add(-1)
		}
		return nil, err
	}
	if several {
		t.hold(response)
	}
	u.succeeded(t)
	return response, nil
}

// more notes that the request failed at a target. It reports whether one of the
// others is tried: because nothing was sent, or because the request may be sent
// again and the budget allows it. All attempts begin within the time limit of the
// upstream.
func (a *attempts) more(t *target, err error, others int) bool {
	u := a.way.upstream
	if blames(a.request, err) {
		u.failed(t, err)
	}
	switch {
	case others == 0, a.request.Context().Err() != nil, time.Since(a.start) >= a.way.transport.limit:
		return false
	case unreachable(err):
		return true
	case a.left == 0 || !http1.Repeats(a.request, err) || !u.budget.spend():
		return false
	}
	a.left, a.again = a.left-1, true
	u.metrics.Retried()
	return true
}

// valid refuses a response whose status no client accepts. A 204 or 304 has no body,
// also if it announces a length (RFC 9110, section 8.6).
func valid(response *http.Response, err error) (*http.Response, error) {
	if err == nil && (response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified) {
		response.Body.Close()
		response.Body, response.ContentLength = http.NoBody, 0
		response.Header.Del("Content-Length")
	}
	if err == nil && response.StatusCode < 100 {
		response.Body.Close()
		return nil, fmt.Errorf("the status %03d of the response is not valid", response.StatusCode)
	}
	return response, err
}

const (
	// requestsPerRetry is how many requests pay for one retry, and mostRetries is how
	// many retries can be saved. So retries add at most a fifth to the load of an
	// upstream that is failing, after a first burst.
	requestsPerRetry = 5
	mostRetries      = 20
)

// budget bounds retries by the number of requests.
type budget struct{ spent atomic.Int64 } // in requests; 0: it is full

// earn counts a request.
func (b *budget) earn() {
	if n := b.spent.Load(); n > 0 {
		b.spent.CompareAndSwap(n, n-1) // a lost race costs a fifth of a retry
	}
}

// spend takes one retry, if there is one.
func (b *budget) spend() bool {
	if b.spent.Add(requestsPerRetry) <= mostRetries*requestsPerRetry {
		return true
	}
	b.spent.Add(-requestsPerRetry)
	return false
}
