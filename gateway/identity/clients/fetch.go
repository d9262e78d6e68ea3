package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/section"
	"authgate/gateway/identity/auth"
	"authgate/gateway/store/lru"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

const (
	fetchTime    = 5 * time.Second // for one document
	maxDocument  = 16 << 10
	maxURL       = 2048
	cached       = 1000 // documents, as many that users have allowed something, and as many failures
	freshAtLeast = time.Minute
	freshUsually = 5 * time.Minute // without Cache-Control
	freshAtMost  = 24 * time.Hour
	failedFor    = 10 * time.Second
	usedAtMost   = 24 * time.Hour // while there is no answer
)

// fetcher fetches documents of clients.
type fetcher struct {
	check   func(address string) error // why a document is not fetched from an address
	http    *http.Client
	timeout time.Duration
	limits  *limits // nil: the operator has chosen the addresses
}

// newFetcher returns a fetcher of documents that everybody can name. It resolves names with
// resolver; nil means that of the system.
func newFetcher(m *config.OAuthMetadataClients, now func() time.Time, resolver *net.Resolver) (*fetcher, error) {
	roots, err := section.RootsWith(m.TrustedRootsContent)
	if err != nil {
		return nil, fmt.Errorf("oauth.metadata_clients.trusted_roots: %w", err)
	}
	dialer := &net.Dialer{Resolver: resolver}
	if len(m.Hosts) == 0 {
		dialer.Control = newAddresses().control
	}
	return &fetcher{
		check:   func(address string) error { return checkURL(m.Hosts, address) },
		timeout: fetchTime, limits: newLimits(now),
		// Without a proxy: one would connect to the addresses that must not be reached.
		http: newHTTP(&http.Transport{DialContext: dialer.DialContext}, roots),
	}, nil
}

// newOwnFetcher returns a fetcher of documents whose addresses the operator has chosen, from servers that
// these roots vouch for; nil: those of the system.
func newOwnFetcher(roots *x509.CertPool) *fetcher {
	return &fetcher{
		check: func(string) error { return nil }, timeout: fetchTime,
		http: newHTTP(&http.Transport{Proxy: http.ProxyFromEnvironment}, roots),
	}
}

// newHTTP returns a client that fetches documents by a transport. It trusts servers of these roots;
// nil: the roots of the system.
func newHTTP(transport *http.Transport, roots *x509.CertPool) *http.Client {
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	transport.DisableKeepAlives, transport.DisableCompression = true, true
	transport.MaxResponseHeaderBytes, transport.TLSHandshakeTimeout = maxDocument, fetchTime
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// checkURL returns why a document is not fetched from an address. If there are hosts, it must be at
// one of them.
func checkURL(hosts []string, address string) error {
	u, err := url.Parse(address)
	dots := func(segment string) bool { return segment == "." || segment == ".." }
	invisible := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	switch {
	case err != nil || len(address) > maxURL || strings.ContainsFunc(address, invisible):
		return errors.New("is not a URL")
	case u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "":
		return errors.New("is not an https URL")
	case u.User != nil || strings.Contains(address, "#") || strings.Contains(address, `\`):
		return errors.New("has a user name, a fragment or a backslash")
	case u.Path == "" || u.Path == "/":
		return errors.New("has no path")
	case slices.ContainsFunc(strings.Split(u.Path, "/"), dots):
		return errors.New("has a dot segment")
	}
	host, err := policy.CanonicalHost(u.Host)
	if err != nil {
		return err
	}
	if len(hosts) > 0 && !slices.Contains(hosts, strings.Trim(host, "[]")) {
		return errors.New("is not at one of oauth.metadata_clients.hosts")
	}
	return nil
}

// fetch returns the document at an address, and for how long it is fresh. The error is
// ErrUnreachable if there is no answer, and ErrUnknown if the answer is no document.
func (f *fetcher) fetch(ctx context.Context, address string) (body []byte, fresh time.Duration, err error) {
	if f.limits != nil {
		release, err := f.limits.fetch(ctx, address)
		if err != nil {
			return nil, 0, err
		}
		defer release()
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, unknown(address, err)
	}
	request.Header.Set("Accept", jose.KeySetTypes) // of documents, too
	response, err := f.http.Do(request)
	if err != nil {
		return nil, 0, unreachable(address, err)
	}
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		return nil, 0, unreachable(address, fmt.Errorf("the answer has the status %d", status))
	case status != http.StatusOK:
		return nil, 0, unknown(address, fmt.Errorf("the answer has the status %d; redirects are not followed", status))
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err == nil {
		err = ctx.Err() // a site that is given up may end its document before the connection is closed
	}
	switch {
	case err != nil:
		return nil, 0, unreachable(address, err)
	case len(body) > maxDocument:
		return nil, 0, unknown(address, fmt.Errorf("the document is longer than %d bytes", maxDocument))
	}
	return body, freshFor(response.Header), nil
}

func unknown(address string, cause error) error {
	return fmt.Errorf("%w: the document %s: %w", ErrUnknown, address, cause)
}

func unreachable(address string, cause error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, address, cause)
}

// freshFor returns for how long an answer is fresh by its Cache-Control (RFC 9111, section
// 5.2.2), within bounds.
func freshFor(header http.Header) time.Duration {
	fresh := freshUsually
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return freshAtLeast
		case "max-age":
			if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				fresh = time.Duration(seconds) * time.Second
			}
		}
	}
	return min(max(fresh, freshAtLeast), freshAtMost)
}

// remote keeps the values that were read from documents.
type remote[T any] struct {
	fetcher *fetcher
	read    func(address string, body []byte) (T, error) // an error means that there is no such client
	now     func() time.Time

	good   *lru.Cache[string, kept[T]]
	used   *lru.Cache[string, kept[T]] // of clients that a user has allowed something
	failed *lru.Cache[string, failure]

	mu      sync.Mutex
	flights map[string]*flight[T] // by address
}

// flight is a fetch. Who begins it counts for it, and others who want the document wait for it:
// singleflight does not tell them apart.
type flight[T any] struct {
	done  chan struct{} // closed at its end
	value T
	err   error
}

// kept is the value that was read from a document.
type kept[T any] struct {
	value          T
	fetched, fresh time.Time // fresh until then
}

// failure is why there was no document.
type failure struct {
	err   error
	until time.Time
}

func newRemote[T any](f *fetcher, now func() time.Time, read func(string, []byte) (T, error)) *remote[T] {
	return &remote[T]{
		fetcher: f, read: read, now: now, flights: map[string]*flight[T]{},
		good: lru.New[string, kept[T]](cached), used: lru.New[string, kept[T]](cached),
		failed: lru.New[string, failure](cached),
	}
}

// keep makes sure that the document at an address is not forgotten for those that strangers name.
func (r *remote[T]) keep(address string) {
	if known, found := r.good.Get(address); found {
		r.used.Add(address, known)
		r.good.Remove(address)
	}
}

// cachedDocument returns the value of the document at an address, if it was fetched before.
func (r *remote[T]) cachedDocument(address string) (kept[T], bool) {
	if known, found := r.used.Get(address); found {
		return known, true
	}
	return r.good.Get(address)
}

// get returns the value of the document at an address, fetched not before since, for a client of the
// gateway that asks for it. While there is no answer, it is that of the last answer, for up to a
// day. An answer that is no document ends it.
func (r *remote[T]) get(
	ctx context.Context, address string, client netip.Addr, since time.Time,
) (value T, err error) {
	if err := r.fetcher.check(address); err != nil {
		return value, unknown(address, err)
	}
	now := r.now()
	known, found := r.cachedDocument(address)
	fresh := found && now.Before(known.fresh) && !known.fetched.Before(since)
	failed, tried := r.failed.Get(address)
	switch {
	case fresh:
		return known.value, nil
	case tried && now.Before(failed.until):
		err = failed.err
	default:
		if value, err = r.share(ctx, address, client); err == nil {
			return value, nil
		}
	}
	_, refused := errors.AsType[*auth.StartsError](err)
	if (refused || errors.Is(err, ErrUnreachable)) && found && now.Sub(known.fetched) < usedAtMost {
		return known.value, nil
	}
	return value, err
}

// share waits for the fetch of a document, which it begins unless it is in progress already. A caller
// who leaves does not end a fetch that others wait for.
func (r *remote[T]) share(ctx context.Context, address string, client netip.Addr) (value T, err error) {
	r.mu.Lock()
	f := r.flights[address]
	r.mu.Unlock()
	if f == nil {
		release := func() {}
		if r.fetcher.limits != nil {
			if release, err = r.fetcher.limits.ask(ctx, client); err != nil {
				return value, err
			}
		}
		f = r.beginFetch(context.WithoutCancel(ctx), address, release)
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// beginFetch begins a fetch, which calls release at its end. If another caller was faster, it is theirs.
func (r *remote[T]) beginFetch(ctx context.Context, address string, release func()) *flight[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.flights[address]; other != nil {
		release()
		return other
	}
	f := &flight[T]{done: make(chan struct{})}
	r.flights[address] = f
	go func() {
		defer close(f.done)
		defer release()
		f.value, f.err = r.renew(ctx, address)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.flights, address)
	}()
	return f
}

// renew fetches the document at an address, and keeps it.
func (r *remote[T]) renew(ctx context.Context, address string) (value T, err error) {
	body, fresh, err := r.fetcher.fetch(ctx, address)
	if err == nil {
		if value, err = r.read(address, body); err != nil {
			err = unknown(address, err)
		}
	}
	now := r.now()
	switch {
	case err == nil:
		r.failed.Remove(address)
		all := r.good
		if r.used.Contains(address) {
			all = r.used
		}
		all.Add(address, kept[T]{value, now, now.Add(fresh)})
	case !errors.Is(err, errCrowded): // which says nothing about the document
		r.failed.Add(address, failure{err, now.Add(failedFor)})
		if !errors.Is(err, ErrUnreachable) {
			r.good.Remove(address)
			r.used.Remove(address)
		}
	}
	return value, err
}
