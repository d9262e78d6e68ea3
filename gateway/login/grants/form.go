package grants

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"authgate/gateway/store/record"
)

// A code, a refresh token and a device code have one form: a mark, the secret of the grant,
// the secret of the generation, and a MAC of the second with the first as its key. Scanners
// for leaked secrets find them by their mark. The MAC tells whether one was ever issued, so an
// invented one never ends a grant, and costs no look at the store. None has the length of a
// refresh token of a login.
const (
	codeMark    = "agc_"
	refreshMark = "agr_"
	deviceMark  = "agd_"

	partLength  = 26 // of crypto/rand.Text: 130 bits
	checkLength = 16 // 80 bits in base32
	length      = len(codeMark) + 2*partLength + checkLength
)

// secret is a parsed code or token.
type secret struct{ mark, family, generation string }

// newSecret returns a new secret of a new grant.
func newSecret(mark string) secret { return secret{mark, rand.Text(), rand.Text()} }

// next returns the refresh token that follows a code or a refresh token.
func (s secret) next() secret { return secret{refreshMark, s.family, rand.Text()} }

func (s secret) String() string { return s.mark + s.family + s.generation + s.checksum() }

func (s secret) checksum() string {
	mac := hmac.New(sha256.New, []byte(s.family))
	mac.Write([]byte(s.mark + s.generation))
	return base32.StdEncoding.EncodeToString(mac.Sum(nil)[:checkLength*5/8])
}

// name returns the name of the grant, which is not a secret.
func (s secret) name() string { return record.Hash([]byte(s.family)) }

// hash returns the hash of the generation, for the record of the grant.
func (s secret) hash() string { return record.Hash([]byte(s.generation)) }

// IsToken reports whether a text has the form of a code or a token that this package gives.
func IsToken(text string) bool {
	return slices.ContainsFunc([]string{codeMark, refreshMark, deviceMark}, func(mark string) bool {
		_, ok := parse(mark, text)
		return ok
	})
}

// parse parses a code or a token with that mark. ok reports whether it was ever issued.
func parse(mark, text string) (s secret, ok bool) {
	rest, ok := strings.CutPrefix(text, mark)
	if !ok || len(text) != length {
		return secret{}, false
	}
	s = secret{mark, rest[:partLength], rest[partLength : 2*partLength]}
	return s, hmac.Equal([]byte(rest[2*partLength:]), []byte(s.checksum()))
}

// isSecret reports whether a text says that it is a code or a token of this form.
func isSecret(text string) bool {
	return strings.HasPrefix(text, codeMark) || strings.HasPrefix(text, refreshMark) ||
		strings.HasPrefix(text, deviceMark)
}

// ContainsOwn reports whether a text contains a code, a refresh token or a device code that
// was issued, valid or not. An application must not get it.
func ContainsOwn(text string) bool {
	const beforeEnd = len(codeMark) - 1 // of a mark
	for at := 0; ; at++ {
		next := strings.IndexByte(text[at:], codeMark[beforeEnd])
		if next < 0 {
			return false
		}
		at += next
		start := at - beforeEnd
		if start < 0 || len(text)-start < length || !isSecret(text[start:]) {
			continue
		}
		if _, ok := parse(text[start:start+len(codeMark)], text[start:start+length]); ok {
			return true
		}
	}
}
