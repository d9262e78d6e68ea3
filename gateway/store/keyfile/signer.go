package keyfile

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// KeepSigner is Keep for the key of an authority, on the curve P-256. It also returns the file,
// which is in PEM. Another program may have made the key, of any kind that signs.
func KeepSigner(path string) (key crypto.Signer, content []byte, err error) {
	if content, err = Keep(path, GenerateSigner); err != nil {
		return nil, nil, err
	}
	if key, err = ParseSigner(content); err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return key, content, nil
}

// GenerateSigner returns a new key as KeepSigner has it.
func GenerateSigner() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return Encode(key)
}

// Encode returns a private key in PEM (PKCS #8).
func Encode(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParseSigner returns the key in a file of KeepSigner.
func ParseSigner(content []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it contains no PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("it contains no signing key")
	}
	return signer, nil
}
