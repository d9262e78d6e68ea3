// Package seal encrypts what the store must hold and must not give away, such
// as the tokens of an identity provider, and authenticates what the gateway
// gives away and must know again.
//
// A Box is AES-256 in Galois/Counter Mode (NIST SP 800-38D) with a random
// nonce for each message, under a key that is derived from the configured
// secret (HKDF, RFC 5869). Each message is bound to the place where it is
// kept, so that whoever can write to the store cannot move one to another
// place. Whoever holds the secret reads everything; there is no rotation: with
// another secret, what was sealed before is lost.
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

// MinSecret is how many bytes a secret has at least.
const MinSecret = 32

// Purposes keep the keys apart that are made of the same secret.
const (
	forSealing = "authgate store encryption"
	forMAC     = "authgate message authentication"
)

// ErrOpen: the message was sealed with another secret, for another place, or
// is damaged. Which of these is not told.
var ErrOpen = errors.New("seal: the message cannot be opened with this key at this place")

// Box seals and opens messages. It is safe for concurrent use.
type Box struct {
	aead cipher.AEAD
	mac  []byte // key of MAC
}

// New returns the box of a secret of at least MinSecret bytes.
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

// MAC is the HMAC-SHA256 of message (RFC 2104): a name that nobody makes
// without the secret.
func (b *Box) MAC(message string) []byte {
	h := hmac.New(sha256.New, b.mac)
	h.Write([]byte(message))
	return h.Sum(nil)
}

// Seal encrypts message for the place.
func (b *Box) Seal(message []byte, place string) []byte {
	return b.aead.Seal(nil, nil, message, []byte(place))
}

// Open returns the message that was sealed for the place, or ErrOpen.
func (b *Box) Open(sealed []byte, place string) ([]byte, error) {
	message, err := b.aead.Open(nil, nil, sealed, []byte(place))
	if err != nil {
		return nil, ErrOpen
	}
	return message, nil
}
