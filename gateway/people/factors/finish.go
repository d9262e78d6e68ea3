package factors

import (
	"crypto/subtle"
	"encoding/hex"

	"github.com/go-webauthn/webauthn/protocol"
)

// FinishPasskey checks the answer to BeginPasskey, a RegistrationResponseJSON. The account
// must be the one for which the ceremony began. The caller adds the passkey to its Set. The
// errors are ErrMalformed, ErrRefused and that of CheckName.
func (rp *RelyingParty) FinishPasskey(
	kept []byte, account, name string, answer []byte, lookup ownerOf,
) (*Passkey, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	r, err := readRecord(kept, toAdd)
	if err != nil {
		return nil, err
	}
	if r.Account != account {
		return nil, refused("the challenge was issued to another user")
	}
	said, err := readAnswer(answer)
	if err != nil {
		return nil, err
	}
	if err := rp.checkClientData(said, protocol.CreateCeremony, r); err != nil {
		return nil, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return nil, malformed("%w", describe(err))
	}
	if err := rp.checkCreation(r, parsed); err != nil {
		return nil, err
	}
	p := newPasskey(r, name, parsed)
	if lookup(p.ID) != nil {
		return nil, refused("an account has this passkey already")
	}
	return p, nil
}

// checkCreation verifies a new credential (WebAuthn Level 3, section 7.1).
func (rp *RelyingParty) checkCreation(r *record, c *protocol.ParsedCredentialCreationData) error {
	if err := checkAttestation(&c.Response.AttestationObject); err != nil {
		return err
	}
	_, err := c.Verify(r.Challenge, rp.id, []string{rp.origin}, nil, nil, protocol.TopOriginExplicitVerificationMode,
		false, false, true, nil, parameters(), protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return refused("%w", describe(err))
	}
	data := &c.Response.AttestationObject.AuthData
	if err := checkBackup(data.Flags); err != nil {
		return err
	}
	if err := checkPublicKey(data.AttData.CredentialPublicKey); err != nil {
		return refused("%w", describe(err))
	}
	return nil
}

// checkAttestation refuses an attestation that cannot be verified. A certificate of a maker
// proves nothing to a gateway that trusts no makers. Self attestation is a signature with
// the new key alone, which the library verifies.
func checkAttestation(a *protocol.AttestationObject) error {
	switch protocol.AttestationFormat(a.Format) {
	case protocol.AttestationFormatNone:
		return nil
	case protocol.AttestationFormatPacked:
		if _, certified := a.AttStatement["x5c"]; !certified {
			return nil
		}
	}
	return refused("the attestation of format %.40q cannot be verified; none was asked for", a.Format)
}

// checkBackup refuses a passkey that has been copied but cannot be.
func checkBackup(flags protocol.AuthenticatorFlags) error {
	if flags.HasBackupState() && !flags.HasBackupEligible() {
		return refused("the passkey is backed up and not eligible for it")
	}
	return nil
}

// newPasskey returns the passkey of a verified credential.
func newPasskey(r *record, name string, c *protocol.ParsedCredentialCreationData) *Passkey {
	data := &c.Response.AttestationObject.AuthData
	return &Passkey{
		ID:             encode(data.AttData.CredentialID),
		Name:           name,
		PublicKey:      encode(data.AttData.CredentialPublicKey),
		UserHandle:     r.UserHandle,
		SignCount:      int64(data.Counter),
		Transports:     knownTransports(c.Response.Transports),
		BackupEligible: data.Flags.HasBackupEligible(),
		BackedUp:       data.Flags.HasBackupState(),
		UserVerified:   data.Flags.HasUserVerified(),
		AAGUID:         hex.EncodeToString(data.AttData.AAGUID),
	}
}

// Assertion is the proof of a passkey.
type Assertion struct {
	Account string
	Passkey Passkey
	// Counter is the signature counter now, above that of the enrolment. The caller stores it
	// before the login, and refuses the login unless it rises above the one that is stored by
	// then: see CounterRises.
	Counter int64
	// Verified says that the authenticator verified the user, as it did at the enrolment.
	Verified bool
	// AfterPassword says that the ceremony began after the password of the account.
	AfterPassword bool
}

// AMR returns the amr of the login that the assertion completes.
func (a *Assertion) AMR() []string {
	used := a.Passkey.Methods(a.Verified)
	if a.AfterPassword {
		used = append(used, Password)
	}
	return AMR(used...)
}

// FinishSignIn checks the answer to BeginSignIn or BeginSecondFactor, an
// AuthenticationResponseJSON. It always proves two factors. The errors are ErrMalformed and
// ErrRefused, with ErrCounter and ErrUnverified.
func (rp *RelyingParty) FinishSignIn(kept, answer []byte, lookup ownerOf) (*Assertion, error) {
	r, err := readRecord(kept, toSignIn, toFollow)
	if err != nil {
		return nil, err
	}
	said, err := readAnswer(answer)
	if err != nil {
		return nil, err
	}
	if err := rp.checkClientData(said, protocol.AssertCeremony, r); err != nil {
		return nil, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return nil, malformed("%w", describe(err))
	}
	owner, err := r.owner(parsed, lookup)
	if err != nil {
		return nil, err
	}
	if err := rp.checkAssertion(r, owner, parsed); err != nil {
		return nil, err
	}
	flags := parsed.Response.AuthenticatorData.Flags
	a := &Assertion{
		Account:       owner.Account,
		Passkey:       owner.Passkey,
		Counter:       int64(parsed.Response.AuthenticatorData.Counter),
		Verified:      flags.HasUserVerified() && owner.Passkey.UserVerified,
		AfterPassword: r.Purpose == toFollow,
	}
	if !a.AfterPassword && !a.Verified {
		return nil, ErrUnverified
	}
	return a, nil
}

// owner returns the owner of the passkey that answers. After a password, it must be the user
// of that password. Else the authenticator must name the user.
func (r *record) owner(parsed *protocol.ParsedCredentialAssertionData, lookup ownerOf) (*Owner, error) {
	id := encode(parsed.RawID)
	if len(parsed.RawID) > maxCredentialID {
		return nil, malformed("the credential id is longer than %d bytes", maxCredentialID)
	}
	owner := lookup(id)
	if owner == nil || owner.Account == "" || owner.Passkey.ID != id {
		return nil, refused("no account has this passkey")
	}
	if r.Purpose == toFollow && owner.Account != r.Account {
		return nil, refused("the passkey belongs to another account")
	}
	named := encode(parsed.Response.UserHandle)
	if named == "" && r.Purpose == toSignIn {
		return nil, refused("the authenticator does not name the user")
	}
	if named != "" && subtle.ConstantTimeCompare([]byte(named), []byte(owner.Passkey.UserHandle)) == 0 {
		return nil, refused("the authenticator names another user")
	}
	return owner, nil
}

// checkAssertion verifies the signature of a passkey and the signed data (WebAuthn Level 3, section
// 7.2).
func (rp *RelyingParty) checkAssertion(
	r *record, owner *Owner, parsed *protocol.ParsedCredentialAssertionData,
) error {
	key, err := decode(owner.Passkey.PublicKey, maxPublicKey)
	if err == nil {
		err = checkPublicKey(key)
	}
	if err != nil {
		return refused("the passkey %q of %q: %w", owner.Passkey.Name, owner.Account, describe(err))
	}
	err = parsed.Verify(r.Challenge, rp.id, "", []string{rp.origin}, nil, nil,
		protocol.TopOriginExplicitVerificationMode, false, false, true, key, protocol.SignaturePolicy{})
	if err != nil {
		return refused("%w", describe(err))
	}
	data := &parsed.Response.AuthenticatorData
	if err := checkBackup(data.Flags); err != nil {
		return err
	}
	if data.Flags.HasBackupEligible() != owner.Passkey.BackupEligible {
		return refused("the passkey has changed whether it can be backed up")
	}
	if !CounterRises(owner.Passkey.SignCount, int64(data.Counter)) {
		return ErrCounter
	}
	return nil
}
