package upstream

import (
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
)

// idlePerHost is how many idle connections are kept to each address.
const idlePerHost = 256

// Metrics counts events of an upstream.
type Metrics interface {
	Retried()             // a request was sent again
	Checked(healthy bool) // an active check ended
}

// Options are the parts of an Upstream. All are required.
type Options struct {
	Name            string
	Config          forwarding.Upstream
	Headers         *IdentityHeaders
	Took            prometheus.Observer // observes the seconds until the response header
	Metrics         Metrics
	Logger          *slog.Logger
	Now             func() time.Time
	FreeDescriptors func() // called when there is none left for a connection
}

// Upstream is an application behind the gateway: its targets and the connections
// to them. A reload that does not change it keeps it. It is safe for concurrent
// use.
type Upstream struct {
	name            string
	config          forwarding.Upstream
	headers         *IdentityHeaders
	targets         []*target
	next            atomic.Uint64
	budget          budget
	checks          watch
	took            prometheus.Observer
	metrics         Metrics
	log             *slog.Logger
	now             func() time.Time
	started         time.Time
	freeDescriptors func()
	strays          http1.Strays

	mu         sync.Mutex
	transports map[time.Duration]*transport // by their time limit for the response header
}

// New returns an upstream. It opens no connection.
func New(o Options) *Upstream {
	u := &Upstream{
		name: o.Name, config: o.Config, headers: o.Headers, took: o.Took, metrics: o.Metrics, log: o.Logger,
		now: o.Now, started: o.Now(), freeDescriptors: o.FreeDescriptors, transports: map[time.Duration]*transport{},
	}
	u.strays.Report = func() {
		u.log.Error("the upstream has sent bytes that belong to no response: it may leave bodies of requests unread, "+
			"or send more than it announces. From now on each request with a body has a connection of its own, "+
			"and others wait before they are used again; "+
			"reuse_connections: false gives every request its own", "upstream", u.name)
	}
	for _, address := range o.Config.URLs {
		u.targets = append(u.targets, newTarget(address, o.Config.Host))
	}
	return u
}

// Same reports whether New would return an equal upstream for this
// configuration. If so, a reload keeps u with its idle connections.
func (u *Upstream) Same(cfg forwarding.Upstream, headers *IdentityHeaders) bool {
	return reflect.DeepEqual(u.config, cfg) && u.headers.same(headers)
}

// Headers returns the headers that carry an identity to the upstream.
func (u *Upstream) Headers() *IdentityHeaders { return u.headers }

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
		t = newTransport(u.config, timeout, &u.strays, u.freeDescriptors)
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

// observe measures the time until the header of a response.
func (u *Upstream) observe(start time.Time) { u.took.Observe(time.Since(start).Seconds()) }

// elapsed returns the time since the upstream was made. It does not change when
// the wall clock is set.
func (u *Upstream) elapsed() time.Duration { return u.now().Sub(u.started) }
