package http1

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Whitespace between the name of a field and its colon is not allowed. A reader that
// takes it for a part of the name misses the field, which may be one that says where the
// response ends, and another reader does not. A proxy removes it (RFC 9112, section 5.1).

// tighten moves the colons of a header to the ends of the names, in place. It reports
// whether there was whitespace before one.
func tighten(header []byte) (spaced bool) {
	_, fields, _ := bytes.Cut(header, []byte("\n"))
	for line := range bytes.Lines(fields) {
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 || line[0] == ' ' || line[0] == '\t' { // the value goes on
			continue
		}
		if end := len(bytes.TrimRight(line[:colon], " \t")); end < colon {
			line[end], line[colon] = ':', ' '
			spaced = true
		}
	}
	return spaced
}

// completeHeader reads on until k.header has a whole header, and tightens it. ReadResponse
// does not read beyond a tab in a name.
func (k *conn) completeHeader() bool {
	k.inHeader = true
	defer func() { k.inHeader = false }()
	var part [1 << 10]byte
	for blankLine(k.header) < 0 {
		if _, err := k.limited.Read(part[:]); err != nil {
			return false
		}
	}
	tighten(k.header)
	return true
}

// blankLine returns the index of the first blank line, -1 if there is none.
func blankLine(b []byte) int {
	at := 0
	for line := range bytes.Lines(b) {
		if s := string(line); s == "\n" || s == "\r\n" {
			return at
		}
		at += len(line)
	}
	return -1
}

// reread makes the next Read return k.header.
func (k *conn) reread() {
	k.limited.N += int64(len(k.header))
	k.again, k.header = append(k.header, k.again...), nil
	k.br.Reset(&k.limited)
}

// tightenTrailer is tighten for the trailer of a response. It reports false if a
// name is malformed.
func tightenTrailer(trailer http.Header) bool {
	for name, values := range trailer {
		if httpguts.ValidHeaderFieldName(name) {
			continue
		}
		delete(trailer, name)
		tight := http.CanonicalHeaderKey(strings.TrimRight(name, " "))
		switch {
		case httpguts.ValidHeaderFieldName(tight):
			trailer[tight] = append(trailer[tight], values...)
		case len(values) > 0: // it was not only announced
			return false
		}
	}
	return true
}
