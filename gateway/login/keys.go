package login

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"authgate/gateway/keyfile"
)

// Keys signs and verifies the gateway's own access tokens, with one algorithm that is
// fixed in advance. The zero value cannot sign or verify.
type Keys struct {
	method jwt.SigningMethod
	sign   any    // []byte or *rsa.PrivateKey
	verify any    // []byte or *rsa.PublicKey
	id     string // kid
	public jose.JSONWebKeySet
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
		public: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}},
	}, nil
}

// NewRS256 returns keys for RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3). The
// kid is the key's thumbprint (RFC 7638).
func NewRS256(key *rsa.PrivateKey) (*Keys, error) {
	if key.N.BitLen() < 2048 {
		return nil, fmt.Errorf("the RS256 key has %d bits, at least 2048 are needed", key.N.BitLen())
	}
	jwk := jose.JSONWebKey{Key: key.Public(), Algorithm: "RS256", Use: "sig"}
	thumbprint, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("naming the RS256 key: %w", err)
	}
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return &Keys{
		method: jwt.SigningMethodRS256, sign: key, verify: key.Public(),
		id:     jwk.KeyID,
		public: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk}},
	}, nil
}

// LoadKeys returns the keys for algorithm, HS256 or RS256. The key is secret, or the PEM
// file at the path privateKey. If both are empty, it is a key file in dataDir. LoadKeys
// creates that file once, so that tokens stay valid after a restart.
func LoadKeys(algorithm, secret, privateKey, dataDir string) (*Keys, error) {
	switch algorithm {
	case "HS256":
		if secret != "" {
			return NewHS256([]byte(secret))
		}
		path := filepath.Join(dataDir, secretFile)
		kept, err := keyfile.Keep(path, func() ([]byte, error) { return newSecret(), nil })
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
		panic("login: the zero Keys derive nothing")
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("authgate " + purpose))
	return mac.Sum(nil)
}

// JWKS returns the public keys as a JWK set (RFC 7517, section 5). The set is empty for
// HS256, because its key is secret.
func (k *Keys) JWKS() ([]byte, error) { return json.Marshal(k.public) }

func generateRSA() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, generatedBits)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func readRSA(path string) (*rsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(content)
	if err != nil {
		return nil, fmt.Errorf("reading the private key in %s: %w", path, err)
	}
	return key, nil
}
