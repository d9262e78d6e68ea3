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

// A certificate is checked often enough to be renewed in time, however short its
// lifetime is: some private authorities issue certificates for minutes.
const (
	longestPause  = 10 * time.Minute
	shortestPause = time.Second
	looks         = 60 // checks in the lifetime of a certificate
)

const (
	// cleanEvery is how often the storage is cleaned, by any instance.
	cleanEvery = 24 * time.Hour
	// keepExpired is how long an expired certificate stays in the storage, such
	// as the certificate of a name that is no longer configured.
	keepExpired = 14 * 24 * time.Hour
)

// Run obtains and renews certificates until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { m.maintain(ctx) })
	all.Go(func() { m.unrelated.run(ctx) })
	all.Go(func() { m.clean(ctx) })
	if m.dns != nil {
		all.Go(func() { m.dns.Run(ctx) })
	}
	m.obtainAll(ctx, &all)
	all.Wait()
}

// obtainAll obtains the certificates of the configured names, as they are replaced,
// until ctx ends. It begins its work in all.
func (m *Manager) obtainAll(ctx context.Context, all *sync.WaitGroup) {
	stops := map[string]context.CancelFunc{}
	for {
		for domain, stop := range stops {
			if !m.manages(domain) {
				stop()
				delete(stops, domain)
			}
		}
		for _, domain := range m.names() {
			if stops[domain] == nil {
				obtaining, stop := context.WithCancel(ctx)
				stops[domain] = stop
				all.Go(func() {
					m.obtain(obtaining, domain)
					if !m.manages(domain) {
						m.forgetName(domain) // which obtain may have loaded meanwhile
					}
				})
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range stops {
				stop()
			}
			return
		case <-m.managed:
		}
	}
}

// load reads the certificate of a name from the storage, where another instance may
// have renewed it, and uses it unless the current one is newer. If there is none, the
// error is fs.ErrNotExist.
func (m *Manager) load(ctx context.Context, domain string) error {
	certificate, err := m.config.CacheManagedCertificate(ctx, domain)
	if err != nil {
		return err
	}
	if !slices.Contains(certificate.Names, domain) {
		m.cache.Remove([]string{certificate.Hash()})
		return fmt.Errorf("the certificate in the storage is for %q", certificate.Names)
	}
	for _, other := range m.certificatesOf(domain) {
		if current := m.current(domain); current != nil && byIssue(other, *current) < 0 {
			m.cache.Remove([]string{other.Hash()})
		}
	}
	return nil
}

// obtain obtains a certificate for a name if there is none, and keeps using the
// newest one in the storage.
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
		case torn && seen && !mended: // seen twice: no other instance is writing the other half
			if err = m.mend(ctx, domain); err == nil {
				mended = true // once, in case it does not help
				continue
			}
		case m.current(domain) != nil:
			pause(ctx, retryAfter) // maintain renews it
			continue
		case errors.Is(err, fs.ErrNotExist):
			err = m.config.ObtainCertAsync(ctx, domain) // retries by itself
		}
		if err != nil && ctx.Err() == nil {
			m.failed(domain, err)
			pause(ctx, retryPause(err))
		}
	}
}

// retryPause returns the pause after a failure. If certmagic does not retry by
// itself, the authority has refused an order that its testing environment granted.
func retryPause(err error) time.Duration {
	if _, refused := errors.AsType[certmagic.ErrNoRetry](err); refused {
		return refusedAfter
	}
	return retryAfter
}

// mend deletes a certificate that does not match its key from the storage. Then an
// instance without a certificate, or one that renews its own, obtains a new one for
// all.
func (m *Manager) mend(ctx context.Context, domain string) error {
	m.logger.Warn("the certificate and the key in the storage do not match; the certificate is deleted and a new one "+
		"is obtained", "domain", domain)
	return m.config.Storage.Delete(ctx, certmagic.StorageKeys.SiteCert(m.issuer.IssuerKey(), domain))
}

// torn reports whether the certificate and the key in the storage do not match, as
// after an instance was killed between the two writes.
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

// maintain renews certificates. It also reads certificates that another instance has
// obtained, because obtain may wait for hours until its next attempt.
func (m *Manager) maintain(ctx context.Context) {
	for ctx.Err() == nil {
		for _, domain := range m.names() {
			if m.current(domain) == nil {
				_ = m.load(ctx, domain) // obtain reports errors
			}
		}
		every := m.interval()
		m.cache.SetOptions(m.cacheOptions(every))
		if err := m.cache.RenewManagedCertificates(ctx); err != nil {
			m.logger.Error("maintaining the certificates failed", "error", err.Error())
		}
		pause(ctx, every)
	}
}

// interval returns the pause before the next check of the certificates.
func (m *Manager) interval() time.Duration {
	shortest := longestPause
	for _, domain := range m.names() {
		if certificate := m.current(domain); certificate != nil {
			shortest = min(shortest, certificate.Lifetime()/looks)
		} else {
			shortest = min(shortest, retryAfter)
		}
	}
	return max(shortest, shortestPause)
}

// clean deletes certificates that expired long ago from the storage.
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

// Certificate is the state of the certificate of a name.
type Certificate struct {
	Domain  string
	Begins  time.Time
	Expires time.Time // zero: there is no certificate yet
	Problem string    // why there is no newer one; empty if none is due
}

// A certificate is renewed when a third of its lifetime is left. If less than a
// sixth is left, something is wrong.
const overdue = 6

const problemOverdue = "it should have been renewed by now; the log tells what failed"

// Certificates returns the state for each name, in the order of Options.Domains.
func (m *Manager) Certificates() []Certificate {
	var all []Certificate
	for _, domain := range m.names() {
		c := Certificate{Domain: domain}
		if current := m.current(domain); current != nil {
			c.Begins, c.Expires = current.Leaf.NotBefore, current.Leaf.NotAfter
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

// current returns the newest certificate of a name, or nil if there is none.
func (m *Manager) current(domain string) *certmagic.Certificate {
	all := m.certificatesOf(domain)
	if len(all) == 0 {
		return nil
	}
	last := slices.MaxFunc(all, byIssue)
	return &last
}

// certificatesOf returns the certificates of a name, without those of a wildcard that covers it.
func (m *Manager) certificatesOf(domain string) []certmagic.Certificate {
	return slices.DeleteFunc(m.cache.AllMatchingCertificates(domain), func(c certmagic.Certificate) bool {
		return !slices.Contains(c.Names, domain)
	})
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

// notice is for certmagic.Config.OnEvent.
func (m *Manager) notice(ctx context.Context, event string, data map[string]any) error {
	renewal, _ := data["renewal"].(bool)
	if err, _ := data["error"].(error); event == "cert_failed" && renewal && refusedOrder(err) && ctx.Err() == nil {
		if m.unrelated.try(fmt.Sprint(data["identifier"]), err) {
			return nil
		}
	}
	return m.unrelated.notice(ctx, event, data)
}

// failed records that a certificate could not be obtained. The current one is used
// until there is a new one.
func (m *Manager) failed(domain string, problem any) {
	had, listed := m.expires(domain), m.manages(domain)
	if listed {
		m.mu.Lock()
		m.failures[domain] = failure{problem: fmt.Sprint(problem), had: had}
		m.mu.Unlock()
	}
	if had.IsZero() {
		if !listed {
			return // try reports it
		}
		m.logger.Error("there is no certificate yet, and it cannot be obtained; it is tried again", "domain", domain,
			"error", fmt.Sprint(problem))
		return
	}
	m.logger.Error("the certificate cannot be renewed; the current one is kept, and it is tried again",
		"domain", domain, "expires", had, "error", fmt.Sprint(problem))
}
