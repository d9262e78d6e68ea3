// Package password makes and verifies password hashes: argon2id (RFC 9106), as
// PHC strings, and bcrypt.
//
// # Limits and threats
//
// Parse refuses a hash that is too cheap, because it protects no password. It also refuses one that
// is too expensive, because a few logins could then stop the gateway. Verify does the same work for
// every wrong password, and twice that for one that is not in NFC, whatever the hash. It never
// accepts a password that the algorithm would truncate or confuse with another. The caller must
// bound how many verifications run at once.
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/text/unicode/norm"
)

const (
	// maxPassword is the longest accepted password, in bytes.
	maxPassword = 1024
	// maxBcryptPassword is how many bytes of a password bcrypt reads.
	maxBcryptPassword = 72
)

// Hash is a stored password hash, parsed: argon2id or bcrypt. The zero value
// matches no password.
type Hash struct {
	encoded string // as stored
	bcrypt  int    // cost, 4 to 20; 0 for argon2id

	// argon2id, RFC 9106, section 3.1.
	memory uint32 // KiB
	passes uint32
	lanes  uint8
	salt   []byte
	key    []byte
}

// New returns a new hash of password in NFC: argon2id with 19 MiB of memory, 2 passes
// and 1 lane, as a PHC string. It refuses an empty password, one of more than 1024
// bytes, and one that is not UTF-8.
func New(password string) (string, error) {
	password = norm.NFC.String(password)
	switch {
	case password == "":
		return "", errors.New("hashing a password: it is empty")
	case len(password) > maxPassword:
		return "", fmt.Errorf("hashing a password: it has %d bytes, the limit is %d", len(password), maxPassword)
	case !utf8.ValidString(password):
		return "", errors.New("hashing a password: it is not valid UTF-8")
	}
	h := Unmatched()
	h.key = h.derive(password)
	return h.phc(), nil
}

// Unmatched returns a hash with the parameters of New, a new salt and a random
// key, which no known password matches.
func Unmatched() Hash {
	h := Hash{memory: 19456, passes: 2, lanes: 1, salt: random(16), key: random(32)}
	h.encoded = h.phc()
	return h
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return b
}

// IsHash reports whether a text is a hash, or looks like one. Any other text may be a secret
// itself.
func IsHash(text string) bool {
	return strings.HasPrefix(text, "$argon2") || strings.HasPrefix(text, "$2")
}

// Parse parses a stored password hash. It is an argon2id PHC string of version 19, as from New, or
// a bcrypt hash, as from htpasswd, of the kinds 2a, 2b and 2y with a cost of 4 to 20. Malformed,
// very weak and very expensive parameters are errors. An error never contains s.
func Parse(s string) (Hash, error) {
	switch {
	case strings.HasPrefix(s, "$argon2id$"):
		h, err := parseArgon2id(s)
		if err != nil {
			return Hash{}, fmt.Errorf("argon2id hash: %w", err)
		}
		return h, nil
	case strings.HasPrefix(s, "$2"):
		return parseBcrypt(s)
	}
	return Hash{}, errors.New("not a supported password hash: want argon2id ($argon2id$v=19$...) " +
		"or bcrypt ($2y$...), as `authgate hash-password` prints")
}

var bcryptFormat = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)

func parseBcrypt(s string) (Hash, error) {
	match := bcryptFormat.FindStringSubmatch(s)
	if match == nil {
		return Hash{}, errors.New("bcrypt hash: want $2a$, $2b$ or $2y$, a cost of two digits, $ and 53 characters; " +
			"is it cut off?")
	}
	cost, err := strconv.Atoi(match[1])
	if err != nil || cost < 4 || cost > 20 {
		return Hash{}, fmt.Errorf("bcrypt hash: the cost is %s, want 04 to 20", match[1])
	}
	return Hash{encoded: s, bcrypt: cost}, nil
}

func parseArgon2id(s string) (Hash, error) {
	part := strings.Split(s, "$")
	if len(part) != 6 {
		return Hash{}, errors.New("want $argon2id$v=19$m=...,t=...,p=...$salt$hash; is it cut off?")
	}
	if part[2] != "v=19" {
		return Hash{}, errors.New("want version 19 (v=19)")
	}
	var h Hash
	if _, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &h.memory, &h.passes, &h.lanes); err != nil {
		return Hash{}, errors.New("want parameters m=...,t=...,p=... in this order and within their limits")
	}
	var saltErr, keyErr error
	h.salt, saltErr = base64.RawStdEncoding.DecodeString(part[4])
	h.key, keyErr = base64.RawStdEncoding.DecodeString(part[5])
	switch {
	case h.lanes < 1 || h.lanes > 64:
		return Hash{}, fmt.Errorf("p is %d, want 1 to 64", h.lanes)
	case h.passes < 1 || h.passes > 64:
		return Hash{}, fmt.Errorf("t is %d, want 1 to 64", h.passes)
	case h.memory < 8*uint32(h.lanes) || h.memory > 1<<20:
		return Hash{}, fmt.Errorf("m is %d, want %d (8 times p) to 1048576 KiB", h.memory, 8*uint32(h.lanes))
	case saltErr != nil || keyErr != nil:
		return Hash{}, errors.New("salt and hash must be base64 without padding")
	case len(h.salt) < 8 || len(h.salt) > 64:
		return Hash{}, fmt.Errorf("the salt has %d bytes, want 8 to 64", len(h.salt))
	case len(h.key) < 16 || len(h.key) > 64:
		return Hash{}, fmt.Errorf("the hash has %d bytes, want 16 to 64", len(h.key))
	}
	h.encoded = s // not a copy: there may be many accounts
	if h.phc() != s {
		// Leading zeros, line breaks within base64, text after p=.
		return Hash{}, errors.New("not in the canonical form of a PHC string")
	}
	return h, nil
}

// Encoded returns the hash as it is stored.
func (h Hash) Encoded() string { return h.encoded }

// Format implements fmt.Formatter. It prints "[redacted]" for any verb, so that a
// Hash never shows in a log or an error.
func (h Hash) Format(s fmt.State, _ rune) { io.WriteString(s, "[redacted]") }

// MarshalText implements encoding.TextMarshaler for JSON and log/slog. It hides
// the hash.
func (h Hash) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// phc encodes an argon2id hash as a PHC string.
func (h Hash) phc() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.passes, h.lanes,
		base64.RawStdEncoding.EncodeToString(h.salt), base64.RawStdEncoding.EncodeToString(h.key))
}

// Cost describes the work of Verify: hashes with equal costs take equal work.
func (h Hash) Cost() string {
	if h.bcrypt > 0 {
		return fmt.Sprintf("bcrypt,cost=%d", h.bcrypt)
	}
	return fmt.Sprintf("argon2id,m=%d,t=%d,p=%d", h.memory, h.passes, h.lanes)
}

// The least cost of a hash that is not weak.
const (
	strongBcrypt   = 10
	strongArgon2id = 19 << 10 // KiB
)

// Weakness says why a copy of the hash gives the password away sooner than it should:
// the hash costs less than one of New, and bcrypt less than 10. Else it is "".
func (h Hash) Weakness() string {
	switch {
	case h.bcrypt > 0 && h.bcrypt < strongBcrypt:
		return fmt.Sprintf("bcrypt has a cost of %d, and at least %d is recommended", h.bcrypt, strongBcrypt)
	case h.bcrypt == 0 && len(h.key) > 0 && h.memory < strongArgon2id:
		return fmt.Sprintf("argon2id uses %d KiB, and at least %d KiB (19 MiB) is recommended",
			h.memory, strongArgon2id)
	}
	return ""
}

// Decoy returns a hash of the same cost that no known password matches.
func (h Hash) Decoy() Hash {
	if h.bcrypt > 0 {
		// The alphabet of bcrypt's base64 has a period instead of the plus sign.
		text := strings.ReplaceAll(base64.RawStdEncoding.EncodeToString(random(40)), "+", ".")
		return Hash{encoded: fmt.Sprintf("$2b$%02d$%s", h.bcrypt, text[:53]), bcrypt: h.bcrypt}
	}
	h.salt, h.key = random(len(h.salt)), random(len(h.key))
	h.encoded = h.phc()
	return h
}

// Verify reports whether password is the one that was hashed: as it is, or else in
// NFC, because keyboards send one form or another. It does the same work for a
// password that is too long, and never accepts it.
func (h Hash) Verify(password string) bool {
	if h.verify(password) {
		return true
	}
	normal := norm.NFC.String(password)
	return normal != password && h.verify(normal)
}

func (h Hash) verify(password string) bool {
	if h.bcrypt > 0 {
		return h.verifyBcrypt(password)
	}
	if len(h.key) == 0 {
		return false
	}
	candidate := h.derive(password[:min(len(password), maxPassword)])
	return subtle.ConstantTimeCompare(candidate, h.key) == 1 && len(password) <= maxPassword
}

func (h Hash) verifyBcrypt(password string) bool {
	candidate := []byte(password[:min(len(password), maxBcryptPassword)])
	err := bcrypt.CompareHashAndPassword([]byte(h.encoded), candidate)
	// bcrypt repeats the password with a NUL after it, so that "a" and "a\x00a"
	// have the same hash. Therefore a NUL is refused.
	return err == nil && len(password) <= maxBcryptPassword && !strings.Contains(password, "\x00")
}

func (h Hash) derive(password string) []byte {
	return argon2.IDKey([]byte(password), h.salt, h.passes, h.memory, h.lanes, uint32(len(h.key)))
}
