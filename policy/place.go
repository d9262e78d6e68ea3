package policy

import (
	"net/url"
	"strings"
)

// Place is where a person opens a page that a pattern matches.
type Place struct {
	Method string // that the pattern matches alone; empty: every one
	Host   string // in canonical form; empty: every one
	// Path is percent-encoded. It is empty if the pattern has a wildcard before its end, so that
	// it means no single place.
	Path string
}

// PlaceOf returns the Place of a pattern: the pattern itself, or its beginning if it ends in
// {$} or {name...}. It returns false if NewTable refuses the pattern.
func PlaceOf(pattern string) (Place, bool) {
	p, err := parsePattern(pattern)
	if err != nil {
		return Place{}, false
	}
	place := Place{Method: p.method, Host: p.host}
	if strings.HasPrefix(p.host, "*") {
		return place, true
	}
	var path strings.Builder
	for _, s := range p.segments {
		if s.kind == wild {
			return place, true
		}
		path.WriteByte('/')
		path.WriteString(url.PathEscape(s.literal()))
	}
	place.Path = path.String()
	return place, true
}

// literal returns the text that a segment matches, "" if it may be the end of the path.
func (s segment) literal() string {
	if s.kind == literal {
		return s.text
	}
	return ""
}
