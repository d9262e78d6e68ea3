package factors

import (
	"strings"
	"unicode"
)

// maxTyped is the longest text, in bytes, that can be a code of any kind.
const maxTyped = 256

// minusSign is a dash to the eye, and a symbol to Unicode.
const minusSign = '\u2212'

// TypedCode returns a code as it was shown, by the text that a person has typed or pasted: without
// spaces, punctuation and invisible characters, and with letters in upper case. A text that is too
// long for any code gives an empty one. Only the case of ASCII is folded: the long s (ſ) is no S.
func TypedCode(typed string) string {
	if len(typed) > maxTyped {
		return ""
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsPunct(r), unicode.Is(unicode.Cf, r), r == minusSign:
			return -1
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return r
	}, typed)
}
