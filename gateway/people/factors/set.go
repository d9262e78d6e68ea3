package factors

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of factors, as clients read them.
const (
	KindTOTP    = "totp"
	KindPasskey = "passkey"
)

// Bounds of a Set.
const (
	MaxPasskeys = 32 // of one account
	MaxName     = 64 // characters of the name of a passkey
)

// Set has the factors of an account beside its password. The zero value has none. A Set is not
// changed: its methods return changed copies.
type Set struct {
	Passkeys []Passkey `yaml:"passkeys" json:"passkeys"`
	TOTP     *TOTP     `yaml:"totp" json:"totp"`
	// Recovery has the hashes of the unused recovery codes. They are no factor of their
	// own: without another one, the account has none.
	Recovery []string `yaml:"recovery_codes" json:"recovery_codes"`
}

// Any reports whether a password alone does not sign in to the account.
func (s Set) Any() bool { return s.TOTP != nil || len(s.Passkeys) > 0 }

// Count returns the number of passkeys, plus one for TOTP.
func (s Set) Count() int {
	n := len(s.Passkeys)
	if s.TOTP != nil {
		n++
	}
	return n
}

// Kinds returns the kinds of factors that the account has: KindTOTP, KindPasskey.
func (s Set) Kinds() []string {
	kinds := []string{}
	if s.TOTP != nil {
		kinds = append(kinds, KindTOTP)
	}
	if len(s.Passkeys) > 0 {
		kinds = append(kinds, KindPasskey)
	}
	return kinds
}

// Passkey returns the passkey with a credential id.
func (s Set) Passkey(id string) (Passkey, bool) {
	at := slices.IndexFunc(s.Passkeys, func(p Passkey) bool { return p.ID == id })
	if id == "" || at < 0 {
		return Passkey{}, false
	}
	return s.Passkeys[at], true
}

// WithPasskey returns the set with one more passkey. It fails if the set has it already, or
// has MaxPasskeys.
func (s Set) WithPasskey(p Passkey) (Set, error) {
	if _, twice := s.Passkey(p.ID); twice {
		return s, fmt.Errorf("%w: the account has this passkey already", ErrRefused)
	}
	if len(s.Passkeys) >= MaxPasskeys {
		return s, fmt.Errorf("%w: the account has %d passkeys, the most that it can have", ErrRefused, MaxPasskeys)
	}
	s.Passkeys = append(slices.Clone(s.Passkeys), p)
	return s, nil
}

// WithoutPasskey returns the set without the passkey with a credential id. It returns false
// if there is none.
func (s Set) WithoutPasskey(id string) (Set, bool) {
	if _, ok := s.Passkey(id); !ok {
		return s, false
	}
	s.Passkeys = slices.DeleteFunc(slices.Clone(s.Passkeys), func(p Passkey) bool { return p.ID == id })
	return s.prune(), true
}

// WithTOTP returns the set with t in the place of the TOTP that it has.
func (s Set) WithTOTP(t *TOTP) Set {
	s.TOTP = t
	return s
}

// WithoutTOTP returns the set without TOTP. It returns false if there is none.
func (s Set) WithoutTOTP() (Set, bool) {
	had := s.TOTP != nil
	s.TOTP = nil
	return s.prune(), had
}

// Added returns the methods that a user has proved by adding factors to the set before: the
// methods of the factors that are new. A passkey tells whether it verified the user then.
func (s Set) Added(before Set) (methods []string) {
	for _, p := range s.Passkeys {
		if _, had := before.Passkey(p.ID); !had {
			methods = append(methods, p.Methods(p.UserVerified)...)
		}
	}
	if s.TOTP != nil && (before.TOTP == nil || before.TOTP.Secret != s.TOTP.Secret) {
		methods = append(methods, OTP)
	}
	return methods
}

// prune returns the set without recovery codes if the last factor has gone.
func (s Set) prune() Set {
	if !s.Any() {
		return Set{}
	}
	return s
}

// Check reports the mistakes in a set that was read from a file. fault takes the path of a value in
// the set, such as passkeys[1].id.
func (s Set) Check(fault func(path, format string, args ...any)) {
	if len(s.Passkeys) > MaxPasskeys {
		fault("passkeys", "has %d passkeys; an account can have %d", len(s.Passkeys), MaxPasskeys)
	}
	first := map[string]int{}
	for i, p := range s.Passkeys {
		path := fmt.Sprintf("passkeys[%d]", i)
		p.checkFields(func(key, format string, args ...any) { fault(path+"."+key, format, args...) })
		if before, twice := first[p.ID]; twice {
			fault(path+".id", "is the passkey of passkeys[%d] again; remove one of the two", before)
		} else {
			first[p.ID] = i
		}
	}
	if s.TOTP != nil {
		s.TOTP.checkFields(fault)
	}
	for i, hash := range s.Recovery {
		path := fmt.Sprintf("recovery_codes[%d]", i)
		if !isHash(hash) {
			fault(path, "is no hash of a recovery code; remove it, or reset the factors of the account")
		} else if slices.Contains(s.Recovery[:i], hash) {
			fault(path, "is there twice; remove one of the two")
		}
	}
}

// errName: a text cannot be the name of a passkey. The error tells users which can.
var errName = fmt.Errorf("the name of a passkey must have 1 to %d characters that can be printed", MaxName)

// CheckName returns an error if a text cannot be the name of a passkey.
func CheckName(name string) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > MaxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errName
	}
	return nil
}
