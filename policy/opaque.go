package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ParseTargetOpaque is ParseTarget for a host whose routes all decide alike, so that it does not
// matter how an application reads the path. It accepts the paths of ParseTargetWithSlashes, and
// also encoded slashes and backslashes anywhere, encoded any number of times, and empty segments.
// The result is for Table.CheckReadings to judge; Opaque tells that it must be.
//
// It refuses a path that could lead out of the routes in any reading: a segment "." or ".."
// after any number of decodings, with backslashes as slashes, alone or before a ";". It
// refuses control characters, text that is not UTF-8, and bytes that no path has.
func ParseTargetOpaque(target string) (Path, error) {
	if p, err := ParseTargetWithSlashes(target); err == nil {
		return p, nil
	}
	p, err := cutTarget(target)
	if err != nil {
		return Path{}, err
	}
	if err := checkBytes(p.Raw); err != nil {
		return Path{}, err
	}
	once := decodeOnce(p.Raw)
	switch {
	case !utf8.ValidString(p.Raw) || !utf8.ValidString(once):
		return Path{}, refuse("the path is not valid UTF-8")
	case strings.ContainsFunc(once, unicode.IsControl):
		return Path{}, refuse("the path holds a control character")
	case hasDotSegment(strings.ReplaceAll(decodeFully(p.Raw), `\`, "/")):
		return Path{}, refuse(`the path holds a segment "." or ".."`)
	}
	p.Opaque = true
	p.Decoded = decodeOnce(encodeSlashes(p.Raw))
	if p.Decoded != once {
		p.Slashed = once
	}
	return p, nil
}

// checkBytes refuses bytes that a raw path never holds.
func checkBytes(raw string) error {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '%':
			if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
				return refuse("the path holds a malformed percent-encoding")
			}
		case c == '\\':
			return refuse("the path holds a backslash")
		case c == '#':
			return refuse("the request target holds a fragment")
		case c == ' ':
			return refuse("the path holds a space")
		}
	}
	return nil
}
