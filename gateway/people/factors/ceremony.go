package factors

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
)

// ChallengeLife is how long the record of a Ceremony may be kept.
const ChallengeLife = 10 * time.Minute

// Sizes of random values, in bytes.
const (
	challengeBytes  = 32
	userHandleBytes = 32
)

// Errors of answers. Their texts are for operators.
var (
	// ErrMalformed: the answer cannot be read, or can be read in more than one way.
	ErrMalformed = errors.New("the answer is not understood")
	// ErrRefused: the answer proves nothing.
	ErrRefused = errors.New("the answer is refused")
	// ErrCounter is an ErrRefused: the counter did not rise. Probably there are two copies
	// of the authenticator.
	ErrCounter = fmt.Errorf("%w: the signature counter of the passkey did not rise; it may have been copied",
		ErrRefused)
	// ErrUnverified is an ErrRefused: a passkey alone does not sign in, because its
	// authenticator did not verify the user.
	ErrUnverified = fmt.Errorf("%w: the authenticator did not verify the user", ErrRefused)
)

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// Ceremony is a question of the gateway to an authenticator, which one answer ends.
type Ceremony struct {
	// Options is the JSON for the browser: PublicKeyCredentialCreationOptionsJSON or
	// PublicKeyCredentialRequestOptionsJSON.
	Options json.RawMessage
	// Key names the ceremony. CeremonyKey finds it in the answer.
	Key string
	// Record is for checking the answer, and not for the browser. An answer without a record is
	// checked against nil, and refused.
	Record []byte
}

// The purpose of a ceremony.
const (
	toAdd    = "add a passkey"
	toSignIn = "sign in"
	toFollow = "follow a password"
)

// record is the content of Ceremony.Record.
type record struct {
	Purpose    string `json:"purpose"`
	Challenge  string `json:"challenge"`
	Account    string `json:"account,omitempty"`     // empty for toSignIn
	UserHandle string `json:"user_handle,omitempty"` // for toAdd
}

// readRecord reads the record of a ceremony for one of the purposes. No record is a challenge
// that was answered already, has expired or was never issued.
func readRecord(raw []byte, purposes ...string) (*record, error) {
	if len(raw) == 0 {
		return nil, refused("the challenge is used, too old, or not of this gateway")
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("reading the record of a ceremony: %w", err)
	}
	for _, purpose := range purposes {
		if r.Purpose == purpose && r.Challenge != "" && (r.Account == "") == (purpose == toSignIn) {
			return &r, nil
		}
	}
	return nil, refused("the challenge was issued to %s", r.Purpose)
}

// begun returns the ceremony of a record.
func (r record) begun(options any) (*Ceremony, error) {
	shown, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	kept, err := json.Marshal(r)
	return &Ceremony{Options: shown, Key: r.Challenge, Record: kept}, err
}

// random returns n random bytes.
func random(n int) []byte {
	raw := make([]byte, n)
	rand.Read(raw) // never fails
	return raw
}

// Owner is who has a passkey.
type Owner struct {
	Account string // the user name
	Passkey Passkey
}

// ownerOf returns the owner of the passkey with a credential id, or nil if there is none.
type ownerOf func(credentialID string) *Owner

// NewUser is a user who adds a passkey.
type NewUser struct {
	Account  string
	Name     string    // the display name; may be empty
	Passkeys []Passkey // that the account has
}

// BeginPasskey begins the enrolment of a passkey.
func (rp *RelyingParty) BeginPasskey(u NewUser) (*Ceremony, error) {
	if u.Account == "" {
		return nil, errors.New("a passkey needs an account")
	}
	if len(u.Passkeys) >= MaxPasskeys {
		return nil, refused("the account has %d passkeys, the most that it can have", MaxPasskeys)
	}
	exclude, err := descriptors(u.Passkeys)
	if err != nil {
		return nil, err
	}
	handle := random(userHandleBytes)
	if len(u.Passkeys) > 0 { // an authenticator keeps one passkey for each handle
		if handle, err = decode(u.Passkeys[0].UserHandle, maxUserHandle); err != nil {
			return nil, fmt.Errorf("the user handle of the passkey %q: %w", u.Passkeys[0].Name, err)
		}
	}
	if u.Name == "" {
		u.Name = u.Account
	}
	challenge, notNeeded := random(challengeBytes), false
	options := protocol.PublicKeyCredentialCreationOptions{
		RelyingParty: protocol.RelyingPartyEntity{
			ID: rp.id, CredentialEntity: protocol.CredentialEntity{Name: rp.name},
		},
		User: protocol.UserEntity{
			ID:               protocol.URLEncodedBase64(handle),
			DisplayName:      u.Name,
			CredentialEntity: protocol.CredentialEntity{Name: u.Account},
		},
		Challenge:             challenge,
		Parameters:            parameters(),
		Timeout:               int(ChallengeLife.Milliseconds()),
		CredentialExcludeList: exclude,
		// Preferred: a security key without room for it is still a second factor.
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey:        protocol.ResidentKeyRequirementPreferred,
			RequireResidentKey: &notNeeded,
			UserVerification:   protocol.VerificationPreferred,
		},
		Attestation: protocol.PreferNoAttestation,
	}
	r := record{Purpose: toAdd, Challenge: encode(challenge), Account: u.Account, UserHandle: encode(handle)}
	return r.begun(options)
}

// parameters returns the algorithms as options name them.
func parameters() (all []protocol.CredentialParameter) {
	for _, algorithm := range algorithms() {
		all = append(all, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: algorithm})
	}
	return all
}

// BeginSignIn begins a sign-in with a passkey alone. The authenticator says whose it is, and
// must verify the user.
func (rp *RelyingParty) BeginSignIn() (*Ceremony, error) {
	return rp.beginAssertion(record{Purpose: toSignIn}, nil, protocol.VerificationRequired)
}

// BeginSecondFactor begins the use of one of an account's passkeys after its password. The
// caller has checked the password.
func (rp *RelyingParty) BeginSecondFactor(account string, passkeys []Passkey) (*Ceremony, error) {
	allow, err := descriptors(passkeys)
	if err != nil {
		return nil, err
	}
	if account == "" || len(allow) == 0 {
		return nil, refused("the account has no passkey")
	}
	return rp.beginAssertion(record{Purpose: toFollow, Account: account}, allow, protocol.VerificationPreferred)
}

func (rp *RelyingParty) beginAssertion(
	r record, allow []protocol.CredentialDescriptor, verification protocol.UserVerificationRequirement,
) (*Ceremony, error) {
	challenge := random(challengeBytes)
	r.Challenge = encode(challenge)
	return r.begun(protocol.PublicKeyCredentialRequestOptions{
		Challenge:          challenge,
		Timeout:            int(ChallengeLife.Milliseconds()),
		RelyingPartyID:     rp.id,
		AllowedCredentials: allow,
		UserVerification:   verification,
	})
}
