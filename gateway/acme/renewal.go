package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

// A certificate is looked at often enough to be renewed in time however short
// its life is: some authorities of one's own issue them for minutes. Looking
// costs nothing but memory accesses.
const (
	longestPause  = 10 * time.Minute
	shortestPause = time.Second
	looks         = 60 // in the life of a certificate
)

const (
	// cleanEvery is how often the storage is cleaned, by any instance.
	cleanEvery = 24 * time.Hour
	// keepExpired is how long a certificate is kept in the storage that has
	// expired and was not renewed, as those of names that are configured no more.
	keepExpired = 14 * 24 * time.Hour
)

// Run obtains and renews certificates until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, domain := range m.domains {
		all.Go(func() { m.obtain(ctx, domain) })
	}
	all.Go(func() { m.maintain(ctx) })
	all.Go(func() { m.renewUnrelated(ctx) })
	all.Go(func() { m.clean(ctx) })
	all.Wait()
}

// load takes the certificate of a name from the storage in place of the one at
// hand, unless that is newer: another instance may have renewed it before this
// one would. If there is none the error is fs.ErrNotExist.
func (m *Manager) load(ctx context.Context, domain string) error {
	certificate, err := m.config.CacheManagedCertificate(ctx, domain)
	if err != nil {
		return err
	}
	if !slices.Contains(certificate.Names, domain) {
		m.cache.Remove([]string{certificate.Hash()})
		return fmt.Errorf("the certificate in the storage is for %q", certificate.Names)
	}
	for _, other := range m.cache.AllMatchingCertificates(domain) {
		if current := m.current(domain); current != nil && byIssue(other, *current) < 0 {
			m.cache.Remove([]string{other.Hash()})
		}
	}
	return nil
}

// obtain sees to it that there is a certificate for a name, and that it is the
// one in the storage.
func (m *Manager) obtain(ctx context.Context, domain string) {
	for torn, mended := false, false; ctx.Err() == nil; {
		err := m.load(ctx, domain)
		if err == nil {
			torn, mended = false, false
			pause(ctx, m.interval())
			continue
		}
		seen := torn
		torn = m.torn(ctx, domain)
		switch {
		case torn && seen && !mended: // and no other instance is about to write the other half
			if err = m.mend(ctx, domain); err == nil {
				mended = true // which is not done over and over if it mends nothing
				continue
			}
		case m.current(domain) != nil:
			pause(ctx, retryAfter) // to renew it is for maintain
			continue
		case errors.Is(err, fs.ErrNotExist):
			err = m.config.ObtainCertAsync(ctx, domain) // tries again by itself
		}
		if err != nil && ctx.Err() == nil {
			m.failed(domain, err)
			pause(ctx, retryPause(err))
		}
	}
}

// retryPause is how long to wait after a failure. Where certmagic does not go on
// by itself, the authority has refused what its testing environment granted.
func retryPause(err error) time.Duration {
	if _, refused := errors.AsType[certmagic.ErrNoRetry](err); refused {
		return refusedAfter
	}
	return retryAfter
}

// mend takes a certificate without its key out of the storage. It is missing
// then, and one instance obtains it for all: whoever has none at hand, or wants
// to renew it.
func (m *Manager) mend(ctx context.Context, domain string) error {
	m.logger.Warn("the certificate and the key in the storage do not belong together; the certificate is removed, to be obtained anew", "domain", domain)
	return m.config.Storage.Delete(ctx, certmagic.StorageKeys.SiteCert(m.issuer.IssuerKey(), domain))
}

// torn reports whether the storage has a certificate and the key of another
// one: what is left when an instance is killed between the two.
func (m *Manager) torn(ctx context.Context, domain string) bool {
	var pair [2][]byte
	for i, name := range []string{
		certmagic.StorageKeys.SiteCert(m.issuer.IssuerKey(), domain),
		certmagic.StorageKeys.SitePrivateKey(m.issuer.IssuerKey(), domain),
	} {
		var err error
		if pair[i], err = m.config.Storage.Load(ctx, name); err != nil {
			return false
		}
	}
	_, err := tls.X509KeyPair(pair[0], pair[1])
	return err != nil
}

// maintain renews what will expire, and takes over what another instance has
// got: obtain may wait for hours until it asks the authority again.
func (m *Manager) maintain(ctx context.Context) {
	for ctx.Err() == nil {
		for _, domain := range m.domains {
			if m.current(domain) == nil {
				_ = m.load(ctx, domain) // obtain tells
			}
		}
		every := m.interval()
		m.cache.SetOptions(m.cacheOptions(every))
		if err := m.cache.RenewManagedCertificates(ctx); err != nil {
			m.logger.Error("looking after the certificates failed", "error", err.Error())
		}
		pause(ctx, every)
	}
}

// interval is how long to wait before the certificates are looked at again.
func (m *Manager) interval() time.Duration {
	shortest := longestPause
	for _, domain := range m.domains {
		if certificate := m.current(domain); certificate != nil {
			shortest = min(shortest, certificate.Lifetime()/looks)
		} else {
			shortest = min(shortest, retryAfter)
		}
	}
	return max(shortest, shortestPause)
}

// clean removes what has long expired from the storage.
func (m *Manager) clean(ctx context.Context) {
	for ctx.Err() == nil {
		err := certmagic.CleanStorage(ctx, m.config.Storage, certmagic.CleanStorageOptions{
			Logger: m.zap, Interval: cleanEvery, ExpiredCerts: true, ExpiredCertGracePeriod: keepExpired,
		})
		if err != nil && ctx.Err() == nil {
			m.logger.Warn("cleaning the storage of the certificates failed", "error", err.Error())
		}
		pause(ctx, cleanEvery)
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Certificate is what there is for a name.
type Certificate struct {
	Domain  string
	Expires time.Time // zero: there is none yet
	Problem string    // why there is not a newer one; empty: it is not time for it
}

// A certificate is renewed when a third of its life is left. With less than a
// sixth something is wrong, be it not the authority.
const overdue = 6

const problemOverdue = "it should have been renewed by now; the log tells what failed"

// Certificates returns what there is for each name, in the order of
// Options.Domains.
func (m *Manager) Certificates() []Certificate {
	var all []Certificate
	for _, domain := range m.domains {
		c := Certificate{Domain: domain}
		if current := m.current(domain); current != nil {
			c.Expires = current.Leaf.NotAfter
			if time.Until(c.Expires) < current.Lifetime()/overdue {
				c.Problem = problemOverdue
			}
		}
		m.mu.Lock()
		if f, ok := m.failures[domain]; ok && f.had.Equal(c.Expires) {
			c.Problem = f.problem
		}
		m.mu.Unlock()
		all = append(all, c)
	}
	return all
}

// current returns the certificate of a name that was issued last, nil if there
// is none.
func (m *Manager) current(domain string) *certmagic.Certificate {
	all := m.cache.AllMatchingCertificates(domain)
	if len(all) == 0 {
		return nil
	}
	last := slices.MaxFunc(all, byIssue)
	return &last
}

func byIssue(a, b certmagic.Certificate) int {
	return cmp.Or(a.Leaf.NotBefore.Compare(b.Leaf.NotBefore), a.Leaf.NotAfter.Compare(b.Leaf.NotAfter))
}

func (m *Manager) expires(domain string) time.Time {
	if certificate := m.current(domain); certificate != nil {
		return certificate.Leaf.NotAfter
	}
	return time.Time{}
}

// notice has the form of certmagic.Config.OnEvent.
func (m *Manager) notice(ctx context.Context, event string, data map[string]any) error {
	renewal, _ := data["renewal"].(bool)
	if err, _ := data["error"].(error); event == "cert_failed" && renewal && refusedOrder(err) && ctx.Err() == nil {
		if m.tryUnrelated(fmt.Sprint(data["identifier"]), err) {
			return nil
		}
	}
	return m.noticeUnrelated(ctx, event, data)
}

// noticeUnrelated is notice for orders that replace no certificate, which are
// not followed by another one.
func (m *Manager) noticeUnrelated(ctx context.Context, event string, data map[string]any) error {
	if event == "cert_failed" && !errors.Is(ctx.Err(), context.Canceled) { // by a stop, which is no failure
		m.failed(fmt.Sprint(data["identifier"]), data["error"])
	}
	return nil
}

// failed notes that a certificate was not to be had. The one at hand is used
// until there is another.
func (m *Manager) failed(domain string, problem any) {
	had := m.expires(domain)
	m.mu.Lock()
	m.failures[domain] = failure{problem: fmt.Sprint(problem), had: had}
	m.mu.Unlock()
	if had.IsZero() {
		m.logger.Error("there is no certificate yet, and it cannot be had; it is tried again", "domain", domain, "error", fmt.Sprint(problem))
		return
	}
	m.logger.Error("the certificate cannot be renewed; the one at hand is kept, and it is tried again",
		"domain", domain, "expires", had, "error", fmt.Sprint(problem))
}
