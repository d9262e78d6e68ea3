package factors

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"
)

// Recovery codes: ten, each of four groups of four symbols. Sixteen symbols out of 30 are 78
// bits.
const (
	recoveryCodes  = 10
	recoveryLength = 16
	recoveryGroup  = 4
	// recoverySymbols has no letter or digit that looks like another: none of 0 and O, none
	// of 1, I and L, and no U beside V.
	recoverySymbols = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// WithRecoveryCodes returns the set with new recovery codes in the place of the ones that it
// has, and the codes, which are told once.
func (s Set) WithRecoveryCodes(account string) (changed Set, codes []string) {
	s.Recovery = make([]string, recoveryCodes)
	codes = make([]string, recoveryCodes)
	for i := range codes {
		code := newRecoveryCode()
		s.Recovery[i] = hashRecovery(account, code)
		codes[i] = grouped(code)
	}
	return s, codes
}

// newRecoveryCode returns a random code without dashes. Each symbol is equally likely:
// bytes above the last multiple of their number are drawn again.
func newRecoveryCode() string {
	const n = len(recoverySymbols)
	code := make([]byte, 0, recoveryLength)
	for one := [1]byte{}; len(code) < recoveryLength; {
		rand.Read(one[:]) // never fails
		if int(one[0]) < 256/n*n {
			code = append(code, recoverySymbols[int(one[0])%n])
		}
	}
	return string(code)
}

// grouped returns a code as it is shown: ABCD-EFGH-JKMN-PQRS.
func grouped(code string) string {
	var groups []string
	for group := range slices.Chunk([]byte(code), recoveryGroup) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, "-")
}

// Spend returns the set without the recovery code that was typed. It returns false if the
// set has no such code, or no factor that a code could stand for.
func (s Set) Spend(account, typed string) (rest Set, ok bool) {
	if !IsRecoveryCode(typed) || !s.Any() {
		return s, false
	}
	hash := []byte(hashRecovery(account, TypedCode(typed)))
	left := make([]string, 0, len(s.Recovery))
	for _, kept := range s.Recovery {
		if subtle.ConstantTimeCompare([]byte(kept), hash) == 0 {
			left = append(left, kept)
		}
	}
	if len(left) == len(s.Recovery) {
		return s, false
	}
	s.Recovery = left
	return s, true
}

// IsRecoveryCode reports whether a text has the form of a recovery code.
func IsRecoveryCode(typed string) bool {
	code := TypedCode(typed)
	return len(code) == recoveryLength && strings.Trim(code, recoverySymbols) == ""
}

// hashRecovery returns the hash of a code. One SHA-256 is enough: a person who has the hash must
// try 2^77 codes to find one, which no speed of hashing makes possible. Passwords
// need a slow hash because people choose them. The name of the account and a label are part
// of the hash, so that a hash copied to another account, or from another use, opens nothing.
func hashRecovery(account, code string) string {
	sum := sha256.Sum256([]byte("authgate recovery code\x00" + account + "\x00" + code))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// isHash reports whether a text is a result of hashRecovery.
func isHash(text string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(raw) == sha256.Size
}
