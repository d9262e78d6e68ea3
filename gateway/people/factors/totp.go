package factors

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"authgate/gateway/store/seal"
	"authgate/gateway/strictyaml"
)

// Parameters of TOTP (RFC 6238). They are those that all authenticator apps know.
const (
	period      = 30 * time.Second
	digits      = otp.DigitsSix
	drift       = 1  // steps that the clock of the user's device may be wrong
	secretBytes = 20 // as many as SHA-1 has (RFC 4226, section 4)
)

// ErrWrongCode: the code does not belong to the secret, belongs to another time, or is used.
var ErrWrongCode = errors.New("the code is wrong, too old or used")

// ErrSealed: the TOTP secret of an account cannot be decrypted. The account still has the
// factor.
var ErrSealed = errors.New("the TOTP secret cannot be decrypted: the encryption key is another one, or the secret " +
	"belongs to another account; restore the key, or reset the factors of the account")

// Secret is a TOTP secret as users type it into an app: base32. It prints as "[redacted]".
type Secret struct{ strictyaml.Secret }

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewSecret returns a new TOTP secret.
func NewSecret() Secret {
	raw := make([]byte, secretBytes)
	rand.Read(raw) // never fails
	return Secret{strictyaml.Secret(base32Text.EncodeToString(raw))}
}

// URI returns the otpauth URI by which an app takes over the secret. issuer is the title of
// the site or its host, which the app shows with the account.
func (s Secret) URI(issuer, account string) string {
	issuer, account = labelPart(issuer), labelPart(account)
	query := url.Values{
		"secret": {s.Reveal()}, "issuer": {issuer}, "algorithm": {otp.AlgorithmSHA1.String()},
		"digits": {digits.String()}, "period": {strconv.Itoa(int(period / time.Second))},
	}
	u := url.URL{
		Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + account,
		// The library leaves & in the issuer as it is; apps show a + as it is.
		RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"),
	}
	return u.String()
}

// labelPart replaces colons, which separate issuer and account in the label of the URI.
func labelPart(text string) string { return strings.ReplaceAll(text, ":", " ") }

// Pending encrypts the secret for the time until a code confirms it. Only OpenPending of
// the same account opens it.
func (s Secret) Pending(box *seal.Box, account string) []byte {
	return box.Seal([]byte(s.Reveal()), pendingPlace(account))
}

// OpenPending decrypts the result of Pending.
func OpenPending(box *seal.Box, account string, pending []byte) (Secret, error) {
	return open(box, pending, pendingPlace(account))
}

// Confirm returns the TOTP of an account if code is one of the secret at now, or
// ErrWrongCode. The code is then used: its step is that of the TOTP.
func (s Secret) Confirm(box *seal.Box, account, code string, now time.Time) (*TOTP, error) {
	step, err := s.checkCode(code, now, 0)
	if err != nil {
		return nil, err
	}
	sealed := box.Seal([]byte(s.Reveal()), totpPlace(account))
	return &TOTP{Secret: base64.RawURLEncoding.EncodeToString(sealed), Step: step}, nil
}

// TOTP is the TOTP secret of an account, as the file of accounts has it.
type TOTP struct {
	// Secret is the encrypted secret in base64url. It is bound to the user name: moved to
	// another account, it does not open.
	Secret string `yaml:"secret" json:"secret"`
	// Step is the step of the code that confirmed the secret. Codes up to it count as used,
	// even if the store has lost its record of them.
	Step int64 `yaml:"step" json:"step"`
}

// The places for which secrets are encrypted.
func totpPlace(account string) string    { return "totp secret of " + account }
func pendingPlace(account string) string { return "totp secret to confirm of " + account }

func open(box *seal.Box, sealed []byte, place string) (Secret, error) {
	text, err := box.Open(sealed, place)
	if err != nil {
		return Secret{}, ErrSealed
	}
	return Secret{strictyaml.Secret(text)}, nil
}

// Check checks a code of an account at now, and returns its step, which the caller stores:
// last is the one that was stored, or 0. The errors are ErrWrongCode and ErrSealed.
func (t *TOTP) Check(box *seal.Box, account, code string, now time.Time, last int64) (step int64, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(t.Secret)
	if err != nil {
		return 0, ErrSealed
	}
	secret, err := open(box, sealed, totpPlace(account))
	if err != nil {
		return 0, err
	}
	return secret.checkCode(code, now, max(last, t.Step))
}

// checkCode returns the step of a code that is later than last. It looks at all steps, and
// compares in constant time, so that its duration tells nothing about the codes.
func (s Secret) checkCode(code string, now time.Time, last int64) (int64, error) {
	typed := TypedCode(code)
	if len(typed) != digits.Length() || strings.Trim(typed, "0123456789") != "" {
		return 0, ErrWrongCode
	}
	current := now.Unix() / int64(period/time.Second)
	found := int64(0)
	for step := max(current-drift, 1); step <= current+drift; step++ {
		want, err := hotp.GenerateCodeCustom(s.Reveal(), uint64(step),
			hotp.ValidateOpts{Digits: digits, Algorithm: otp.AlgorithmSHA1})
		if err != nil {
			return 0, fmt.Errorf("%w (it is not base32)", ErrSealed)
		}
		// The last of two steps with the same code, so that both are used.
		if subtle.ConstantTimeCompare([]byte(want), []byte(typed)) == 1 {
			found = step
		}
	}
	if found == 0 || found <= last {
		return 0, ErrWrongCode
	}
	return found, nil
}

func (t *TOTP) checkFields(fault func(path, format string, args ...any)) {
	if raw, err := base64.RawURLEncoding.DecodeString(t.Secret); err != nil || len(raw) == 0 {
		fault("totp.secret", "is no encrypted secret; restore it, or reset the factors of the account")
	}
	if t.Step < 0 {
		fault("totp.step", "must not be negative")
	}
}
