// Package seal encrypts secrets that the store must hold, such as the tokens of
// an identity provider, and authenticates values that the gateway hands out and
// must recognize.
//
// A Box is AES-256 in Galois/Counter Mode (NIST SP 800-38D) with a random nonce
// for each message. Its key is derived from the configured secret (HKDF, RFC
// 5869).
//
// # Limits and threats
//
// Each message is bound to the place where it is stored, so that an attacker who
// can write to the store cannot move it to another place. An attacker who has the
// secret can read everything. There is no rotation: with another secret, older
// messages cannot be opened.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
)

// MinSecret is the shortest length of a secret, in bytes.
const MinSecret = 32

// Purposes, so that each key derived from the secret is different.
const (
	forSealing = "authgate store encryption"
	forMAC     = "authgate message authentication"
)

// ErrOpen means that the message was sealed with another secret or for another
// place, or is damaged. It does not tell which.
var ErrOpen = errors.New("seal: the message cannot be opened with this key at this place")

// Box seals and opens messages. It is safe for concurrent use.
type Box struct {
	aead cipher.AEAD
	mac  []byte // key of MAC
}

// New returns the Box of a secret, which must have at least MinSecret bytes.
func New(secret []byte) (*Box, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the encryption key has %d bytes, at least %d are needed", len(secret), MinSecret)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, forSealing, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the encryption key: %w", err)
	}
	mac, err := hkdf.Key(sha256.New, secret, nil, forMAC, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the authentication key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead: aead, mac: mac}, nil
}

// MAC returns the HMAC-SHA256 of message (RFC 2104), which cannot be computed
// without the secret.
func (b *Box) MAC(message string) []byte {
	h := hmac.New(sha256.New, b.mac)
	h.Write([]byte(message))
	return h.Sum(nil)
}

// Seal encrypts message for a place.
func (b *Box) Seal(message []byte, place string) []byte {
	return b.aead.Seal(nil, nil, message, []byte(place))
}

// Open decrypts a message that was sealed for the same place, or returns ErrOpen.
func (b *Box) Open(sealed []byte, place string) ([]byte, error) {
	message, err := b.aead.Open(nil, nil, sealed, []byte(place))
	if err != nil {
		return nil, ErrOpen
	}
	return message, nil
}
