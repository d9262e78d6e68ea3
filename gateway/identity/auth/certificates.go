package auth

import (
	"context"

	"authgate/gateway/wire/clientcert"
	"authgate/policy"
)

// Certificates is the mechanism for certificates of clients. The zero value accepts none.
type Certificates struct{ Verifier *clientcert.Verifier }

// Authenticate implements Authenticator.
func (c Certificates) Authenticate(_ context.Context, creds *Credentials) (*policy.Identity, error) {
	if creds.Certificate == nil || c.Verifier == nil {
		return nil, ErrNoCredentials
	}
	id, err := creds.Certificate.Identity(c.Verifier)
	if err != nil {
		return nil, &Rejection{Detail: detailCertificate, Reason: err.Error(), Connection: true}
	}
	return id, nil
}

// Alive implements Authenticator. Authenticate remembers its result until that may have changed.
func (c Certificates) Alive(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	return c.Authenticate(ctx, creds)
}

// Challenge implements Authenticator. The handshake has asked.
func (Certificates) Challenge(*Credentials) Challenge { return "" }
