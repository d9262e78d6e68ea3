// Package headername knows the names of request headers that applications
// believe: how many spellings an application reads as one name, and who may
// send which header.
package headername

import (
	"net/http"
	"strings"
)

// Fold gives all spellings that an application may read as one name the same
// form. CGI servers replace every character that is neither a letter nor a
// digit by "_" (lighttpd and busybox httpd), WSGI replaces "-" alone, and some
// frameworks replace "." too. Fold makes "-" of all of them and never changes
// the length: no known server reads several separators as one. The result is
// the canonical form, which the names of most requests have already.
func Fold(name string) string {
	for i := range len(name) {
		if c := name[i]; c != '-' && !alphanumeric(c) {
			return http.CanonicalHeaderKey(strings.Map(separator, name))
		}
	}
	return http.CanonicalHeaderKey(name)
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

// Class says who may send a header.
type Class int

const (
	// Free headers are the business of the client and the application.
	Free Class = iota
	// Framed headers have a meaning in HTTP itself. Only their own spelling
	// passes: Transfer_Encoding is Transfer-Encoding to some servers.
	Framed
	// Forwarded headers tell of the client or of the original request. A
	// trusted proxy may send them.
	Forwarded
	// Identity headers tell who somebody is, to applications that leave
	// signing in to a proxy.
	Identity
	// Misleading headers make some applications take a request for another
	// one than the one that was decided on.
	Misleading
	// Own headers are those that the gateway itself sets. No client or proxy
	// may send them.
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

// Filter finds headers that may need a closer look by the first byte and the
// length of their names alone. Fold changes neither a letter that comes first,
// but for its case, nor the length. What it passes over is Free in any case.
type Filter struct {
	lengths [256]uint64 // by the first byte; bit n: a name of n bytes, or of 63 and more
}

// NewFilter returns a Filter that also finds more names, in whatever spelling.
func NewFilter(more ...string) *Filter {
	f := &Filter{}
	for name := range exact {
		f.add(name, lengthBit(len(name)))
	}
	for _, family := range families {
		f.add(family.prefix, -lengthBit(len(family.prefix))) // this length and all above
	}
	for _, name := range more {
		f.add(name, lengthBit(len(name)))
	}
	for c := range f.lengths {
		if !alphanumeric(byte(c)) {
			f.lengths[c] = ^uint64(0) // it is "-" once folded
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

// Finds reports whether a header of that name needs a closer look.
func (f *Filter) Finds(name string) bool {
	return name != "" && f.lengths[name[0]]&lengthBit(len(name)) != 0
}
