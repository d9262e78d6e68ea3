package clientcert

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"authgate/policy"
)

const (
	// maxChain is how many certificates a client may present, and maxRSA how long a key of RSA may
	// be, in bits: they bound the work for a client that is not known yet.
	maxChain = 10
	maxRSA   = 8192
	// failureHolds is how long a certificate that is not valid counts as such without another
	// look.
	failureHolds = 10 * time.Second
)

// Options are the parts of a Verifier. All but Lists and Logger are required.
type Options struct {
	Authorities []*x509.Certificate // whose certificates are valid
	Lists       []*List
	Username    string // the kind of name that names the user
	// Identify returns the identity of a user, nil if there is none.
	Identify func(username string) *policy.Identity
	Now      func() time.Time
	// UserNow is the clock by which identities of Identify end.
	UserNow func() time.Time
	Logger  *slog.Logger // is told of lists that have become stale; nil: no one is
}

// Verifier verifies certificates under one configuration. It does not change.
type Verifier struct {
	options Options
	roots   *x509.CertPool
	stale   sync.Once
}

// NewVerifier returns a Verifier.
func NewVerifier(o Options) *Verifier {
	v := &Verifier{options: o, roots: x509.NewCertPool()}
	for _, authority := range o.Authorities {
		v.roots.AddCert(authority)
	}
	return v
}

// Authorities returns those whose certificates clients are asked for. It is the same at each call.
func (v *Verifier) Authorities() *x509.CertPool { return v.roots }

// finding is the result of a Verifier about a certificate. It holds from one time until
// another, the latter included.
type finding struct {
	by          *Verifier
	identity    *policy.Identity
	err         error
	from, until time.Time
}

func (f *finding) holds(v *Verifier, now time.Time) bool {
	return f != nil && f.by == v && !now.Before(f.from) && !now.After(f.until) &&
		(f.identity == nil || f.identity.Until().IsZero() || f.identity.Holds(v.options.UserNow()))
}

// verify verifies a chain, leaf first, and finds its user.
func (v *Verifier) verify(chain []*x509.Certificate) *finding {
	now := v.options.Now()
	found, err := v.path(chain, now)
	if err == nil {
		found.identity, err = v.identify(chain[0])
	}
	if err != nil {
		return &finding{by: v, err: err, from: now, until: now.Add(failureHolds)}
	}
	return found
}

// identify returns the identity of the user that a valid certificate names.
func (v *Verifier) identify(leaf *x509.Certificate) (*policy.Identity, error) {
	name, err := nameOf(leaf, v.options.Username)
	if err != nil {
		return nil, err
	}
	id := v.options.Identify(name)
	if id == nil {
		return nil, fmt.Errorf("the certificate names %q, and no account has that name, or it is disabled", name)
	}
	return id, nil
}

// path finds the path from a certificate to a client CA that is valid for the longest time.
func (v *Verifier) path(chain []*x509.Certificate, now time.Time) (*finding, error) {
	if err := checkSize(chain); err != nil {
		return nil, err
	}
	if use := chain[0].KeyUsage; use != 0 && use&x509.KeyUsageDigitalSignature == 0 { // package x509 does not look
		return nil, errors.New("the certificate is not for signatures, by which clients prove that it is theirs " +
			"(key usage)")
	}
	between := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	paths, err := chain[0].Verify(x509.VerifyOptions{
		Roots: v.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, explain(err)
	}
	v.tellStale(now)
	var best *finding
	for _, path := range paths {
		if revoked := v.revoked(path); revoked != nil {
			err = fmt.Errorf("tls.crl revokes the certificate with the serial number %x", revoked.SerialNumber)
			continue
		}
		if one := v.lifetime(path); best == nil || one.until.After(best.until) {
			best = one
		}
	}
	if best == nil {
		return nil, err
	}
	return best, nil
}

// lifetime returns a finding that holds while each certificate of a path is valid.
func (v *Verifier) lifetime(path []*x509.Certificate) *finding {
	f := &finding{by: v, from: path[0].NotBefore, until: path[0].NotAfter}
	for _, certificate := range path[1:] {
		if certificate.NotBefore.After(f.from) {
			f.from = certificate.NotBefore
		}
		if certificate.NotAfter.Before(f.until) {
			f.until = certificate.NotAfter
		}
	}
	return f
}

// revoked returns the first certificate of a path that a list revokes, nil if there is none.
func (v *Verifier) revoked(path []*x509.Certificate) *x509.Certificate {
	for _, certificate := range path {
		for _, list := range v.options.Lists {
			if list.revokes(certificate) {
				return certificate
			}
		}
	}
	return nil
}

// tellStale tells operators once that a list, which was fresh when it was loaded, is not any more.
func (v *Verifier) tellStale(now time.Time) {
	for _, list := range v.options.Lists {
		if v.options.Logger != nil && list.Stale(now) {
			v.stale.Do(func() {
				v.options.Logger.Warn("a list of tls.crl is stale, so it may lack certificates that are revoked "+
					"since; get the present one", "next_update", list.NextUpdate)
			})
		}
	}
}

// checkSize refuses a chain that would cost too much.
func checkSize(chain []*x509.Certificate) error {
	if len(chain) > maxChain {
		return fmt.Errorf("the client presents %d certificates; at most %d are verified", len(chain), maxChain)
	}
	for _, certificate := range chain {
		if key, ok := certificate.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return fmt.Errorf("a key of the chain has %d bits; at most %d are verified", key.N.BitLen(), maxRSA)
		}
	}
	return nil
}

// explain says why a chain is not valid, and quotes nothing of its certificates.
func explain(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errors.New("no certificate of tls.client_ca has issued the certificate, or one between them is missing")
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case ok && invalid.Reason == x509.Expired:
		return errors.New("the certificate, or one above it, is not valid at this time")
	case ok && invalid.Reason == x509.IncompatibleUsage:
		return errors.New("the certificate, or one above it, is not for the authentication of clients " +
			"(extended key usage)")
	case ok && invalid.Reason == x509.NotAuthorizedToSign:
		return errors.New("a certificate of the chain was issued by one that is no authority")
	case ok && invalid.Reason == x509.CANotAuthorizedForThisName:
		return errors.New("a certificate above it does not permit a name of the certificate (name constraints)")
	}
	return errors.New("the chain of the certificate is broken")
}
