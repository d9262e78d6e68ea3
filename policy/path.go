package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Path is a request target in the one form that it can have here. Only
// ParseTarget makes it; the zero Path matches no route.
type Path struct {
	// Raw is the path as received, without the query. It is what is forwarded.
	Raw string
	// Decoded is Raw percent-decoded once. It is what is decided on.
	Decoded string
	// Query is what follows the first "?", byte for byte.
	Query string
	// HasQuery tells "/a?" from "/a": whether there was a "?".
	HasQuery bool
}

// TargetError says why a request target or a host is refused. It ends in a
// 400.
type TargetError struct {
	// Reason is a phrase without anything of the input in it, fit for the
	// client and for logs.
	Reason string
}

func (e *TargetError) Error() string { return e.Reason }

func refuse(reason string) error { return &TargetError{Reason: reason} }

// ParseTarget reads the request target as it stands in the request line, or
// in :path of HTTP/2. It takes the origin-form alone (RFC 9112, section
// 3.2.1). What it refuses, always with a *TargetError, is whatever a server
// behind could read as another path: control characters, spaces, backslashes
// and fragments, raw or encoded where that makes sense; encoded slashes;
// empty segments; text that is not UTF-8; segments that are "." or "..", alone
// or before a ";"; and everything that further rounds of decoding, however
// many, turn into a slash, a backslash or such a segment.
//
// The query may hold no control character, space or "#"; nothing else of it
// is looked at.
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

// decodePath decodes raw once, or says why it has no single meaning.
func decodePath(raw string) (string, error) {
	escaped, wide, err := scanPath(raw)
	if err != nil {
		return "", err
	}
	decoded := raw
	if escaped {
		decoded = decodeOnce(raw)
	}
	// Both are looked at: half a character raw and half of it encoded is one
	// to us, and two to whoever looks at the bytes.
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

// scanPath refuses what can be told from a single byte and its neighbours. It
// reports whether anything is percent-encoded and whether anything, raw or
// decoded, lies beyond ASCII.
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

// decodeOnce percent-decodes s, of which scanPath has found every encoding to
// be well-formed.
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

// decodeFully percent-decodes s until nothing is left to decode; a "%" that
// two hexadecimal digits don't follow stays. Two encodings never overlap, so
// the order of decoding does not matter, and one pass that looks back after
// each byte gets where round after round would get in quadratic time. What
// this package looks for can be found at the end alone, because no round
// removes a slash, a backslash, a dot or a semicolon.
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

// hasDotSegment reports whether a segment of p is "." or "..", once cut at
// its first ";".
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

// StripPrefix returns the raw path that is left once prefix is removed, and
// whether the path begins with prefix. The prefix is written decoded and ends
// where a segment ends: "/api" leaves "/x" of "/%61pi/x", "/" of "/api", and
// does not begin "/apix". A slash at the end of the prefix has to be in the
// path too. What is left is a path that ParseTarget accepts.
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
