package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/conn"
)

const (
	// idlePerHost is how many idle connections are kept to each address.
	idlePerHost = 256
	// restAfterFailure is how long an address that refused a connection rests: the
	// balancer tries it only after all others.
	restAfterFailure = 5 * time.Second
)

// Options are the parts of an Upstream. All are required.
type Options struct {
	Name            string
	Config          config.Upstream
	Headers         *IdentityHeaders
	Took            prometheus.Observer // observes the seconds until the response header
	Now             func() time.Time
	FreeDescriptors func() // called when there is none left for a connection
}

// Upstream is an application behind the gateway: its addresses and the
// connections to them. A reload that does not change it keeps it. It is safe
// for concurrent use.
type Upstream struct {
	name            string
	config          config.Upstream
	headers         *IdentityHeaders
	targets         []*target
	next            atomic.Uint64
	took            prometheus.Observer
	now             func() time.Time
	started         time.Time
	freeDescriptors func()

	mu         sync.Mutex
	transports map[time.Duration]*transport // by their time limit for the response header
}

// target is one address of an upstream.
type target struct {
	url     *url.URL
	resting atomic.Int64 // until when it rests, in nanoseconds of Upstream.elapsed
}

// New returns an upstream. It opens no connection.
func New(o Options) *Upstream {
	u := &Upstream{
		name: o.Name, config: o.Config, headers: o.Headers, took: o.Took, now: o.Now, started: o.Now(), freeDescriptors: o.FreeDescriptors,
		transports: map[time.Duration]*transport{},
	}
	for _, address := range o.Config.URLs {
		u.targets = append(u.targets, &target{url: address})
	}
	return u
}

// Same reports whether New would return an equal upstream for this
// configuration. If so, a reload keeps u with its idle connections.
func (u *Upstream) Same(cfg config.Upstream, headers *IdentityHeaders) bool {
	return reflect.DeepEqual(u.config, cfg) && u.headers.same(headers)
}

// Headers returns the headers that carry an identity to the upstream.
func (u *Upstream) Headers() *IdentityHeaders { return u.headers }

// Cleartext reports whether all addresses are http URLs.
func (u *Upstream) Cleartext() bool {
	return !slices.ContainsFunc(u.targets, func(t *target) bool { return t.url.Scheme != "http" })
}

// Transport returns the way to the upstream. timeout is how long the header of a
// response may take; 0 means the upstream's own limit.
func (u *Upstream) Transport(timeout time.Duration) *Transport {
	if timeout == 0 {
		timeout = u.config.Timeout
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t, ok := u.transports[timeout]
	if !ok {
		t = newTransport(u.config, timeout, u.freeDescriptors)
		u.transports[timeout] = t
	}
	return &Transport{upstream: u, transport: t}
}

// CloseIdle closes the idle connections.
func (u *Upstream) CloseIdle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.transports {
		t.CloseIdleConnections()
	}
}

// Failure returns err as an *Error of the upstream. httputil.ReverseProxy finds
// some failures itself, such as a protocol that was not asked for.
func (u *Upstream) Failure(err error) error {
	var failure *Error
	if errors.As(err, &failure) {
		return err
	}
	return &Error{Upstream: u.name, Err: err}
}

// Transport sends each request to the next address of an upstream that is not
// resting, and to the one after that if it cannot connect. All its errors are of
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
	defer u.observe(time.Now())
	var failure error
	for _, t := range u.order(u.next.Add(1)) {
		restore()
		response, err := b.send(r, t)
		if err == nil {
			return response, nil
		}
		failure = &Error{Upstream: u.name, Err: err}
		if r.Context().Err() != nil || !unreachable(err) {
			break
		}
		t.resting.Store(int64(u.elapsed() + restAfterFailure))
	}
	return nil, failure
}

// send sends a request to one address.
func (b *Transport) send(r *http.Request, t *target) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = t.url.Scheme, t.url.Host
	return valid(b.transport.RoundTrip(r))
}

// valid refuses a response whose status no client accepts.
func valid(response *http.Response, err error) (*http.Response, error) {
	if err == nil && response.StatusCode < 100 {
		response.Body.Close()
		return nil, fmt.Errorf("the status %03d of the response is not valid", response.StatusCode)
	}
	return response, err
}

// observe measures the time until the header of a response.
func (u *Upstream) observe(start time.Time) { u.took.Observe(time.Since(start).Seconds()) }

// unreachable reports whether err means that the address does not accept
// connections. A lack of file descriptors is a fault of this machine.
func unreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !conn.OutOfDescriptors(err)
}

// elapsed returns the time since the upstream was made. It does not change when
// the wall clock is set.
func (u *Upstream) elapsed() time.Duration { return u.now().Sub(u.started) }

// order returns all targets, beginning with number first. Resting targets come
// last.
func (u *Upstream) order(first uint64) []*target {
	if len(u.targets) == 1 {
		return u.targets
	}
	now := int64(u.elapsed())
	ready := make([]*target, 0, len(u.targets))
	var resting []*target
	for i := range u.targets {
		t := u.targets[(first+uint64(i))%uint64(len(u.targets))]
		if t.resting.Load() > now {
			resting = append(resting, t)
		} else {
			ready = append(ready, t)
		}
	}
	return append(ready, resting...)
}
