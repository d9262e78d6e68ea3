package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Path is a request target in canonical form. ParseTarget makes it. The zero
// Path matches no route.
type Path struct {
	// Raw is the path as received, without the query. The gateway forwards it.
	Raw string
	// Decoded is Raw percent-decoded once. Decisions use it.
	Decoded string
	// Query is what follows the first "?", byte for byte.
	Query string
	// HasQuery reports whether there was a "?". It distinguishes "/a?" from "/a".
	HasQuery bool
}

// TargetError says why a request target or a host is refused. The gateway
// answers it with status 400.
type TargetError struct {
	// Reason is a phrase that contains nothing of the input. It can be sent to
	// the client and logged.
	Reason string
}

func (e *TargetError) Error() string { return e.Reason }

func refuse(reason string) error { return &TargetError{Reason: reason} }

// ParseTarget parses the request target of the request line, or :path of
// HTTP/2. It accepts the origin-form only (RFC 9112, section 3.2.1). The error
// is a *TargetError.
//
// ParseTarget refuses every path that a server could read as another path. Such
// a path contains
//   - a control character or a backslash, raw or encoded
//   - a raw space or a fragment
//   - an encoded slash or an empty segment
//   - text that is not UTF-8
//   - a segment "." or "..", alone or before a ";"
//   - anything that further decoding, in any number of rounds, turns into a
//     slash, a backslash or such a segment
//
// It also refuses a query with a control character, a space or a "#".
func ParseTarget(target string) (Path, error) {
	switch {
	case target == "":
		return Path{}, refuse("the request target is empty")
	case target[0] != '/':
		return Path{}, refuse("the request target must be a path that begins with a slash")
	}
	raw, query, hasQuery := strings.Cut(target, "?")
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c == 0x7f || c == '#' {
			return Path{}, refuse("the query holds a space, a control character or a fragment")
		}
	}
	decoded, err := decodePath(raw)
	if err != nil {
		return Path{}, err
	}
	return Path{Raw: raw, Decoded: decoded, Query: query, HasQuery: hasQuery}, nil
}

// decodePath decodes raw once, or returns why it has more than one meaning.
func decodePath(raw string) (string, error) {
	escaped, wide, err := scanPath(raw)
	if err != nil {
		return "", err
	}
	decoded := raw
	if escaped {
		decoded = decodeOnce(raw)
	}
	// Both are checked: a character that is half raw and half encoded is one
	// character decoded and none in the raw bytes.
	if wide && !(utf8.ValidString(raw) && utf8.ValidString(decoded)) {
		return "", refuse("the path is not valid UTF-8")
	}
	if wide && strings.ContainsFunc(decoded, unicode.IsControl) {
		return "", refuse("the path holds a control character")
	}
	final := decoded
	if escaped && strings.Contains(decoded, "%") {
		final = decodeFully(decoded)
		if strings.Contains(final, `\`) || strings.Count(final, "/") != strings.Count(decoded, "/") {
			return "", refuse("the path holds a slash or backslash that is encoded more than once")
		}
	}
	if hasDotSegment(final) {
		return "", refuse(`the path holds a segment "." or ".."`)
	}
	return decoded, nil
}

// scanPath refuses what a single byte and its neighbours show. It reports
// whether a byte is percent-encoded, and whether a byte, raw or decoded, is
// beyond ASCII.
func scanPath(raw string) (escaped, wide bool, err error) {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
				return false, false, refuse("the path holds a malformed percent-encoding")
			}
			escaped = true
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
			if c == '/' {
				return false, false, refuse("the path holds an encoded slash")
			}
			if c == ' ' || c == '#' {
				continue
			}
		}
		switch {
		case c == '/' && i > 0 && raw[i-1] == '/':
			return false, false, refuse("the path holds an empty segment")
		case c == '\\':
			return false, false, refuse("the path holds a backslash")
		case c == '#':
			return false, false, refuse("the request target holds a fragment")
		case c == ' ':
			return false, false, refuse("the path holds a space")
		case c < ' ' || c == 0x7f:
			return false, false, refuse("the path holds a control character")
		case c >= utf8.RuneSelf:
			wide = true
		}
	}
	return escaped, wide, nil
}

// decodeOnce percent-decodes s. scanPath must have accepted s.
func decodeOnce(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String()
}

// decodeFully percent-decodes s until nothing is left to decode. A "%" without
// two hexadecimal digits after it stays. Encodings never overlap, so the order
// of decoding does not matter: one pass that looks back after each byte gives
// the result of all rounds in linear time. Checking the end result is enough,
// because no round removes a slash, a backslash, a dot or a semicolon.
func decodeFully(s string) string {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		b = append(b, s[i])
		for n := len(b); n >= 3 && b[n-3] == '%' && isHex(b[n-2]) && isHex(b[n-1]); n = len(b) {
			b[n-3] = unhex(b[n-2])<<4 | unhex(b[n-1])
			b = b[:n-2]
		}
	}
	return string(b)
}

// hasDotSegment reports whether a segment of p, cut at its first ";", is "." or
// "..".
func hasDotSegment(p string) bool {
	for {
		_, rest, found := strings.Cut(p, "/.")
		if !found {
			return false
		}
		p = rest
		rest = strings.TrimPrefix(rest, ".")
		if rest == "" || rest[0] == '/' || rest[0] == ';' {
			return true
		}
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unhex returns the value of the hexadecimal digit c.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// StripPrefix returns the raw path without prefix, and whether the path begins
// with prefix. The prefix is in decoded form and must end where a segment ends:
// "/api" leaves "/x" of "/%61pi/x" and "/" of "/api", and it is not a prefix of
// "/apix". If the prefix ends in a slash, the path must contain that slash.
// ParseTarget accepts the result.
func (p Path) StripPrefix(prefix string) (string, bool) {
	if p.Decoded == "" || !strings.HasPrefix(p.Decoded, prefix) {
		return "", false
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if rest := p.Decoded[len(prefix):]; rest != "" && rest[0] != '/' {
		return "", false
	}
	end := 0 // of the prefix, in Raw
	for range len(prefix) {
		if p.Raw[end] == '%' {
			end += 2
		}
		end++
	}
	if end == len(p.Raw) {
		return "/", true
	}
	return p.Raw[end:], true
}
