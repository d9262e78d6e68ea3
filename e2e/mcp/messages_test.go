package mcp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf16"
)

// oddNames are names of members, and texts, that programs may take for others or treat otherwise.
var oddNames = strings.Split("jsonrpc id method params result error name uri taskId notifications "+
	"resourceSubscriptions _meta arguments ID Method Params Name URI TaskId task_id resource_subscriptions meta "+
	"name\x00 method\x00 nаme param\u017f \u212aind \ufeffname name\u2028 a\x00b __proto__ constructor prototype "+
	"toString hasOwnProperty valueOf tools/call prompts/get resources/read Tools/Call tools/call\x00 ping delete_all "+
	"file:///a/../b FILE:///a file:///%2e%2e/b \\ \" / \x1f \x7f \u0085 e\u0301 \u00e9 \U0001f600 \ufffd \uffff null "+
	"1 -0 2.0 2026-07-28 ", " ")

// oddNumbers are numbers at which types of numbers end, and other spellings of numbers.
var oddNumbers = strings.Fields("0 -0 1 -1 1.0 1e0 10E-1 1.5 -0.0 1e400 -1e400 1e-400 4294967296 9007199254740991 " +
	"9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775809 12345678901234567890 " +
	"18446744073709551616 " + strings.Repeat("9", 400))

var methods = strings.Fields("tools/call tools/call tools/call prompts/get resources/read resources/subscribe " +
	"resources/unsubscribe subscriptions/listen subscriptions/listen tasks/get tasks/cancel ping tools/list " +
	"other/method")

// envelope is what a request of the version 2026-07-28 has in its _meta.
const envelope = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` +
	`{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// oddMessages returns messages in odd spellings, always the same ones. Most are of MCP.
func oddMessages(count int) (all [][]byte) {
	g := generator{rand.New(rand.NewPCG(2026, 7))}
	for range count {
		all = append(all, []byte(g.message()))
	}
	return all
}

// generator generates JSON texts.
type generator struct{ *rand.Rand }

// member is a member of an object: its name, decoded, and its value, a JSON text.
type member struct{ name, value string }

// once reports true once in n times.
func (g generator) once(n int) bool { return g.IntN(n) == 0 }

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

// message returns a message of MCP, sometimes with members of others or without its own.
func (g generator) message() string {
	method := g.pick(methods)
	id := g.pick(oddNumbers)
	switch {
	case g.once(2):
		id = g.text(g.pick(oddNames))
	case g.once(2):
		id = fmt.Sprint(g.IntN(1000))
	case g.once(6):
		id = g.value(2)
	}
	all := []member{{"jsonrpc", g.text("2.0")}, {"id", id}, {"method", g.text(method)}, {"params", g.params(method)}}
	text := g.object(g.mangled(all))
	if g.once(50) {
		text = g.pick([]string{"\ufeff" + text, text + "{}", "[" + text + "]", text + "\x00", text[:len(text)-1]})
	}
	return text
}

// params returns the params of a method.
func (g generator) params(method string) string {
	var all []member
	switch kind, _, _ := strings.Cut(method, "/"); kind {
	case "tools", "prompts":
		all = append(all, member{"name", g.text(g.pick(oddNames))})
	case "resources":
		all = append(all, member{"uri", g.text(g.pick(oddNames))})
	case "tasks":
		all = append(all, member{"taskId", g.text(g.pick(oddNames))})
	case "subscriptions":
		uris := make([]string, g.IntN(4))
		for i := range uris {
			uris[i] = g.text(g.pick(oddNames))
		}
		list := member{"resourceSubscriptions", "[" + strings.Join(uris, ",") + "]"}
		all = append(all, member{"notifications", g.object(g.mangled([]member{list}))})
	}
	if g.once(2) || method == "subscriptions/listen" {
		all = append(all, member{"_meta", envelope})
	}
	return g.object(g.mangled(all))
}

// mangled adds members in one of two lists, and rarely lets one be missing, appear twice or have another value.
func (g generator) mangled(all []member) []member {
	for g.once(2) {
		all = append(all, member{g.pick(oddNames), g.value(0)})
	}
	if i := g.IntN(len(all) + 1); i < len(all) && g.once(10) {
		switch g.IntN(3) {
		case 0:
			all[i].value = g.value(0)
		case 1:
			all = append(all[:i], all[i+1:]...)
		case 2:
			all = append(all, member{all[i].name, g.value(0)})
		}
	}
	return all
}

// value returns a value, with objects that have members like those of messages.
func (g generator) value(level int) string {
	switch kind := g.IntN(8); {
	case kind < 3:
		return g.text(g.pick(oddNames))
	case kind == 3:
		return g.pick(oddNumbers)
	case kind == 4:
		return g.pick([]string{"true", "false", "null"})
	case kind == 5 && g.once(4):
		depth := 1 + g.IntN(66)
		return strings.Repeat("[", depth) + strings.Repeat("]", depth)
	case kind == 5 && level < 3:
		return "[" + g.value(level+1) + "," + g.value(level+1) + "]"
	}
	all := make([]member, g.IntN(4))
	for i := range all {
		all[i].name = oddNames[(g.IntN(len(oddNames)/4)*4+i)%len(oddNames)] // different ones
		if all[i].value = "{}"; level < 3 {
			all[i].value = g.value(level + 1)
		}
	}
	return g.object(all)
}

// object returns an object with its members in any order.
func (g generator) object(all []member) string {
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var b strings.Builder
	b.WriteString("{" + g.space())
	for i, m := range all {
		if i > 0 {
			b.WriteString("," + g.space())
		}
		b.WriteString(g.text(m.name) + g.space() + ":" + g.space() + m.value + g.space())
	}
	return b.String() + "}" + g.space()
}

func (g generator) space() string {
	if g.once(4) {
		return g.pick([]string{" ", "\t", "\r\n", "  "})
	}
	return ""
}

// text returns a string as JSON, with any of its characters escaped, and rarely half a pair of surrogates at its end.
func (g generator) text(plain string) string {
	var b strings.Builder
	for _, r := range plain {
		short := strings.IndexRune("\b\f\n\r\t\"\\/", r)
		switch {
		case short >= 0 && g.once(2):
			b.WriteString(`\` + `bfnrt"\/`[short:short+1])
		case r < ' ' || r == '"' || r == '\\' || g.once(6):
			format := g.pick([]string{`\u%04x`, `\u%04X`})
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, format, unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	if g.once(100) {
		b.WriteString(g.pick([]string{`\ud800`, `\udc00`, `\uD83D\u0041`}))
	}
	return `"` + b.String() + `"`
}
