package factors

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// Bounds of the values that authenticators make, in bytes.
const (
	maxCredentialID = 1023 // WebAuthn Level 3, section 7.1
	maxPublicKey    = 1024 // an RSA key of 4096 bits has about 530
	maxUserHandle   = 64   // WebAuthn Level 3, section 5.4.3
)

// minRSA is the length of the shortest RSA key of a passkey, in bits.
const minRSA = 2048

// Passkey is a WebAuthn credential of an account, as the file of accounts has it. Bytes from
// authenticators are written in base64url without padding.
type Passkey struct {
	ID        string `yaml:"id" json:"id"`
	Name      string `yaml:"name" json:"name"`             // the user's
	PublicKey string `yaml:"public_key" json:"public_key"` // COSE (RFC 9052)
	// UserHandle names the user to the authenticator. It is random, the same for all
	// passkeys of an account, and tells nothing about the account.
	UserHandle string `yaml:"user_handle" json:"user_handle"`
	// SignCount is the signature counter at the enrolment. A later one is in the store.
	SignCount      int64    `yaml:"sign_count" json:"sign_count"`
	Transports     []string `yaml:"transports" json:"transports"` // how the browser reaches the authenticator
	BackupEligible bool     `yaml:"backup_eligible" json:"backup_eligible"`
	BackedUp       bool     `yaml:"backed_up" json:"backed_up"`         // at the enrolment
	UserVerified   bool     `yaml:"user_verified" json:"user_verified"` // by the authenticator, at the enrolment
	AAGUID         string   `yaml:"aaguid" json:"aaguid"`               // the model of the authenticator; mostly zeros
}

// Methods returns the authentication methods that the use of the passkey proves, for AMR.
// verified says whether the authenticator verified the user this time; it counts only if it
// did so at the enrolment too.
func (p Passkey) Methods(verified bool) []string {
	method := hardware
	if p.BackupEligible {
		method = software
	}
	if verified && p.UserVerified {
		return []string{method, user}
	}
	return []string{method}
}

// CounterRises reports whether an authenticator that has shown the counter before may now
// show the counter now. A copy of an authenticator shows one that the original has shown
// already. Authenticators without a counter always show zero.
func CounterRises(before, now int64) bool { return now > before || before == 0 && now == 0 }

// algorithms are the COSE algorithms of passkeys, the best first. Windows has RS256 alone.
func algorithms() []webauthncose.COSEAlgorithmIdentifier {
	return []webauthncose.COSEAlgorithmIdentifier{
		webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256,
	}
}

// checkPublicKey returns why a COSE key cannot verify signatures of a passkey.
func checkPublicKey(raw []byte) error {
	if len(raw) > maxPublicKey {
		return fmt.Errorf("the public key has more than %d bytes", maxPublicKey)
	}
	key, err := webauthncose.ParsePublicKey(raw)
	if err != nil {
		return fmt.Errorf("the public key: %w", err)
	}
	var algorithm int64
	switch key := key.(type) {
	case webauthncose.EC2PublicKeyData:
		algorithm = key.Algorithm
	case webauthncose.OKPPublicKeyData:
		algorithm = key.Algorithm
	case webauthncose.RSAPublicKeyData:
		algorithm = key.Algorithm
		if bits := new(big.Int).SetBytes(key.Modulus).BitLen(); bits < minRSA {
			return fmt.Errorf("the RSA key has %d bits; at least %d are needed", bits, minRSA)
		}
	}
	if !slices.Contains(algorithms(), webauthncose.COSEAlgorithmIdentifier(algorithm)) {
		return fmt.Errorf("the algorithm %d of the public key is not supported", algorithm)
	}
	return nil
}

// descriptor returns the passkey as options name it.
func (p Passkey) descriptor() (protocol.CredentialDescriptor, error) {
	id, err := decode(p.ID, maxCredentialID)
	if err != nil {
		return protocol.CredentialDescriptor{}, fmt.Errorf("the id of the passkey %q: %w", p.Name, err)
	}
	d := protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: id}
	for _, transport := range p.Transports {
		d.Transport = append(d.Transport, protocol.AuthenticatorTransport(transport))
	}
	return d, nil
}

func descriptors(passkeys []Passkey) (all []protocol.CredentialDescriptor, err error) {
	for _, p := range passkeys {
		d, err := p.descriptor()
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// knownTransports returns those of the transports that WebAuthn defines. The browser says
// them, and they are only hints.
func knownTransports(said []protocol.AuthenticatorTransport) []string {
	var known []string
	for _, one := range []protocol.AuthenticatorTransport{
		protocol.USB, protocol.NFC, protocol.BLE, protocol.SmartCard, protocol.Hybrid, protocol.Internal,
	} {
		if slices.Contains(said, one) {
			known = append(known, string(one))
		}
	}
	return known
}

func (p Passkey) checkFields(fault func(key, format string, args ...any)) {
	if _, err := decode(p.ID, maxCredentialID); err != nil {
		fault("id", "%v", err)
	}
	if _, err := decode(p.UserHandle, maxUserHandle); err != nil {
		fault("user_handle", "%v", err)
	}
	if key, err := decode(p.PublicKey, maxPublicKey); err != nil {
		fault("public_key", "%v", err)
	} else if err := checkPublicKey(key); err != nil {
		fault("public_key", "is not a key of a passkey: %v", err)
	}
	if p.SignCount < 0 || p.SignCount > math.MaxUint32 {
		fault("sign_count", "must be a number from 0 to %d", uint32(math.MaxUint32))
	}
}

// decode decodes bytes that are written in base64url. There must be at least one, and at
// most a number.
func decode(text string, most int) ([]byte, error) {
	if len(text) > base64.RawURLEncoding.EncodedLen(most) {
		return nil, fmt.Errorf("is longer than %d bytes", most)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("is not written in base64url without padding")
	}
	return raw, nil
}

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
