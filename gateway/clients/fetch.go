package clients

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"authgate/gateway/config"
	"authgate/gateway/config/section"
	"authgate/gateway/lru"
	"authgate/policy"
)

const (
	fetchTime    = 5 * time.Second // for one document
	maxDocument  = 16 << 10
	maxFetches   = 16 // at a time
	maxURL       = 2048
	cached       = 1000 // documents, and as many failures
	freshAtLeast = time.Minute
	freshUsually = 5 * time.Minute // without Cache-Control
	freshAtMost  = 24 * time.Hour
	failedFor    = 10 * time.Second
	usedAtMost   = 24 * time.Hour // while there is no answer
)

// fetcher fetches documents of clients, which everybody can name.
type fetcher struct {
	hosts   []string // the only ones; empty: all with public addresses
	http    *http.Client
	timeout time.Duration
	slots   chan struct{}
}

// newFetcher returns a fetcher that resolves names with resolver; nil means that of the system.
func newFetcher(m *config.OAuthMetadataClients, resolver *net.Resolver) (*fetcher, error) {
	roots, err := section.RootsWith(m.TrustedRootsContent)
	if err != nil {
		return nil, fmt.Errorf("oauth.metadata_clients.trusted_roots: %w", err)
	}
	dialer := &net.Dialer{Resolver: resolver}
	if len(m.Hosts) == 0 {
		dialer.Control = newAddresses().control
	}
	return &fetcher{
		hosts: m.Hosts, timeout: fetchTime, slots: make(chan struct{}, maxFetches),
		http: &http.Client{
			// Without a proxy: one would connect to the addresses that must not be reached.
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxDocument,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// checkURL returns why a document is not fetched from an address.
func (f *fetcher) checkURL(address string) error {
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
	if len(f.hosts) > 0 && !slices.Contains(f.hosts, strings.Trim(host, "[]")) {
		return errors.New("is not at one of oauth.metadata_clients.hosts")
	}
	return nil
}

// fetch returns the document at an address, and for how long it is fresh. The error is
// ErrUnreachable if there is no answer, and ErrUnknown if the answer is no document.
func (f *fetcher) fetch(ctx context.Context, address string) (body []byte, fresh time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return nil, 0, unreachable(address, errors.New("too many other documents are being fetched"))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, unknown(address, err)
	}
	request.Header.Set("Accept", "application/json")
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

// remote keeps what was made of documents.
type remote[T any] struct {
	fetcher *fetcher
	read    func(address string, body []byte) (T, error) // an error means that there is no such client
	now     func() time.Time

	good    *lru.Cache[string, kept[T]]
	failed  *lru.Cache[string, failure]
	flights singleflight.Group
}

// kept is what was made of a document.
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
		fetcher: f, read: read, now: now, good: lru.New[string, kept[T]](cached), failed: lru.New[string, failure](cached),
	}
}

// get returns what is made of the document at an address, fetched not before since. While
// there is no answer, it is that of the last answer, for up to a day. An answer that is no
// document ends it.
func (r *remote[T]) get(ctx context.Context, address string, since time.Time) (value T, err error) {
	if err := r.fetcher.checkURL(address); err != nil {
		return value, unknown(address, err)
	}
	now := r.now()
	known, found := r.good.Get(address)
	if found && now.Before(known.fresh) && !known.fetched.Before(since) {
		return known.value, nil
	}
	failed, tried := r.failed.Get(address)
	if !tried || !now.Before(failed.until) {
		// A caller who leaves does not end what others wait for.
		flight := r.flights.DoChan(address, func() (any, error) {
			return r.renew(context.WithoutCancel(ctx), address)
		})
		select {
		case result := <-flight:
			if failed.err = result.Err; failed.err == nil {
				return result.Val.(T), nil
			}
		case <-ctx.Done():
			return value, context.Cause(ctx)
		}
	}
	if errors.Is(failed.err, ErrUnreachable) && found && now.Sub(known.fetched) < usedAtMost {
		return known.value, nil
	}
	return value, failed.err
}

// renew fetches the document at an address.
func (r *remote[T]) renew(ctx context.Context, address string) (value T, err error) {
	body, fresh, err := r.fetcher.fetch(ctx, address)
	if err == nil {
		if value, err = r.read(address, body); err != nil {
			err = unknown(address, err)
		}
	}
	now := r.now()
	if err == nil {
		r.failed.Remove(address)
		r.good.Add(address, kept[T]{value, now, now.Add(fresh)})
		return value, nil
	}
	r.failed.Add(address, failure{err, now.Add(failedFor)})
	if !errors.Is(err, ErrUnreachable) {
		r.good.Remove(address)
	}
	return value, err
}
