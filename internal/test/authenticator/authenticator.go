// Package authenticator is for tests: a WebAuthn authenticator and the browser around it, in
// memory. It makes what real ones make, and on request what they never make.
//
//	a := &authenticator.Authenticator{Origin: "https://auth.example.org", Verified: true}
//	registration, err := a.Create(options) // a RegistrationResponseJSON
//	answer, err := a.Get(options)          // an AuthenticationResponseJSON
package authenticator

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// COSE algorithms.
const (
	ES256 = -7
	EdDSA = -8
	RS256 = -257
)

// Flags of authenticator data.
const (
	flagPresent        = 1 << 0
	flagVerified       = 1 << 2
	flagBackupEligible = 1 << 3
	flagBackedUp       = 1 << 4
	flagAttested       = 1 << 6
)

// Authenticator answers for one user, in one browser. Its fields may change between calls.
type Authenticator struct {
	Origin string // of the page, as the browser says
	RPID   string // for which it signs; empty: that of the options
	// Algorithm of new credentials. 0: ES256.
	Algorithm int
	// Absent: the user does not touch it. Verified: the user enters a PIN or the like.
	Absent, Verified         bool
	BackupEligible, BackedUp bool
	// NoCounter makes each signature counter zero.
	NoCounter bool
	// Anonymous leaves out the user handle of assertions.
	Anonymous bool
	// Attestation makes a format and a statement in the place of none. It gets what is
	// signed, and the key of the new credential.
	Attestation func(signed []byte, key crypto.Signer) (format string, statement map[string]any)
	// ClientData changes what the browser says, before it is signed.
	ClientData func(map[string]any)
	// Answer changes the answer.
	Answer func(map[string]any)
	// PublicKey is the COSE key of new credentials; nil: that of their keys.
	PublicKey []byte
	// NewID makes the ids of new credentials; nil: at random.
	NewID func() []byte
	// Credentials are the ones that it has made. The first that options allow signs.
	Credentials []*credential
}

// credential is a passkey.
type credential struct {
	ID, UserHandle []byte
	RPID           string
	Counter        uint32 // of the last signature
	Key            crypto.Signer
	algorithm      int
}

// Clone returns a copy, with copies of the credentials and their counters.
func (a *Authenticator) Clone() *Authenticator {
	c := *a
	c.Credentials = nil
	for _, credential := range a.Credentials {
		same := *credential
		c.Credentials = append(c.Credentials, &same)
	}
	return &c
}

type descriptor struct {
	ID string `json:"id"`
}

// Create makes a credential for PublicKeyCredentialCreationOptionsJSON, as
// navigator.credentials.create does, and returns the answer.
func (a *Authenticator) Create(options []byte) ([]byte, error) {
	var o struct {
		Challenge string
		RP        struct{ ID string }
		User      struct{ ID string }
		Params    []struct {
			Alg int
		} `json:"pubKeyCredParams"`
		Exclude []descriptor `json:"excludeCredentials"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(o.Exclude, func(d descriptor) bool { return a.byID(d.ID) != nil }) {
		return nil, errors.New("the authenticator has one of excludeCredentials")
	}
	algorithm := a.algorithm()
	if !slices.ContainsFunc(o.Params, func(p struct{ Alg int }) bool { return p.Alg == algorithm }) {
		return nil, fmt.Errorf("pubKeyCredParams do not have the algorithm %d", algorithm)
	}
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		return nil, err
	}
	key, err := newKey(algorithm)
	if err != nil {
		return nil, err
	}
	id := random(32)
	if a.NewID != nil {
		id = a.NewID()
	}
	c := &credential{ID: id, UserHandle: handle, RPID: o.RP.ID, Key: key, algorithm: algorithm}
	return a.created(c, o.Challenge)
}

// created keeps c and returns the answer of Create that has it.
func (a *Authenticator) created(c *credential, challenge string) ([]byte, error) {
	clientData, err := a.clientData("webauthn.create", challenge)
	if err != nil {
		return nil, err
	}
	data, err := a.attested(c)
	if err != nil {
		return nil, err
	}
	format, statement := "none", map[string]any{}
	if a.Attestation != nil {
		hash := sha256.Sum256(clientData)
		format, statement = a.Attestation(slices.Concat(data, hash[:]), c.Key)
	}
	object, err := webauthncbor.Marshal(map[string]any{"fmt": format, "attStmt": statement, "authData": data})
	if err != nil {
		return nil, err
	}
	a.Credentials = append(a.Credentials, c)
	return a.answer(c, map[string]any{
		"clientDataJSON":     Encode(clientData),
		"attestationObject":  Encode(object),
		"authenticatorData":  Encode(data),
		"transports":         []string{"internal", "hybrid"},
		"publicKeyAlgorithm": c.algorithm,
	})
}

// Get signs for PublicKeyCredentialRequestOptionsJSON, as navigator.credentials.get does,
// and returns the answer.
func (a *Authenticator) Get(options []byte) ([]byte, error) {
	var o struct {
		Challenge string
		RPID      string       `json:"rpId"`
		Allow     []descriptor `json:"allowCredentials"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(a.Credentials, func(c *credential) bool {
		return c.RPID == o.RPID && (len(o.Allow) == 0 || slices.Contains(o.Allow, descriptor{Encode(c.ID)}))
	})
	if at < 0 {
		return nil, errors.New("the authenticator has no credential that the options allow")
	}
	return a.Sign(a.Credentials[at], o.Challenge)
}

// Sign returns the answer of a credential to any challenge.
func (a *Authenticator) Sign(c *credential, challenge string) ([]byte, error) {
	clientData, err := a.clientData("webauthn.get", challenge)
	if err != nil {
		return nil, err
	}
	data := a.data(c, 0)
	hash := sha256.Sum256(clientData)
	signature, err := c.sign(slices.Concat(data, hash[:]))
	if err != nil {
		return nil, err
	}
	response := map[string]any{
		"clientDataJSON": Encode(clientData), "authenticatorData": Encode(data), "signature": Encode(signature),
	}
	if !a.Anonymous {
		response["userHandle"] = Encode(c.UserHandle)
	}
	return a.answer(c, response)
}

func (a *Authenticator) algorithm() int {
	if a.Algorithm == 0 {
		return ES256
	}
	return a.Algorithm
}

func (a *Authenticator) byID(id string) *credential {
	for _, c := range a.Credentials {
		if Encode(c.ID) == id {
			return c
		}
	}
	return nil
}

// answer returns the JSON of a PublicKeyCredential.
func (a *Authenticator) answer(c *credential, response map[string]any) ([]byte, error) {
	answer := map[string]any{
		"id": Encode(c.ID), "rawId": Encode(c.ID), "type": "public-key", "response": response,
		"authenticatorAttachment": "platform", "clientExtensionResults": map[string]any{},
	}
	if a.Answer != nil {
		a.Answer(answer)
	}
	return json.Marshal(answer)
}

func (a *Authenticator) clientData(kind, challenge string) ([]byte, error) {
	said := map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": false}
	if a.ClientData != nil {
		a.ClientData(said)
	}
	return json.Marshal(said)
}

// data returns authenticator data without an attested credential. It counts the signature.
func (a *Authenticator) data(c *credential, flags byte) []byte {
	for flag, set := range map[byte]bool{
		flagPresent: !a.Absent, flagVerified: a.Verified, flagBackupEligible: a.BackupEligible, flagBackedUp: a.BackedUp,
	} {
		if set {
			flags |= flag
		}
	}
	rpID := c.RPID
	if a.RPID != "" {
		rpID = a.RPID
	}
	if c.Counter++; a.NoCounter {
		c.Counter = 0
	}
	hash := sha256.Sum256([]byte(rpID))
	return binary.BigEndian.AppendUint32(append(hash[:], flags), c.Counter)
}

// attested returns authenticator data with the public key of a new credential.
func (a *Authenticator) attested(c *credential) ([]byte, error) {
	key, err := c.cose()
	if err != nil {
		return nil, err
	}
	if a.PublicKey != nil {
		key = a.PublicKey
	}
	data := append(a.data(c, flagAttested), make([]byte, 16)...) // no AAGUID
	data = binary.BigEndian.AppendUint16(data, uint16(len(c.ID)))
	return slices.Concat(data, c.ID, key), nil
}

// cose returns the public key as CBOR (RFC 9052, section 7).
func (c *credential) cose() ([]byte, error) {
	members := map[int]any{3: c.algorithm}
	switch key := c.Key.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			return nil, err
		}
		maps.Copy(members, map[int]any{1: 2, -1: 1, -2: point[1:33], -3: point[33:]})
	case ed25519.PublicKey:
		maps.Copy(members, map[int]any{1: 1, -1: 6, -2: []byte(key)})
	case *rsa.PublicKey:
		maps.Copy(members, map[int]any{1: 3, -1: key.N.Bytes(), -2: big.NewInt(int64(key.E)).Bytes()})
	}
	return webauthncbor.Marshal(members)
}

func (c *credential) sign(message []byte) ([]byte, error) {
	if c.algorithm == EdDSA {
		return c.Key.Sign(rand.Reader, message, crypto.Hash(0))
	}
	hash := sha256.Sum256(message)
	return c.Key.Sign(rand.Reader, hash[:], crypto.SHA256)
}

func newKey(algorithm int) (crypto.Signer, error) {
	switch algorithm {
	case ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case EdDSA:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case RS256:
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return nil, fmt.Errorf("no such algorithm: %d", algorithm)
}

func random(n int) []byte {
	raw := make([]byte, n)
	rand.Read(raw) // never fails
	return raw
}

// Encode writes bytes as WebAuthn does: in base64url without padding.
func Encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
