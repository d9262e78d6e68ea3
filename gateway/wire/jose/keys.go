// Package jose signs and reads JSON Web Tokens (RFC 7519).
//
// Keys sign the gateway's own tokens, and a Reader reads these alone. Parse reads any
// token strictly, and is below the verification of tokens of others in package provider.
//
// # Limits and threats
//
// The algorithm and the key are fixed before a token is read; no header selects them. A
// token has one spelling, and a header and claims with one meaning. Claims that a caller
// sees without their signature come from functions whose comment says so.
package jose

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"

	"github.com/golang-jwt/jwt/v5"

	"authgate/gateway/store/keyfile"
)

// Keys signs and verifies the gateway's own tokens, with one algorithm that is
// fixed in advance. The zero value cannot sign or verify.
type Keys struct {
	method jwt.SigningMethod
	sign   any    // []byte or *rsa.PrivateKey
	verify any    // []byte or *rsa.PublicKey
	id     string // kid
	public jwkSet
}

// Names of key files in the data directory. They are created if the configuration
// gives no key.
const (
	secretFile     = "token.secret"
	privateKeyFile = "token.pem"
	generatedBits  = 3072
)

// NewHS256 returns keys for HMAC with SHA-256 (RFC 7518, section 3.2). The secret must
// have at least 32 bytes.
func NewHS256(secret []byte) (*Keys, error) {
	if len(secret) < sha256.Size {
		return nil, fmt.Errorf("the HS256 secret has %d bytes, at least %d are needed", len(secret), sha256.Size)
	}
	// The kid tells keys apart and reveals nothing about the secret.
	sum := sha256.Sum256(append([]byte("authgate kid\x00"), secret...))
	return &Keys{
		method: jwt.SigningMethodHS256, sign: secret, verify: secret,
		id:     base64.RawURLEncoding.EncodeToString(sum[:12]),
		public: jwkSet{Keys: []jwk{}},
	}, nil
}

// NewRS256 returns keys for RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3). The
// kid is the key's thumbprint (RFC 7638).
func NewRS256(key *rsa.PrivateKey) (*Keys, error) {
	if key.N.BitLen() < 2048 {
		return nil, fmt.Errorf("the RS256 key has %d bits, at least 2048 are needed", key.N.BitLen())
	}
	public := publicJWK(&key.PublicKey)
	return &Keys{
		method: jwt.SigningMethodRS256, sign: key, verify: key.Public(),
		id:     public.KeyID,
		public: jwkSet{Keys: []jwk{public}},
	}, nil
}

// jwkSet is a JWK set, and jwk an RSA key in it (RFC 7518, section 6.3.1).
type jwkSet struct {
	Keys []jwk `json:"keys"`
}

type jwk struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
	Modulus   string `json:"n"`
	Exponent  string `json:"e"`
}

// publicJWK returns a key, which its thumbprint names: the hash of its required members,
// sorted by name (RFC 7638, section 3).
func publicJWK(key *rsa.PublicKey) jwk {
	n := base64.RawURLEncoding.EncodeToString(key.N.Bytes())
	e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())
	thumbprint := sha256.Sum256(fmt.Appendf(nil, `{"e":%q,"kty":"RSA","n":%q}`, e, n))
	return jwk{
		Use: "sig", Type: "RSA", KeyID: base64.RawURLEncoding.EncodeToString(thumbprint[:]),
		Algorithm: "RS256", Modulus: n, Exponent: e,
	}
}

// ID returns the kid of the key.
func (k *Keys) ID() string { return k.id }

// Algorithm returns the algorithm that tokens are signed with.
func (k *Keys) Algorithm() string { return k.method.Alg() }

// Sign returns a token with claims. It names the key.
func (k *Keys) Sign(claims map[string]any) (string, error) { return k.SignType("JWT", claims) }

// SignType is Sign for a token whose header names its kind (RFC 8725, section 3.11), so that
// no other kind is taken for it.
func (k *Keys) SignType(typ string, claims map[string]any) (string, error) {
	unsigned := jwt.NewWithClaims(k.method, jwt.MapClaims(claims))
	unsigned.Header["kid"], unsigned.Header["typ"] = k.id, typ
	return unsigned.SignedString(k.sign)
}

// Header returns the encoded header of all tokens of a type, with which they begin.
func (k *Keys) Header(typ string) string {
	header, err := json.Marshal(map[string]string{"alg": k.method.Alg(), "kid": k.id, "typ": typ})
	if err != nil {
		panic(err) // it is made of text alone
	}
	return base64.RawURLEncoding.EncodeToString(header)
}

// Load returns the keys for algorithm, HS256 or RS256. The key is secret, or the PEM
// file at the path privateKey. If both are empty, it is a key file in dataDir. Load
// creates that file once, so that tokens stay valid after a restart.
func Load(algorithm, secret, privateKey, dataDir string) (*Keys, error) {
	switch algorithm {
	case "HS256":
		if secret != "" {
			return NewHS256([]byte(secret))
		}
		path := filepath.Join(dataDir, secretFile)
		kept, err := keyfile.Keep(path, generateSecret)
		if err != nil {
			return nil, err
		}
		keys, err := NewHS256(kept)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return keys, nil
	case "RS256":
		if privateKey == "" {
			privateKey = filepath.Join(dataDir, privateKeyFile)
			if _, err := keyfile.Keep(privateKey, generateRSA); err != nil {
				return nil, err
			}
		}
		key, err := readRSA(privateKey)
		if err != nil {
			return nil, err
		}
		keys, err := NewRS256(key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", privateKey, err)
		}
		return keys, nil
	}
	return nil, fmt.Errorf("token algorithm %q is not supported: expected HS256 or RS256", algorithm)
}

// Derive returns a secret for another purpose, which does not reveal the key or a secret
// for a third purpose. It is the same as long as the key is.
func (k *Keys) Derive(purpose string) []byte {
	secret, ok := k.sign.([]byte)
	if key, private := k.sign.(*rsa.PrivateKey); private {
		secret, ok = x509.MarshalPKCS1PrivateKey(key), true
	}
	if !ok {
		panic("jose: the zero Keys derive nothing")
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("authgate " + purpose))
	return mac.Sum(nil)
}

// JWKS returns the public keys as a JWK set (RFC 7517, section 5). The set is empty for
// HS256, because its key is secret.
func (k *Keys) JWKS() ([]byte, error) { return json.Marshal(k.public) }

func generateSecret() ([]byte, error) {
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails: crypto/rand
	return secret, nil
}

func generateRSA() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, generatedBits)
	if err != nil {
		return nil, err
	}
	return keyfile.Encode(key)
}

func readRSA(path string) (*rsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParseRSA(content)
	if err != nil {
		return nil, fmt.Errorf("reading the private key in %s: %w", path, err)
	}
	return key, nil
}

// ParseRSA returns the RSA private key in a PEM file (PKCS #1 or PKCS #8).
func ParseRSA(content []byte) (*rsa.PrivateKey, error) { return jwt.ParseRSAPrivateKeyFromPEM(content) }
