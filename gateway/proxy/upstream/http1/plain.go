package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxFields is how many fields the header of a plain response may have.
const maxFields = 64

// Field is a field of a header. Its name is canonical.
type Field struct{ Name, Value string }

// ByName compares fields for sorting, as Request.Write sorts them.
func ByName(f, g Field) int { return strings.Compare(f.Name, g.Name) }

// Plain is a request with nothing unusual: no body, or a short one, and no field
// about the connection. Its parts are the same as those of an http.Request.
type Plain struct {
	Method, Path, Query string
	ForceQuery          bool // write "?" even if Query is empty
	Host                string
	Fields              []Field // in any order; sending the request sorts them
	Body                []byte
}

// append appends the request to b as Request.Write writes it, with the fields in the
// order of their names. It returns false for a request that Request.Write would change
// or refuse.
func (p *Plain) append(b []byte) ([]byte, bool) {
	if !plainTarget(p.Path) || !plainTarget(p.Query) || strings.HasPrefix(p.Path, "//") || p.Path == "" ||
		!plainHost(p.Host) {
		return b, false
	}
	b = append(b, p.Method...)
	b = append(b, ' ')
	b = append(b, p.Path...)
	if p.ForceQuery || p.Query != "" {
		b = append(b, '?')
		b = append(b, p.Query...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, p.Host...)
	b = append(b, crlf...)
	slices.SortStableFunc(p.Fields, ByName)
	ok := true
	if i := slices.IndexFunc(p.Fields, func(f Field) bool { return f.Name == "User-Agent" }); i >= 0 &&
		p.Fields[i].Value != "" {
		b, ok = p.Fields[i].append(b)
	}
	if len(p.Body) > 0 || p.Method == http.MethodPost || p.Method == http.MethodPut || p.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(p.Body)), 10)
		b = append(b, crlf...)
	}
	for i := 0; i < len(p.Fields) && ok; i++ {
		switch f := &p.Fields[i]; f.Name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
			// Request.Write has them from elsewhere.
		default:
			b, ok = f.append(b)
		}
	}
	b = append(b, crlf...)
	return append(b, p.Body...), ok
}

func (f *Field) append(b []byte) ([]byte, bool) {
	if !httpguts.ValidHeaderFieldName(f.Name) || strings.IndexByte(f.Value, '\r') >= 0 ||
		strings.IndexByte(f.Value, '\n') >= 0 {
		return b, false
	}
	b = append(b, f.Name...)
	b = append(b, ": "...)
	b = append(b, textproto.TrimString(f.Value)...)
	return append(b, crlf...), true
}

// plainTarget reports whether Request.Write accepts a part of a target.
func plainTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// plainHost reports whether Request.Write sends a host as it is.
func plainHost(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '-', c == ':', c == '[', c == ']', c == '_':
		default:
			return false
		}
	}
	return s != ""
}

const crlf = "\r\n"

// plainResponse returns the response on the connection if it is plain and comes
// within the deadline. It consumes nothing, so readResponse can go on after nil.
func (k *conn) plainResponse() *Response {
	for {
		unread := k.br.Buffered()
		data, _ := k.br.Peek(unread) // cannot fail
		if end := bytes.Index(data, []byte("\r\n\r\n")); end >= 0 {
			return k.plainBody(data[:end+2])
		}
		if unread == k.br.Size() {
			return nil
		}
		if _, err := k.br.Peek(unread + 1); err != nil {
			return nil
		}
	}
}

// plainBody returns the response with that header, whose lines end with CRLF.
func (k *conn) plainBody(head []byte) *Response {
	status, length, ok := k.plainHead(head)
	if !ok {
		return nil
	}
	response := &Response{Status: status, conn: k, head: len(head) + len("\r\n"), length: length}
	if whole := int64(response.head) + length; whole <= int64(k.br.Size()) {
		data, err := k.br.Peek(int(whole))
		if err != nil {
			return nil
		}
		response.Body = data[response.head:]
	}
	return response
}

// plainHead reads the header of a plain response into k.fields, without the fields
// about the connection. It refuses a header that has two meanings or needs a
// decision: readResponse has the rules.
func (k *conn) plainHead(head []byte) (status int, length int64, ok bool) {
	first := bytes.Index(head, []byte(crlf))
	status, ok = plainStatus(head[:first])
	if !ok {
		return 0, 0, false
	}
	if !k.readLines(head[first+len(crlf):]) {
		return 0, 0, false
	}
	k.fields, k.lives = k.fields[:0], unannounced
	length = -1
	for _, line := range k.lines {
		f := line.field
		switch f.Name {
		case "Content-Length":
			if length >= 0 {
				return 0, 0, false
			}
			if length, ok = plainLength(f.Value); !ok {
				return 0, 0, false
			}
		case "Connection":
			if !strings.EqualFold(f.Value, "keep-alive") {
				return 0, 0, false
			}
			continue
		case "Keep-Alive":
			k.lives = min(k.lives, announced(f.Value))
			continue
		case "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Proxy-Connection",
			"Proxy-Authenticate", "Proxy-Authorization", "Www-Authenticate":
			return 0, 0, false // about the connection, or may be
		case "Content-Type":
			const events = "text/event-stream" // is sent on in parts
			if len(f.Value) >= len(events) && strings.EqualFold(f.Value[:len(events)], events) {
				return 0, 0, false
			}
		}
		k.fields = append(k.fields, f)
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return status, 0, length < 0
	}
	return status, length, length >= 0
}

// line is a line of a header, and its field.
type line struct {
	text  string
	field Field
}

// readLines makes k.lines the lines of a header. It parses only those that differ
// from the last header. It reports false if a line has no plain field, or if there are
// too many.
func (k *conn) readLines(head []byte) bool {
	text := "" // of head, once a line differs
	n := 0
	for at := 0; at < len(head); n++ {
		end := at + bytes.Index(head[at:], []byte(crlf))
		if n == len(k.lines) {
			if n == maxFields {
				return false
			}
			k.lines = append(k.lines, line{})
		}
		if known := &k.lines[n]; known.text != string(head[at:end]) {
			if text == "" {
				text = string(head)
			}
			f, ok := plainField(text[at:end])
			if !ok {
				return false
			}
			*known = line{text[at:end], f}
		}
		at = end + len(crlf)
	}
	k.lines = k.lines[:n]
	return true
}

// plainStatus returns the status of a final response by HTTP/1.1.
func plainStatus(line []byte) (int, bool) {
	const version, digits = "HTTP/1.1 ", 3
	if len(line) < len(version)+digits || string(line[:len(version)]) != version || !plainText(line) {
		return 0, false
	}
	code, reason := line[len(version):len(version)+digits], line[len(version)+digits:]
	status := 0
	for i := range digits {
		if code[i] < '0' || code[i] > '9' {
			return 0, false
		}
		status = 10*status + int(code[i]-'0')
	}
	return status, status >= 200 && (len(reason) == 0 || reason[0] == ' ')
}

// plainField returns the field of a line.
func plainField(line string) (Field, bool) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) || !plainText(value) {
		return Field{}, false
	}
	return Field{textproto.CanonicalMIMEHeaderKey(name), textproto.TrimString(value)}, true
}

// plainText reports whether a text has no control characters but tabs.
func plainText[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// plainLength returns the number of a Content-Length that every reader
// understands alike.
func plainLength(s string) (int64, bool) {
	const most = 15 // digits
	if s == "" || len(s) > most {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}
