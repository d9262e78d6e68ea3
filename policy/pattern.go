package policy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
)

// pattern is the pattern of a route, parsed. Its syntax and meaning are those of
// net/http.ServeMux. In addition, the first label of a host may be "*", which
// matches any one label.
type pattern struct {
	text         string // with the host in canonical form
	method, host string // empty: every one
	segments     []segment
	form         form
}

// segment is a part of a pattern's path. A path that ends in a slash has a
// segment of kind rest for the path after that slash.
type segment struct {
	kind segmentKind
	text string // a literal, decoded, or the name of a wildcard; else empty
}

// segmentKind is how a segment matches.
type segmentKind byte

const (
	literal segmentKind = 'l' // one segment: text
	wild    segmentKind = 'w' // any one segment
	rest    segmentKind = 'r' // the path after a slash, also an empty one
	end     segmentKind = 'e' // nothing after a slash
)

// parsePattern parses the pattern of a route. It refuses a pattern that no
// canonical request can match.
func parsePattern(route string) (*pattern, error) {
	method, host, path, err := splitPattern(route)
	if err != nil {
		return nil, err
	}
	if err := checkPatternPath(path); err != nil {
		return nil, err
	}
	p := &pattern{text: host + path, method: method, host: host}
	if method != "" {
		p.text = method + " " + p.text
	}
	p.segments, err = parseSegments(path)
	if err != nil {
		return nil, err
	}
	p.form = newForm(method, p.segments)
	return p, nil
}

// splitPattern returns the parts of a pattern, the host in canonical form.
func splitPattern(pattern string) (method, host, path string, err error) {
	left := pattern
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		method, left = pattern[:i], strings.TrimLeft(pattern[i:], " \t")
		if err := checkMethod(method); err != nil {
			return "", "", "", fmt.Errorf("the method %q %w", method, err)
		}
	}
	if method == http.MethodConnect {
		return "", "", "", errors.New("CONNECT is never forwarded")
	}
	if scheme, rest, ok := strings.Cut(left, "://"); ok && !strings.Contains(scheme, "/") {
		return "", "", "", fmt.Errorf("begins with a scheme; write it without: %s", rest)
	}
	slash := strings.IndexByte(left, '/')
	if slash < 0 {
		return "", "", "", errors.New("has no path; expected [METHOD ][HOST]/[PATH]")
	}
	host, path = left[:slash], left[slash:]
	if host == "" {
		return method, "", path, nil
	}
	name, port, err := splitPort(host)
	if err == nil && port != "" {
		return "", "", "", fmt.Errorf("the host has the port %q; hosts are compared without port, so remove it", port)
	}
	if err == nil {
		host, err = canonicalPatternHost(name)
	}
	return method, host, path, err
}

// canonicalPatternHost is CanonicalHost for the host of a pattern, which may have
// a wildcard.
func canonicalPatternHost(host string) (string, error) {
	if err := CheckASCII(strings.TrimPrefix(host, "*.")); err != nil {
		return "", fmt.Errorf("the host %w", err)
	}
	if !strings.Contains(host, "*") {
		return CanonicalHost(host)
	}
	parent, first := strings.CutPrefix(host, "*.")
	if !first || strings.Contains(parent, "*") {
		return "", errors.New("the host has a * that is not its whole first label; " +
			"* means one label, as in *.example.org")
	}
	parent, err := CanonicalHost(parent)
	if err != nil {
		return "", err
	}
	if parent[0] == '[' || isNumber(parent[strings.LastIndexByte(parent, '.')+1:]) {
		return "", errors.New("the host has a * before an address; only names have wildcards")
	}
	return "*." + parent, nil
}

// isNumber reports whether the last label of a host makes it an address.
func isNumber(label string) bool { return strings.Trim(label, "0123456789") == "" }

// PatternHost returns the host of a pattern in canonical form, with "*." before it
// if that means one more label. It returns "" if the pattern has no host or
// NewTable refuses it.
func PatternHost(pattern string) string {
	_, host, _, err := splitPattern(pattern)
	if err != nil {
		return ""
	}
	return host
}

// checkPatternPath checks that ParseTarget accepts the paths that the pattern
// matches.
func checkPatternPath(path string) error {
	if before, found := strings.CutSuffix(path, "/{$}"); found {
		path = before + "/"
	}
	var example strings.Builder
	for segment := range strings.SplitSeq(path[1:], "/") {
		example.WriteByte('/')
		if strings.HasPrefix(segment, "{") { // a wildcard; parseSegments checks it
			example.WriteByte('x')
			continue
		}
		if strings.ContainsAny(segment, "?#") {
			return errors.New("a pattern has no query and no fragment; write %3F or %23 for the characters themselves")
		}
		literal, err := url.PathUnescape(segment)
		if err != nil {
			return errors.New("the path holds a malformed percent-encoding; write %25 for a percent sign")
		}
		example.WriteString(url.PathEscape(literal))
	}
	if _, err := ParseTarget(example.String()); err != nil {
		return fmt.Errorf("can never match: %w", err)
	}
	return nil
}

// CheckReadable returns an error if no path can match a pattern, because servers read it in several
// ways, and another one leads to another route. It is for routes that refuse such paths. The faults
// that NewTable reports are none of its errors.
func CheckReadable(route string) error {
	p, err := parsePattern(route)
	if err != nil {
		return nil
	}
	for _, s := range p.segments {
		switch again := decodeFully(s.text); {
		case s.kind != literal:
		case strings.Contains(again, ";"):
			return fmt.Errorf(`can never match: what follows a ";" in the path leads to another route; leave out %q`,
				again[strings.IndexByte(again, ';'):])
		case again != s.text:
			return fmt.Errorf("can never match: the path is encoded more than once; "+
				"write %q, which is %q when it is decoded",
				url.PathEscape(again), s.text)
		}
	}
	return nil
}

// parseSegments returns the segments of the path of a pattern. checkPatternPath
// must have accepted the path.
func parseSegments(path string) ([]segment, error) {
	parts := strings.Split(path[1:], "/")
	segments := make([]segment, len(parts))
	for i, part := range parts {
		last := i == len(parts)-1
		switch brace := strings.IndexByte(part, '{'); {
		case part == "" && last:
			segments[i] = segment{kind: rest}
		case brace < 0:
			segments[i] = segment{literal, decodeOnce(part)}
		default:
			wildcard, err := parseWildcard(part, brace, last)
			if err != nil {
				return nil, err
			}
			for _, other := range segments[:i] {
				if other.kind == wild && other.text == wildcard.text {
					return nil, fmt.Errorf("duplicate wildcard name %q", other.text)
				}
			}
			segments[i] = wildcard
		}
	}
	return segments, nil
}

// parseWildcard parses a segment whose first brace is at index brace.
func parseWildcard(part string, brace int, last bool) (segment, error) {
	switch {
	case brace > 0:
		return segment{}, errors.New("bad wildcard segment (must start with '{')")
	case !strings.HasSuffix(part, "}"):
		return segment{}, errors.New("bad wildcard segment (must end with '}')")
	}
	name, all := strings.CutSuffix(part[1:len(part)-1], "...")
	switch {
	case name == "$" && !all:
		if !last {
			return segment{}, errors.New("{$} not at end")
		}
		return segment{kind: end}, nil
	case all && !last:
		return segment{}, errors.New("{...} wildcard not at end")
	case name == "":
		return segment{}, errors.New("empty wildcard")
	case !isIdentifier(name):
		return segment{}, fmt.Errorf("bad wildcard name %q", name)
	case all:
		return segment{rest, name}, nil
	}
	return segment{wild, name}, nil
}

// isIdentifier reports whether a name that is not empty is a Go identifier.
func isIdentifier(name string) bool {
	for i, c := range name {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return true
}
