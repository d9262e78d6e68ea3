package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"golang.org/x/time/rate"
)

// OnDemand configures certificates that are ordered when a client asks for their
// name. Clients choose these names, so there are bounds: each order counts against
// the limits of the authority, also for the names in Options.Domains.
//
// The zero value orders nothing.
type OnDemand struct {
	// Permits reports whether a name, in lower case, may have a certificate. It is
	// called in handshakes.
	Permits func(name string) bool
	Names   int           // how many names may have one at once
	Burst   int           // how many orders may follow each other at once
	Every   time.Duration // after these, the time between two orders
}

const (
	// lookups is how often per second, and lookupBurst how often at once, the storage
	// is asked for new names.
	lookups     = 20
	lookupBurst = 100
	// demandTime bounds one attempt.
	demandTime = 2 * time.Minute
	// patience is how long a handshake waits for an attempt. Listeners end handshakes
	// after the same time.
	patience = 10 * time.Second
)

var (
	errTooManyNames  = errors.New("as many names as tls.on_demand.names have certificates")
	errTooManyOrders = errors.New("there were as many orders as tls.on_demand.burst and every allow")
	errNotYet        = errors.New("the certificate has been ordered and is not there yet")
	errTooManyAsk    = errors.New("clients ask for too many new names at once")
)

// demand gets certificates for the names for which clients ask.
type demand struct {
	OnDemand
	manager *Manager
	config  *certmagic.Config // of these names
	orders  *rate.Limiter
	looks   *rate.Limiter
	warn    rate.Sometimes
	ctx     context.Context // of the attempts
	cancel  context.CancelFunc
	ends    sync.WaitGroup // attempts

	mu    sync.Mutex
	names map[string]*attempt
}

// attempt is the latest attempt to get a certificate for a name.
type attempt struct {
	done chan struct{} // closed at its end; then the rest is set
	err  error
	next time.Time // when the next attempt may follow; zero: at once
}

func newDemand(m *Manager, o OnDemand, template certmagic.Config) *demand {
	d := &demand{
		OnDemand: o, manager: m,
		orders: rate.NewLimiter(rate.Every(o.Every), o.Burst), looks: rate.NewLimiter(lookups, lookupBurst),
		warn: rate.Sometimes{Interval: time.Minute}, names: map[string]*attempt{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	// certmagic renews these certificates when clients ask for them.
	template.DefaultServerName, template.FallbackServerName = "", ""
	template.OnDemand = &certmagic.OnDemandConfig{DecisionFunc: d.decide}
	d.config = certmagic.New(m.cache, template)
	d.config.Issuers = []certmagic.Issuer{m.issuer}
	return d
}

// permits reports whether a name may have a certificate without being configured.
func (d *demand) permits(name string) bool {
	return d.Permits != nil && hostname(name) && d.Permits(name)
}

// decide is for certmagic.OnDemandConfig, which asks it before a renewal.
func (d *demand) decide(_ context.Context, name string) error {
	if !d.permits(name) {
		return errors.New("no route names it")
	}
	return nil
}

// hostname reports whether an authority can certify name: its labels are those of
// host names (RFC 1123, section 2.1).
func hostname(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

// certify returns the certificate of a name that d permits. It waits for an order, but not
// longer than the client does: the order goes on without it.
func (d *demand) certify(hello *tls.ClientHelloInfo, name string) (*tls.Certificate, error) {
	if d.manager.current(name) == nil {
		a, err := d.attempt(name)
		if err != nil {
			return nil, err
		}
		select {
		case <-a.done:
		case <-hello.Context().Done():
			return nil, hello.Context().Err()
		case <-time.After(patience):
			return nil, errNotYet
		}
		if a.err != nil {
			return nil, fmt.Errorf("no certificate for %q: %w", name, a.err)
		}
	}
	return d.config.GetCertificate(hello)
}

// attempt returns the attempt for a name that is in progress, or begins one, unless
// the last one failed recently or there are too many.
func (d *demand) attempt(name string) (*attempt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.names[name]; a != nil {
		select {
		case <-a.done:
			if time.Now().Before(a.next) {
				return a, nil
			}
		default:
			return a, nil
		}
	} else if len(d.names) >= d.Names && !d.forget() {
		return nil, d.refuse(errTooManyNames)
	}
	if !d.looks.Allow() {
		return nil, d.refuse(errTooManyAsk)
	}
	if d.ctx.Err() != nil {
		return nil, d.ctx.Err()
	}
	a := &attempt{done: make(chan struct{})}
	d.names[name] = a
	d.ends.Go(func() { d.try(name, a) })
	return a, nil
}

// forget makes room for a name: it removes the names that have no valid
// certificate. It reports whether there were such names. The caller holds the lock.
func (d *demand) forget() bool {
	removed := false
	for name, a := range d.names {
		select {
		case <-a.done:
		default:
			continue
		}
		if time.Now().After(d.manager.expires(name)) && !time.Now().Before(a.next) {
			delete(d.names, name)
			removed = true
		}
	}
	return removed
}

// refuse logs that clients get no certificates for new names, and returns why.
func (d *demand) refuse(why error) error {
	d.warn.Do(func() {
		d.manager.logger.Warn("clients ask for names that have no certificate yet, and get none", "reason", why.Error())
	})
	return why
}

// try makes an attempt: it takes the certificate from the storage, or orders it.
func (d *demand) try(name string, a *attempt) {
	m := d.manager
	ctx, cancel := context.WithTimeout(d.ctx, demandTime)
	defer cancel()
	err := d.take(ctx, name)
	ordered := errors.Is(err, fs.ErrNotExist)
	switch {
	case ordered && !d.orders.Allow():
		ordered, err = false, d.refuse(errTooManyOrders)
	case ordered:
		if err = m.unrelated.config.ObtainCertSync(ctx, name); err == nil {
			err = m.load(ctx, name)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.err = err
	switch {
	case err == nil:
	case ordered && d.ctx.Err() == nil:
		a.next = time.Now().Add(refusedAfter)
		m.logger.Error("a certificate that a client asked for cannot be obtained; it is not ordered again for an hour",
			"domain", name, "error", err.Error())
	default:
		delete(d.names, name)
	}
	close(a.done)
}

// take takes the certificate of a name from the storage. It returns fs.ErrNotExist if
// there is none that can be used.
func (d *demand) take(ctx context.Context, name string) error {
	m := d.manager
	err := m.load(ctx, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || !m.torn(ctx, name) {
		return err
	}
	pause(ctx, retryAfter) // another instance may be writing the other half
	if err := m.load(ctx, name); err == nil || !m.torn(ctx, name) {
		return err
	}
	if err := m.mend(ctx, name); err != nil {
		return err
	}
	return fs.ErrNotExist
}

// stop ends the attempts.
func (d *demand) stop() {
	d.cancel()
	d.ends.Wait()
}
