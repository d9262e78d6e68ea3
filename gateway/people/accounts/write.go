package accounts

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/token"

	"authgate/gateway/strictyaml"
)

// writtenOrder returns accountKeys in the order in which a new account has them.
func writtenOrder() []string {
	return []string{
		"username", "name", "email", "until", "roles", "disabled", "id", "password_hash", "passkeys", "totp",
		"recovery_codes",
	}
}

// mayLack reports whether an account without a value does not have its key. Then the key is
// removed with its value.
func mayLack(key string) bool {
	return slices.Contains([]string{"until", "id", "password_hash", "passkeys", "totp", "recovery_codes"}, key)
}

// longList reports whether each element of a list has a line of its own where that is
// possible.
func longList(key string) bool { return key == "passkeys" || key == "recovery_codes" }

// isEmpty reports whether a field has no value.
func isEmpty(field any) bool {
	value := reflect.ValueOf(field).Elem()
	return value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
}

// set returns the source with another value of a key of an account. It returns false if
// the value is not written in place.
func (l *layout) set(at int, key string, was, is any) ([]byte, bool) {
	i := &l.items[at]
	if l.json {
		i.entries = jsonEntries(l.source[i.start:i.end], i.start)
	}
	if len(i.entries) == 0 {
		return nil, false
	}
	gone := mayLack(key) && isEmpty(is)
	e := i.entryOf(key)
	if e == nil {
		return l.insert(i, key, is), !gone
	}
	written := l.source[e.value:e.end]
	switch {
	case gone:
		return l.drop(i, e), true
	case e.elements != nil:
		return l.setLines(e, was, is)
	case !l.json && (bytes.HasPrefix(written, []byte("*")) || variable.Match(written)):
		return nil, false
	}
	s := style{json: l.json, quoted: len(written) > 0 && (written[0] == '"' || written[0] == '\'')}
	text := s.value(reflect.ValueOf(is).Elem())
	if len(written) == 0 {
		text = " " + text
	}
	return l.splice(e.value, e.end, text), true
}

// variable matches the beginning of a variable of the environment.
var variable = regexp.MustCompile(`(^|[^$])\$\{`)

// insert returns the source with one more key of an account.
func (l *layout) insert(i *item, key string, is any) []byte {
	last := i.entries[len(i.entries)-1]
	if !i.flow {
		return l.splice(last.next, last.next, l.blockEntry(strings.Repeat(" ", i.column), key, is))
	}
	return l.splice(last.end, last.end, ", "+style{json: l.json}.pair(key, reflect.ValueOf(is).Elem()))
}

// blockEntry returns a key with its value as lines of a block.
func (l *layout) blockEntry(indent, key string, is any) string {
	s, value := style{}, reflect.ValueOf(is).Elem()
	if !longList(key) || value.Len() == 0 {
		return indent + s.pair(key, value) + l.newline()
	}
	lines := indent + key + ":" + l.newline()
	for n := range value.Len() {
		lines += indent + "  - " + s.value(value.Index(n)) + l.newline()
	}
	return lines
}

// drop returns the source without a key of an account.
func (l *layout) drop(i *item, e *entry) []byte {
	at := slices.IndexFunc(i.entries, func(other entry) bool { return other.start == e.start })
	switch {
	case i.flow && at > 0:
		return l.splice(i.entries[at-1].end, e.end, "")
	case at == 0 && len(i.entries) > 1:
		return l.splice(e.start, i.entries[1].start, "")
	case i.flow:
		return l.splice(e.start, e.end, "")
	}
	line := bytes.LastIndexByte(l.source[:e.start], '\n') + 1
	return l.splice(line, e.next, "")
}

// setLines returns the source with another value of a list that has a line, or several, for
// each element. The lines of elements that stay are kept, and all comments.
func (l *layout) setLines(e *entry, was, is any) ([]byte, bool) {
	from, to := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	if to.Len() == 0 {
		return l.splice(e.colon, e.end, " []"), true
	}
	elements, start := e.elements, e.elements[0].start
	if len(elements) != from.Len() {
		return nil, false
	}
	indent := strings.Repeat(" ", e.value-start)
	var text strings.Builder
	next := 0 // of the elements
	skip := func(until int) {
		for ; next < until; next++ {
			text.Write(l.source[elements[next].content:elements[next].end])
		}
	}
	for n := range to.Len() {
		same := next
		for same < len(elements) && !sameValue(from.Index(same).Addr().Interface(), to.Index(n).Addr().Interface()) {
			same++
		}
		if same == len(elements) {
			text.WriteString(indent + "- " + style{}.value(to.Index(n)) + l.newline())
			continue
		}
		skip(same)
		text.Write(l.source[elements[same].start:elements[same].end])
		next++
	}
	skip(len(elements))
	return l.splice(start, e.next, text.String()), true
}

// remove returns the source without an account.
func (l *layout) remove(at int) []byte {
	i, only := l.items[at], len(l.items) == 1
	switch {
	case l.kind == flowList && only:
		return l.splice(l.open, l.end, "[]")
	case l.kind == flowList && at > 0:
		return l.splice(l.items[at-1].end, i.end, "")
	case l.kind == flowList:
		return l.splice(i.start, l.items[1].start, "")
	case l.json && only && len(l.source) == i.end-i.start:
		return []byte("# no accounts" + l.newline()) // an empty file is an error
	case !l.json && only:
		return l.splice(i.start, i.end, strings.Repeat(" ", l.dash)+"[]"+l.newline())
	}
	return l.splice(i.start, i.end, "")
}

// add returns the source with one more account.
func (l *layout) add(a *Account) []byte {
	end, before, flow := len(l.source), "", l.json
	if len(l.items) > 0 {
		last := &l.items[len(l.items)-1]
		end, flow = last.end, last.flow
	}
	switch {
	case l.json:
		return l.splice(end, end, style{json: true}.account(a)+l.newline())
	case l.kind == flowList:
		return l.addToFlow(a)
	case l.kind == blockList:
		before = strings.Repeat(" ", l.dash)
	}
	if flow {
		return l.splice(end, end, before+"- "+style{}.account(a)+l.newline())
	}
	return l.splice(end, end, l.block(before, a))
}

// addToFlow adds an account to a flow list.
func (l *layout) addToFlow(a *Account) []byte {
	text := style{}.account(a)
	if len(l.items) == 0 {
		line := bytes.LastIndexByte(l.source[:l.open], '\n') + 1
		indent := string(l.source[line:l.open])
		if bytes.IndexByte(l.source[l.open:l.end], '\n') >= 0 || strings.TrimSpace(indent) != "" {
			return l.splice(l.open+1, l.open+1, text)
		}
		block := strings.TrimPrefix(l.block(indent, a), indent)
		return l.splice(l.open, l.end, strings.TrimSuffix(block, l.newline()))
	}
	last := l.items[len(l.items)-1]
	end, comma := last.end, ","
	if after := l.next(last.end-1, token.CommentType); after.kind == token.CollectEntryType {
		end, comma = after.start+1, ""
	}
	line := bytes.LastIndexByte(l.source[:last.start], '\n') + 1
	if indent := string(l.source[line:last.start]); line > 0 && strings.TrimSpace(indent) == "" {
		return l.splice(end, end, comma+l.newline()+indent+text)
	}
	return l.splice(end, end, comma+" "+text)
}

// block returns an account as an element of a block list.
func (l *layout) block(indent string, a *Account) string {
	gap := " "
	if n := len(l.items); n > 0 && l.items[n-1].column > l.dash+1 {
		gap = strings.Repeat(" ", l.items[n-1].column-l.dash-1)
	}
	text, inner := "", indent+" "+gap
	for _, key := range writtenOrder() {
		if field := fieldOf(a, key); !isEmpty(field) {
			text += l.blockEntry(inner, key, field)
		}
	}
	return indent + "-" + gap + strings.TrimPrefix(text, inner)
}

// style is how values are written.
type style struct {
	json   bool
	quoted bool // texts in quotes, also where they need none
}

// account returns an account in braces.
func (s style) account(a *Account) string {
	var pairs []string
	for _, key := range writtenOrder() {
		if field := fieldOf(a, key); !isEmpty(field) {
			pairs = append(pairs, s.pair(key, reflect.ValueOf(field).Elem()))
		}
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

func (s style) pair(key string, value reflect.Value) string {
	if s.json {
		key = `"` + key + `"`
	}
	return key + ": " + s.value(value)
}

// value returns a value in one line.
func (s style) value(v reflect.Value) string {
	switch one := v.Interface().(type) {
	case time.Time:
		return s.text(one.Format(time.RFC3339Nano))
	case Role:
		if one.Until.IsZero() {
			return s.text(one.Name)
		}
	}
	switch v.Kind() {
	case reflect.String:
		return s.text(v.String())
	case reflect.Pointer:
		return s.value(v.Elem())
	case reflect.Slice:
		elements := make([]string, v.Len())
		for i := range elements {
			elements[i] = s.value(v.Index(i))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case reflect.Struct:
		pairs := make([]string, v.NumField())
		for i := range pairs {
			pairs[i] = s.pair(v.Type().Field(i).Tag.Get("yaml"), v.Field(i))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	}
	return fmt.Sprint(v.Interface()) // a number, true or false
}

// text returns a text in quotes, if it needs some.
func (s style) text(text string) string {
	switch {
	case s.json:
		return strictyaml.QuotedJSON(text)
	case s.quoted:
		return strictyaml.Quoted(text)
	}
	return strictyaml.Text(text)
}
