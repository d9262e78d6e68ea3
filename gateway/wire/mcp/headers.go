package mcp

import (
	"encoding/base64"
	"net/http"
	"strings"

	"authgate/gateway/wire/headername"
	"authgate/policy"
)

// The headers that repeat a part of a message.
const (
	MethodHeader  = "Mcp-Method"
	NameHeader    = "Mcp-Name"
	VersionHeader = "Mcp-Protocol-Version"
)

// CheckHeaders returns an *Error unless the headers of a POST are those of its message.
func (m *Message) CheckHeaders(h http.Header) error {
	differ := func(text string) error { return &Error{Code: CodeHeadersDiffer, ID: m.ID, Text: text} }
	if name := repeated(h); name != "" {
		return differ("The header " + name + " is repeated.")
	}
	version := h.Get(VersionHeader)
	if len(h[VersionHeader]) == 1 && m.version != nil && version != *m.version {
		return differ("The header " + VersionHeader + " differs from the message.")
	}
	if version == "" && m.version != nil {
		version = *m.version
	}
	needs := version >= versionWithHeaders && m.Method != "" && m.ID != nil
	method, given := h[MethodHeader]
	switch {
	case given && !repeats(method[0], m.Method):
		return differ("The header " + MethodHeader + " differs from the message.")
	case !given && needs:
		return differ("The header " + MethodHeader + " is missing.")
	}
	name, given := h[NameHeader]
	switch {
	case given && m.named && !repeats(name[0], m.subject):
		return differ("The header " + NameHeader + " differs from the message.")
	case !given && needs &&
		(m.Method == policy.ToolsCall || m.Method == policy.PromptsGet || m.Method == policy.ResourcesRead):
		return differ("The header " + NameHeader + " is missing.")
	}
	return nil
}

// CheckRepeated returns an *Error if a header of a request without a message is repeated.
func CheckRepeated(h http.Header) error {
	if name := repeated(h); name != "" {
		return &Error{Code: CodeHeadersDiffer, Text: "The header " + name + " is repeated."}
	}
	return nil
}

// repeated returns the name of a header that is repeated, empty if none is.
func repeated(h http.Header) string {
	for _, name := range [...]string{MethodHeader, NameHeader, VersionHeader} {
		if len(h[name]) > 1 {
			return name
		}
	}
	return ""
}

// Imitates reports whether an application could take a header for one that repeats a part of a message, although
// it has another spelling.
func Imitates(name string) bool {
	if name == "" || name[0]|0x20 != 'm' {
		return false // most headers, without the work of folding
	}
	switch headername.Fold(name) {
	case MethodHeader, NameHeader, VersionHeader:
		return name != headername.Fold(name)
	}
	return false
}

// repeats reports whether the value of a header is a text, which may be encoded.
func repeats(value, text string) bool {
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if encoded, ok := strings.CutSuffix(inner, "?="); ok {
			decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
			return err == nil && string(decoded) == text
		}
	}
	return value == text
}
