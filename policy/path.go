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
	// Decoded is Raw percent-decoded once. Decisions use it. An encoded slash
	// of ParseTargetWithSlashes stays "%2F", which no other path contains.
	Decoded string
	// Slashed is Decoded with these encoded slashes as slashes, which is how
	// some servers read the path. It is empty if there are none. It may hold empty
	// segments, which many of these servers leave out.
	Slashed string
	// Query is the text after the first "?", byte for byte.
	Query string
	// HasQuery reports whether there was a "?". It distinguishes "/a?" from "/a".
	HasQuery bool
	// Opaque tells that only ParseTargetOpaque accepts the path: servers may read it in several
	// ways. Decoded may then hold empty segments and backslashes.
	Opaque bool
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

// ErrEncodedSlash is the error of a path with an encoded slash, which only some routes keep.
var ErrEncodedSlash = refuse("the path holds an encoded slash")

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
func ParseTarget(target string) (Path, error) { return parseTarget(target, false) }

// ParseTargetWithSlashes is ParseTarget for routes that keep encoded slashes. It
// accepts an encoded slash that is encoded once. The result is for Table.Find to judge.
//
// It refuses a path that either reading of these slashes makes ambiguous: ParseTarget must
// accept the path when they are read as slashes and empty segments are left out.
func ParseTargetWithSlashes(target string) (Path, error) { return parseTarget(target, true) }

func parseTarget(target string, keepSlashes bool) (Path, error) {
	p, err := cutTarget(target)
	if err != nil {
		return Path{}, err
	}
	holds, err := scanPath(p.Raw, keepSlashes)
	if err != nil {
		return Path{}, err
	}
	p.Decoded = p.Raw
	if holds.escaped {
		p.Decoded = decodeOnce(p.Raw)
	}
	if err := checkPath(p.Raw, p.Decoded, holds); err != nil {
		return Path{}, err
	}
	if holds.slashes {
		p.Decoded, p.Slashed = decodeOnce(encodeSlashes(p.Raw)), p.Decoded
	}
	return p, nil
}

// cutTarget cuts a target into its raw path and its query, which it checks.
func cutTarget(target string) (Path, error) {
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
	return Path{Raw: raw, Query: query, HasQuery: hasQuery}, nil
}

// traits are the unusual parts that a path holds.
type traits struct {
	escaped bool // a byte that is percent-encoded
	slashes bool // a slash that is
	wide    bool // a byte, raw or decoded, that is beyond ASCII
}

// scanPath refuses the faults that a single byte and its neighbours show.
func scanPath(raw string, keepSlashes bool) (holds traits, err error) {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
				return traits{}, refuse("the path holds a malformed percent-encoding")
			}
			holds.escaped = true
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
			if c == '/' && !keepSlashes {
				return traits{}, ErrEncodedSlash
			}
			if c == '/' || c == ' ' || c == '#' {
				holds.slashes = holds.slashes || c == '/'
				continue
			}
		}
		switch {
		case c == '/' && i > 0 && raw[i-1] == '/':
			return traits{}, refuse("the path holds an empty segment")
		case c == '\\':
			return traits{}, refuse("the path holds a backslash")
		case c == '#':
			return traits{}, refuse("the request target holds a fragment")
		case c == ' ':
			return traits{}, refuse("the path holds a space")
		case c < ' ' || c == 0x7f:
			return traits{}, refuse("the path holds a control character")
		case c >= utf8.RuneSelf:
			holds.wide = true
		}
	}
	return holds, nil
}

// checkPath refuses a path that has more than one meaning, although scanPath accepts its bytes.
func checkPath(raw, decoded string, holds traits) error {
	// Both are checked: a character that is half raw and half encoded is one
	// character decoded and none in the raw bytes.
	if holds.wide && !(utf8.ValidString(raw) && utf8.ValidString(decoded)) {
		return refuse("the path is not valid UTF-8")
	}
	if holds.wide && strings.ContainsFunc(decoded, unicode.IsControl) {
		return refuse("the path holds a control character")
	}
	final := decoded
	if holds.escaped && strings.Contains(decoded, "%") {
		final = decodeFully(decoded)
		if strings.Contains(final, `\`) || strings.Count(final, "/") != strings.Count(decoded, "/") {
			return refuse("the path holds a slash or backslash that is encoded more than once")
		}
	}
	if hasDotSegment(final) {
		return refuse(`the path holds a segment "." or ".."`)
	}
	return nil
}

// decodeOnce percent-decodes s. A "%" without two hexadecimal digits after it stays.
func decodeOnce(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String()
}

// encodeSlashes encodes the encoded slashes of a raw path a second time, so that
// decodeOnce makes "%2F" of each.
func encodeSlashes(raw string) string {
	return strings.NewReplacer("%2F", "%252F", "%2f", "%252F").Replace(raw)
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
	if p.Slashed != "" && strings.Contains(prefix, "%2F") {
		return "", false // in the prefix these are three characters
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

// Target returns the path with the query, byte for byte.
func (p Path) Target() string {
	if !p.HasQuery {
		return p.Raw
	}
	return p.Raw + "?" + p.Query
}

// CutURL cuts a URL into its parts without a change of their bytes. The target is that of a
// request line.
func CutURL(raw string) (scheme, authority, target string, ok bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, target = rest[:end], rest[end:]
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return scheme, authority, target, ok
}
