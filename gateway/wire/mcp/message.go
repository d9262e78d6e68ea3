package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

// Codes of errors in the answer to a message (JSON-RPC 2.0, section 5.1; MCP for the headers).
const (
	CodeNoJSON         = -32700
	CodeInvalid        = -32600
	CodeHeadersDiffer  = -32020
	maxNesting         = 64
	versionWithHeaders = "2026-07-28"
	versionMember      = "io.modelcontextprotocol/protocolVersion"
)

// Message is one message.
type Message struct {
	policy.Message                 // for decisions
	ID             json.RawMessage // as the client wrote it, a string or a number; nil: there is none

	subject *string // that the header Mcp-Name repeats; nil: the method has none
	version *string
}

// Subject returns the subject of a message: the tool, the prompt, the resource or the method.
func (m *Message) Subject() (kind, name string) {
	switch m.Method {
	case policy.ToolsCall:
		return "tool", m.Name
	case policy.PromptsGet:
		return "prompt", m.Name
	case policy.ResourcesRead, policy.ResourcesSubscribe, policy.ResourcesUnsubscribe:
		return "resource", m.Name
	}
	return "method", m.Method
}

// Error is the error of a message. Its text is for the client.
type Error struct {
	Code int             `json:"code"`
	ID   json.RawMessage `json:"-"` // of the message; nil: it has none that can be read
	Text string          `json:"message"`
}

// MarshalJSON returns the answer to the message (JSON-RPC 2.0, section 5).
func (e *Error) MarshalJSON() ([]byte, error) {
	type failure Error
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *failure        `json:"error"`
	}{"2.0", e.ID, (*failure)(e)})
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Read reads a message. The error is an *Error. The message does not refer to the memory of body.
func Read(body []byte) (*Message, error) {
	root, err := strictjson.Parse(body, maxNesting, isRead)
	m := &Message{}
	if id := root.Member("id").Raw; isID(id) {
		m.ID = slices.Clone(id)
	}
	switch {
	case errors.Is(err, strictjson.ErrSyntax):
		return nil, &Error{Code: CodeNoJSON, Text: "The message " + err.Error() + "."}
	case errors.Is(err, strictjson.ErrDuplicate):
		return nil, m.invalid("The message has a member name twice in an object.")
	case err != nil:
		return nil, m.invalid("The message " + err.Error() + ".")
	case !root.IsObject():
		return nil, m.invalid("The message is no JSON object; several messages in one body are refused.")
	}
	if text := m.readMembers(&root); text != "" {
		return nil, m.invalid(text)
	}
	return m, nil
}

// isRead reports whether the members of a member are of interest.
func isRead(level int, name []byte) bool {
	switch string(name) {
	case "params":
		return level == 1
	case "_meta", "notifications":
		return level == 2
	}
	return false
}

// invalid returns the error of a message that is JSON.
func (m *Message) invalid(text string) *Error { return &Error{Code: CodeInvalid, ID: m.ID, Text: text} }

// isID reports whether a value is an id that names a request.
func isID(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '"' {
		_, ok := decode(raw)
		return ok
	}
	return len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}

// readMembers reads the members of a message. It returns the fault of the message for the client, empty if
// there is none.
func (m *Message) readMembers(root *strictjson.Value) string {
	if resembles(root, "jsonrpc", "id", "method", "params", "result", "error") {
		return oddMember
	}
	if stringOf(root.Member("jsonrpc")) != "2.0" {
		return `The message lacks "jsonrpc": "2.0".`
	}
	if id := root.Member("id").Raw; id != nil && m.ID == nil && string(id) != "null" {
		return "The id of the message is neither a string nor a number."
	}
	if method := root.Member("method"); method.Raw != nil {
		if m.Method = stringOf(method); m.Method == "" {
			return "The method of the message is no string, or empty."
		}
	}
	if imitates(m.Method, policy.ToolsCall, policy.PromptsGet, policy.ResourcesRead, policy.ResourcesSubscribe,
		policy.ResourcesUnsubscribe, policy.SubscriptionsListen) {
		return "The method of the message differs from one of MCP only by case or by characters at its end."
	}
	params := root.Member("params")
	if resembles(&params, "jsonrpc", "id", "method", "params", "result", "error", "name", "uri") {
		return oddMember
	}
	meta := params.Member("_meta")
	if version := meta.Member(versionMember); version.Raw != nil {
		m.version = new(stringOf(version))
	}
	return m.readSubject(&params)
}

const oddMember = "A member of the message differs from one of MCP only by case, or by characters at its end."

// readSubject reads the name, the URI or the task from the params.
func (m *Message) readSubject(params *strictjson.Value) string {
	member := ""
	switch m.Method {
	case policy.ToolsCall, policy.PromptsGet:
		member = "name"
	case policy.ResourcesRead, policy.ResourcesSubscribe, policy.ResourcesUnsubscribe:
		member = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		m.subject = new(stringOf(params.Member("taskId")))
		return ""
	case policy.SubscriptionsListen:
		return m.readWatched(params)
	default:
		return ""
	}
	var ok bool
	if m.Name, ok = decode(params.Member(member).Raw); !ok {
		return "The params of the message lack a " + member + " that is a string."
	}
	m.subject = &m.Name
	if member == "uri" && hasDotSegments(m.Name) {
		return dotSegments
	}
	return ""
}

// readWatched reads the resources to which a message subscribes.
func (m *Message) readWatched(params *strictjson.Value) string {
	if resembles(params, "notifications") {
		return oddMember
	}
	notifications := params.Member("notifications")
	if resembles(&notifications, "resourceSubscriptions") {
		return oddMember
	}
	list := notifications.Member("resourceSubscriptions").Raw
	var uris []json.RawMessage
	if list != nil && json.Unmarshal(list, &uris) != nil {
		return "The resourceSubscriptions of the message are no list."
	}
	for _, raw := range uris {
		uri, ok := decode(raw)
		if !ok {
			return "The resourceSubscriptions of the message are no list of strings."
		}
		if hasDotSegments(uri) {
			return dotSegments
		}
		m.Watched = append(m.Watched, uri)
	}
	return ""
}

const dotSegments = "The path of a URI in the message has the segment . or .., which some servers remove."

// hasDotSegments reports whether the path of a URI has a segment that URL parsers remove, because some servers read
// file:///key for file:///docs/../key. WHATWG URL (section 4.4) has more spellings of it: file:///docs\.%2E\key.
func hasDotSegments(uri string) bool {
	uri = strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' })
	uri, _, _ = strings.Cut(uri, "?")
	uri, _, _ = strings.Cut(uri, "#")
	for _, spelling := range [...][2]string{{"\t"}, {"\n"}, {"\r"}, {`\`, "/"}, {"%2e", "."}, {"%2E", "."}} {
		uri = strings.ReplaceAll(uri, spelling[0], spelling[1])
	}
	for segment := range strings.SplitSeq(uri, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// resembles reports whether an object has a member that lenient servers take for one of those names.
func resembles(v *strictjson.Value, names ...string) bool {
	return slices.ContainsFunc(v.Members, func(m strictjson.Member) bool { return imitates(string(m.Name), names...) })
}

// imitates reports whether a text differs from one of the names only by case and NULs at its end.
func imitates(text string, names ...string) bool {
	bare := strings.TrimRight(text, "\x00")
	return !slices.Contains(names, text) &&
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(bare, name) })
}

// stringOf returns a value as a string, empty if it is none.
func stringOf(v strictjson.Value) string {
	text, _ := decode(v.Raw)
	return text
}

// decode decodes a string. It refuses surrogates without a pair, which programs read differently.
func decode(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", false
	}
	// Of a text in UTF-8, encoding/json makes U+FFFD of such surrogates alone.
	if strings.ContainsRune(text, '\uFFFD') && hasLoneSurrogate(raw) {
		return "", false
	}
	return text, true
}

// hasLoneSurrogate reports whether a string escapes a surrogate without its pair. It decodes the string without
// all that means U+FFFD, and without escaped backslashes, after which u begins no escape.
func hasLoneSurrogate(raw []byte) bool {
	raw = bytes.ToLower(raw) // the digits of escapes
	for _, known := range []string{`\\`, `\ufffd`, "\uFFFD"} {
		raw = bytes.ReplaceAll(raw, []byte(known), []byte("?"))
	}
	var text string
	return json.Unmarshal(raw, &text) != nil || strings.ContainsRune(text, '\uFFFD')
}
