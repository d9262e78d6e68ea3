package mcp

import (
	"encoding/base64"
	"encoding/json"
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
	if err := CheckRepeated(h, m.ID); err != nil {
		return err
	}
	version := h.Get(VersionHeader)
	differs := m.version != nil && version != *m.version
	if len(h[VersionHeader]) == 0 && m.version != nil {
		version = *m.version
	}
	needs := version >= versionWithHeaders && m.Method != "" && m.ID != nil
	needsName := m.Method == policy.ToolsCall || m.Method == policy.PromptsGet || m.Method == policy.ResourcesRead
	for _, header := range [...]struct {
		name            string
		differs, needed bool
	}{
		{VersionHeader, differs, false},
		{MethodHeader, !repeats(h.Get(MethodHeader), m.Method), needs},
		{NameHeader, m.subject != nil && !repeats(h.Get(NameHeader), *m.subject), needs && needsName},
	} {
		switch given := len(h[header.name]) > 0; {
		case given && header.differs:
			return headerFault(m.ID, header.name, "differs from the message")
		case !given && header.needed:
			return headerFault(m.ID, header.name, "is missing")
		}
	}
	return nil
}

// CheckRepeated returns an *Error if one of the headers is repeated. id is that of the message, if there is one.
func CheckRepeated(h http.Header, id json.RawMessage) error {
	for _, name := range [...]string{MethodHeader, NameHeader, VersionHeader} {
		if len(h[name]) > 1 {
			return headerFault(id, name, "is repeated")
		}
	}
	return nil
}

// headerFault returns the error of a header.
func headerFault(id json.RawMessage, name, fault string) *Error {
	return &Error{Code: CodeHeadersDiffer, ID: id, Text: "The header " + name + " " + fault + "."}
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
