package store

import (
	"encoding/base32"
	"encoding/base64"
	"strings"
)

// Memory packs its most frequent keys: those of a kind and a name of digits. A byte
// takes the place of the kind, and the name has its bits. So 51 bytes of a session's
// key become 33. All other keys stay as they are, behind the byte 0.

// packedKinds are the kinds whose keys are packed. The byte of a kind is its place
// here, plus one.
func packedKinds() [4]string { return [...]string{loginKind, "session:", "refresh:", "group:"} }

// loginKind is the kind whose names are of crypto/rand.Text: 26 digits in base32.
// Those of the others are 43 digits in base64url, of which the last one has 4 bits.
const loginKind = "login:"

const (
	textDigits, textBytes = 26, 17
	hashDigits, hashBytes = 43, 32

	textPadding = "AAAAAA" // to 32 digits
	paddedBytes = 20
	lastOfHash  = "AEIMQUYcgkosw048"
)

// packedKey is a key in the form of the table. It is a value, so that a lookup
// allocates nothing for a usual key.
type packedKey struct {
	short  [96]byte
	length int    // of what is in short
	long   []byte // instead of short
}

func (k *packedKey) bytes() []byte {
	if k.long != nil {
		return k.long
	}
	return k.short[:k.length]
}

// pack returns the packed form of a key.
func pack(key string) (k packedKey) {
	kind := KindOf(key)
	for i, known := range packedKinds() {
		if kind != known {
			continue
		}
		if n := packName(k.short[1:], kind, key[len(kind):]); n > 0 {
			k.short[0], k.length = byte(i+1), 1+n
			return k
		}
	}
	if k.length = 1 + len(key); k.length > len(k.short) {
		k.long = append([]byte{0}, key...)
		return k
	}
	k.short[0] = 0
	copy(k.short[1:], key)
	return k
}

// packName stores the bits of a name in b, and returns how many bytes they are. It
// returns 0 if another name has the same bits, or if the name is not of digits. The
// decoders leave out line breaks, so what they return is too short then.
func packName(b []byte, kind, name string) int {
	if kind != loginKind {
		if len(name) != hashDigits || strings.IndexByte(lastOfHash, name[hashDigits-1]) < 0 {
			return 0
		}
		if n, err := base64.RawURLEncoding.Decode(b, []byte(name)); n != hashBytes || err != nil {
			return 0
		}
		return hashBytes
	}
	if len(name) != textDigits {
		return 0
	}
	if n, err := base32.StdEncoding.Decode(b, []byte(name+textPadding)); n != paddedBytes || err != nil {
		return 0
	}
	return textBytes
}

// unpack returns the key of a packed form.
func unpack(packed []byte) string {
	number, bits := packed[0], packed[1:]
	if number == 0 {
		return string(bits)
	}
	var b [64]byte
	kind := packedKinds()[number-1]
	key := append(b[:0], kind...)
	if kind != loginKind {
		return string(base64.RawURLEncoding.AppendEncode(key, bits))
	}
	var padded [paddedBytes]byte
	copy(padded[:], bits)
	return string(base32.StdEncoding.AppendEncode(key, padded[:])[:len(kind)+textDigits])
}
