package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

// Codes of errors in the answer to a message (JSON-RPC 2.0, section 5.1; MCP for the headers).
const (
	CodeNoJSON         = -32700
	CodeInvalid        = -32600
	CodeHeadersDiffer  = -32020
	maxNesting         = 64
	levelsThatAreKept  = 2 // the message, and params
	versionWithHeaders = "2026-07-28"
	versionMember      = "io.modelcontextprotocol/protocolVersion"
)

// Message is one message.
type Message struct {
	policy.Message                 // for decisions
	ID             json.RawMessage // as the client wrote it, a string or a number; nil: there is none

	subject string // that the header Mcp-Name repeats
	named   bool   // the method has a subject
	version *string
}

// mostNamed is how many characters of a client's text are shown.
const mostNamed = 128

// Shown returns the first characters of a text of a client, and escapes those that are not printable.
func Shown(text string) string {
	var shown strings.Builder
	n := 0
	for _, c := range text {
		if n++; n > mostNamed {
			break
		}
		if unicode.IsPrint(c) {
			shown.WriteRune(c)
			continue
		}
		quoted := strconv.QuoteRune(c)
		shown.WriteString(quoted[1 : len(quoted)-1])
	}
	return shown.String()
}

// Subject names the subject of a message, for its sender: the tool, the prompt, the resource or the method.
func (m *Message) Subject() string {
	kind, name := "method", m.Method
	switch m.Method {
	case policy.ToolsCall:
		kind, name = "tool", m.Name
	case policy.PromptsGet:
		kind, name = "prompt", m.Name
	case policy.ResourcesRead, policy.ResourcesSubscribe, policy.ResourcesUnsubscribe:
		kind, name = "resource", m.Name
	}
	return "The " + kind + ` "` + Shown(name) + `"`
}

// Error is the error of a message. Its text is for the client.
type Error struct {
	Code int
	ID   json.RawMessage // of the message; nil: it has none that can be read
	Text string
}

// MarshalJSON returns the answer to the message (JSON-RPC 2.0, section 5).
func (e *Error) MarshalJSON() ([]byte, error) {
	id := e.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{e.Code, e.Text}})
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Read reads a message. The error is an *Error. The message does not refer to the memory of body.
func Read(body []byte) (*Message, error) {
	root, err := strictjson.Parse(body, maxNesting, levelsThatAreKept)
	m := &Message{}
	m.readID(&root)
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

// readID reads the id of a message that has one, and one alone.
func (m *Message) readID(root *strictjson.Value) {
	isMember := func(one strictjson.Member) bool { return string(one.Name) == "id" }
	first := slices.IndexFunc(root.Members, isMember)
	if first < 0 || slices.ContainsFunc(root.Members[first+1:], isMember) {
		return
	}
	if raw := root.Members[first].Value.Raw; isID(raw) {
		m.ID = slices.Clone(raw)
	}
}

// Describe returns a message with a method and a name; empty: none. The error is that of Read.
func Describe(method, name string) (*Message, error) {
	params := map[string]any{}
	if name != "" {
		params = map[string]any{
			"name": name, "uri": name, "notifications": map[string]any{"resourceSubscriptions": []string{name}},
		}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	return Read(body)
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
	if version, ok := root.Member("jsonrpc"); !ok || stringOf(version) != "2.0" {
		return `The message lacks "jsonrpc": "2.0".`
	}
	if id, ok := root.Member("id"); ok && m.ID == nil && string(id.Raw) != "null" {
		return "The id of the message is neither a string nor a number."
	}
	method, ok := root.Member("method")
	if ok {
		if m.Method, ok = decode(method.Raw); !ok || m.Method == "" {
			return "The method of the message is no string."
		}
	}
	if isOddMethod(m.Method) {
		return "The method of the message differs from one of MCP only by case or by characters at its end."
	}
	params, ok := root.Member("params")
	if !ok {
		params = &strictjson.Value{}
	}
	if resembles(params, "jsonrpc", "id", "method", "params", "result", "error", "name", "uri") {
		return oddMember
	}
	if meta, ok := membersOf(params, "_meta"); ok {
		if version, ok := meta.Member(versionMember); ok {
			text := stringOf(version)
			m.version = &text
		}
	}
	return m.readSubject(params)
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
		m.named = true
		if id, ok := params.Member("taskId"); ok {
			m.subject = stringOf(id)
		}
		return ""
	case policy.SubscriptionsListen:
		return m.readWatched(params)
	default:
		return ""
	}
	value, ok := params.Member(member)
	if !ok {
		return "The params of the message lack a " + member + "."
	}
	if m.Name, ok = decode(value.Raw); !ok {
		return "The " + member + " of the message is no string."
	}
	m.subject, m.named = m.Name, true
	return ""
}

// readWatched reads the resources to which a message subscribes.
func (m *Message) readWatched(params *strictjson.Value) string {
	if resembles(params, "notifications") {
		return oddMember
	}
	notifications, ok := membersOf(params, "notifications")
	if !ok {
		return ""
	}
	if resembles(notifications, "resourceSubscriptions") {
		return oddMember
	}
	list, ok := notifications.Member("resourceSubscriptions")
	if !ok {
		return ""
	}
	var uris []json.RawMessage
	if json.Unmarshal(list.Raw, &uris) != nil {
		return "The resourceSubscriptions of the message are no list."
	}
	for _, raw := range uris {
		uri, ok := decode(raw)
		if !ok {
			return "The resourceSubscriptions of the message are no list of strings."
		}
		m.Watched = append(m.Watched, uri)
	}
	return ""
}

// membersOf returns a member of the params with its own members, and false if there is none.
func membersOf(params *strictjson.Value, name string) (*strictjson.Value, bool) {
	member, ok := params.Member(name)
	if !ok {
		return nil, false
	}
	value, err := strictjson.Parse(member.Raw, maxNesting, 1)
	return &value, err == nil // which it is, as a part of the message
}

// resembles reports whether an object has a member that lenient servers take for one of those names.
func resembles(v *strictjson.Value, names ...string) bool {
	for _, member := range v.Members {
		if name := string(member.Name); !slices.Contains(names, name) && foldsTo(name, names...) {
			return true
		}
	}
	return false
}

// foldsTo reports whether a text is one of the names but for case and NULs at its end.
func foldsTo(text string, names ...string) bool {
	text = strings.TrimRight(text, "\x00")
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(text, name) })
}

// isOddMethod reports whether a lenient server could take a method for one that has a name.
func isOddMethod(method string) bool {
	known := []string{
		policy.ToolsCall, policy.PromptsGet, policy.ResourcesRead, policy.ResourcesSubscribe,
		policy.ResourcesUnsubscribe, policy.SubscriptionsListen,
	}
	return !slices.Contains(known, method) && foldsTo(method, known...)
}

// stringOf returns a value as a string, empty if it is none.
func stringOf(v *strictjson.Value) string {
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

// hasLoneSurrogate reports whether a string escapes a surrogate without its pair.
func hasLoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] != 'u' {
			continue
		}
		first := unitOf(raw[i+1:])
		i += 4
		if !utf16.IsSurrogate(first) {
			continue
		}
		if i+6 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' ||
			utf16.DecodeRune(first, unitOf(raw[i+3:])) == '\uFFFD' {
			return true
		}
		i += 6
	}
	return false
}

// unitOf returns the unit of UTF-16 that four hexadecimal digits write.
func unitOf(digits []byte) (unit rune) {
	for _, c := range digits[:4] {
		switch unit <<= 4; {
		case c <= '9':
			unit += rune(c - '0')
		default:
			unit += rune(c|0x20-'a') + 10
		}
	}
	return unit
}
