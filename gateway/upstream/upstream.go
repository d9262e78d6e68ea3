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
	// idlePerHost connections are kept open to each address of an upstream.
	idlePerHost = 256
	// restAfterFailure is how long an address that refused a connection is
	// passed over while others answer.
	restAfterFailure = 5 * time.Second
)

// Upstream is an application behind the gateway: one or more addresses and
// the connections to them. It outlives reloads that do not change it.
type Upstream struct {
	name    string
	config  config.Upstream
	headers *IdentityHeaders
	targets []*target
	next    atomic.Uint64
	took    prometheus.Observer // time until the response header
	now     func() time.Time
	started time.Time

	short func() // frees file descriptors when there are none left

	mu sync.Mutex
	// transports by their time limit for the response header, which belongs
	// to a transport.
	transports map[time.Duration]*transport
}

// target is one address of an upstream.
type target struct {
	url     *url.URL
	resting atomic.Int64 // until when, by upstream.elapsed
}

// Options are what an Upstream is made of.
type Options struct {
	Name    string
	Config  config.Upstream
	Headers *IdentityHeaders
	Took    prometheus.Observer // time until the response header
	Now     func() time.Time
	Short   func() // frees file descriptors when there are none left
}

// New returns an upstream. It opens no connection.
func New(o Options) *Upstream {
	u := &Upstream{
		name: o.Name, config: o.Config, headers: o.Headers, took: o.Took, now: o.Now, short: o.Short,
		transports: map[time.Duration]*transport{},
	}
	for _, address := range o.Config.URLs {
		u.targets = append(u.targets, &target{url: address})
	}
	u.started = o.Now()
	return u
}

// Same reports whether u was made from this configuration, so that its warm
// connections can be kept.
func (u *Upstream) Same(cfg config.Upstream, headers *IdentityHeaders) bool {
	return reflect.DeepEqual(u.config, cfg) && u.headers.same(headers)
}

// Headers are the headers that carry an identity to the upstream.
func (u *Upstream) Headers() *IdentityHeaders { return u.headers }

// Cleartext reports whether all addresses are reached by plain HTTP.
func (u *Upstream) Cleartext() bool {
	return !slices.ContainsFunc(u.targets, func(t *target) bool { return t.url.Scheme != "http" })
}

// Through returns what sends requests to the upstream and gives the response
// header timeout's time to arrive; 0 means the upstream's own.
func (u *Upstream) Through(timeout time.Duration) http.RoundTripper {
	if timeout == 0 {
		timeout = u.config.Timeout
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t, ok := u.transports[timeout]
	if !ok {
		t = newTransport(u.config, timeout, u.short)
		u.transports[timeout] = t
	}
	return &balancer{upstream: u, transport: t}
}

// CloseIdle drops the connections that are idle; those in use end by themselves.
func (u *Upstream) CloseIdle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.transports {
		t.CloseIdleConnections()
	}
}

// balancer sends each request to the next address of an upstream that is not
// resting. When a connection cannot be made nothing was sent, so the next
// address is tried.
type balancer struct {
	upstream  *Upstream
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper. Its errors are *Error.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	u := b.upstream
	restore := func() {}
	if len(u.targets) > 1 {
		var err error
		if restore, err = keepBody(r); err != nil {
			return nil, &Error{Upstream: u.name, Err: err}
		}
	}
	start := time.Now()
	defer func() { u.took.Observe(time.Since(start).Seconds()) }()
	first := u.next.Add(1)
	var failed error
	for _, t := range u.order(first) {
		restore()
		r.URL.Scheme, r.URL.Host = t.url.Scheme, t.url.Host
		response, err := b.transport.RoundTrip(r)
		if err == nil && response.StatusCode < 100 {
			response.Body.Close()
			err = fmt.Errorf("the response has the status %03d, which there is not", response.StatusCode)
		}
		if err == nil {
			return response, nil
		}
		failed = &Error{Upstream: u.name, Err: err}
		var dial *net.OpError
		if r.Context().Err() != nil || !errors.As(err, &dial) || dial.Op != "dial" || conn.Short(err) {
			break
		}
		t.resting.Store(int64(u.elapsed() + restAfterFailure))
	}
	return nil, failed
}

// elapsed is how long the upstream exists: a rest goes by this, so that it ends
// in time when the wall clock is set.
func (u *Upstream) elapsed() time.Duration { return u.now().Sub(u.started) }

// Failure marks an error of the proxy as the upstream's, as those of RoundTrip
// are already: it switched to a protocol that nobody asked for, for instance.
func (u *Upstream) Failure(err error) error {
	var marked *Error
	if errors.As(err, &marked) {
		return err
	}
	return &Error{Upstream: u.name, Err: err}
}

// order returns the targets from the one whose turn it is, those that rest
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
