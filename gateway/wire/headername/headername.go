// Package headername classifies the names of request headers: which spellings an
// application may read as one name, and who may send a header that applications
// trust.
//
// # Limits and threats
//
// A client must not be able to send an identity, or a property of the original
// request, under a header name that an application trusts. The lists cover
// documented names of proxies, platforms and applications. They cannot cover the
// names that one application has made up; the configuration can add those.
package headername

import (
	"net/http"
	"strings"
)

// Fold returns one form for all spellings that an application may read as the
// same name. CGI servers replace every character that is neither a letter nor a
// digit with "_" (lighttpd and busybox httpd), WSGI replaces only "-", and some
// frameworks also replace ".". Fold replaces all of them with "-" and keeps the
// length, because no known server reads several separators as one. The result is
// in the canonical form, in which most names arrive.
func Fold(name string) string {
	first := true // in its word
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-':
			first = true
		case first && 'A' <= c && c <= 'Z', !first && 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			first = false
		default:
			return http.CanonicalHeaderKey(strings.Map(separator, name))
		}
	}
	return name
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func separator(r rune) rune {
	if r < 0x80 && alphanumeric(byte(r)) {
		return r
	}
	return '-'
}

// Class tells who may send a header.
type Class int

const (
	// Free headers may be sent by any client.
	Free Class = iota
	// Framed headers have a meaning in HTTP itself. Only their exact spelling
	// passes, because some servers read Transfer_Encoding as Transfer-Encoding.
	Framed
	// Forwarded headers describe the client or the original request. The gateway
	// itself reads some of them, from trusted proxies.
	Forwarded
	// Identity headers name the user, for applications that leave
	// authentication to a proxy.
	Identity
	// Misleading headers make some applications process another request than
	// the one that the gateway authorized.
	Misleading
	// Own headers are those that the gateway itself sets, or reads in place of the
	// upstream. No client or proxy may send them there.
	Own
)

// Of returns the class of a header by its folded name.
func Of(folded string) Class {
	if class, ok := exact[folded]; ok {
		return class
	}
	for _, f := range families {
		if strings.HasPrefix(folded, f.prefix) {
			return f.class
		}
	}
	return Free
}

// Filter finds headers that may not be Free, by the first byte and the length of
// their names only. This works because Fold keeps the length and, except for its
// case, a first letter. A header that the Filter does not find is Free.
type Filter struct {
	lengths [256]uint64 // by the first byte; bit n means a name of n bytes, bit 63 also more
}

// NewFilter returns a Filter that also finds the names in more, in any spelling.
func NewFilter(more ...string) *Filter {
	f := &Filter{}
	for name := range exact {
		f.add(name, lengthBit(len(name)))
	}
	for _, family := range families {
		f.add(family.prefix, -lengthBit(len(family.prefix))) // this length and all longer ones
	}
	for _, name := range more {
		f.add(name, lengthBit(len(name)))
	}
	for c := range f.lengths {
		if !alphanumeric(byte(c)) {
			f.lengths[c] = ^uint64(0) // Fold makes it "-"
		}
	}
	return f
}

func (f *Filter) add(name string, lengths uint64) {
	if name == "" {
		return
	}
	const lowerBit = 'a' - 'A'
	first := name[0]
	f.lengths[first] |= lengths
	if 'A' <= first&^lowerBit && first&^lowerBit <= 'Z' {
		f.lengths[first&^lowerBit] |= lengths
		f.lengths[first|lowerBit] |= lengths
	}
}

func lengthBit(n int) uint64 { return 1 << min(n, 63) }

// Finds reports whether a header with this name may not be Free.
func (f *Filter) Finds(name string) bool {
	return name != "" && f.lengths[name[0]]&lengthBit(len(name)) != 0
}
