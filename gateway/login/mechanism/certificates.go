package mechanism

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"authgate/gateway/config/listening"
	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/wire/clientcert"
	"authgate/policy"
)

// newCertificates returns the verifier of client certificates, nil if the configuration has no
// authority for them.
func newCertificates(o *Options, local *accounts.Set) (*clientcert.Verifier, error) {
	t := &o.Config.TLS
	if t.ClientCA == "" {
		return nil, nil
	}
	authorities, err := clientAuthorities(o)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca: %w", err)
	}
	var lists []*clientcert.List
	if len(t.CRLContent) > 0 {
		if lists, err = clientcert.ReadLists(t.CRLContent, authorities); err != nil {
			return nil, fmt.Errorf("tls.crl: %w", err)
		}
	}
	return clientcert.NewVerifier(clientcert.Options{
		Authorities: authorities, Lists: lists, Username: o.Config.Certificates.Username,
		Now: o.LocalNow, UserNow: o.Now, Logger: o.Logger,
		Identify: func(username string) *policy.Identity {
			if account, ok := local.Lookup(username); ok {
				return account.Identity(policy.Certificate, "", time.Time{})
			}
			return nil
		},
	}), nil
}

// clientAuthorities returns whose certificates are valid.
func clientAuthorities(o *Options) ([]*x509.Certificate, error) {
	if o.Config.TLS.ClientCA != listening.ClientCALocal {
		return clientcert.ReadAuthorities(o.Config.TLS.ClientCAContent)
	}
	own, err := clientcert.OpenAuthority(o.Config.DataDir, o.LocalNow())
	if err != nil {
		return nil, err
	}
	return []*x509.Certificate{own.Certificate}, nil
}

// Presented returns the certificate that a request presents, nil if there is none: that of its
// connection, or the one that a trusted proxy describes, whose own certificate is not its
// client's. The error is an auth.ErrAmbiguous.
func (l *Local) Presented(r *http.Request, trusted bool) (*clientcert.Presented, error) {
	switch {
	case l.Certificates.Verifier == nil:
		return nil, nil
	case !trusted:
		return clientcert.OfConnection(r), nil
	}
	presented, err := l.proxied.Read(r.Header)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrAmbiguous, err)
	}
	return presented, nil
}

// ClientAuthorities returns whose certificates clients are asked for, nil if they are asked for
// none.
func (l *Local) ClientAuthorities() *x509.CertPool {
	if l.Certificates.Verifier == nil {
		return nil
	}
	return l.Certificates.Verifier.Authorities()
}
