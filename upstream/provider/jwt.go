package provider

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// signer makes the tokens of a provider, and knows them again.
type signer struct {
	options *Options
	key     *rsa.PrivateKey
	keys    jose.JSONWebKeySet // the public key, as it is published
}

// newSigner returns a signer with a new key.
func newSigner(o *Options) (*signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	keys, err := publicKeys(key)
	return &signer{options: o, key: key, keys: keys}, err
}

// publicKeys returns the published key set. The kid is the key's thumbprint (RFC
// 7638).
func publicKeys(key *rsa.PrivateKey) (jose.JSONWebKeySet, error) {
	public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(jose.RS256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return jose.JSONWebKeySet{}, fmt.Errorf("naming the key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}, nil
}

// sign returns a signed JWT. The header typ distinguishes the kinds of tokens.
func (s *signer) sign(typ jose.ContentType, claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("signing a %s: %w", typ, err)
	}
	key := jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.keys.Keys[0].KeyID}}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(typ))
	if err != nil {
		return "", fmt.Errorf("signing a %s: %w", typ, err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing a %s: %w", typ, err)
	}
	return signed.CompactSerialize()
}

// hint has the claims of an id_token_hint that the provider uses.
type hint struct {
	Client  string `json:"aud"`
	Session string `json:"sid"`
}

// readHint verifies an ID token of this provider. The token can have expired
// (OpenID Connect RP-Initiated Logout 1.0, section 2).
func (s *signer) readHint(raw string) (*hint, error) {
	token, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, err
	}
	if token.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] != idTokenType {
		return nil, errors.New("not an ID token")
	}
	payload, err := token.Verify(s.key.Public())
	if err != nil {
		return nil, err
	}
	h := &hint{}
	return h, json.Unmarshal(payload, h)
}

// idTokenType is the header typ of ID tokens. No other token has it.
const idTokenType = "JWT"

// atHash returns the claim at_hash, which binds an ID token to an access token
// (OpenID Connect Core 1.0, section 3.1.3.6).
func atHash(accessToken string) string {
	sum := sha256.Sum256([]byte(accessToken))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}
