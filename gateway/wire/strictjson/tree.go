package strictjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// The errors of Parse. ErrSyntax is about text that is no JSON, or not UTF-8.
var (
	ErrSyntax    = errors.New("is no JSON in UTF-8")
	ErrDuplicate = errors.New("appears twice")
	ErrDepth     = errors.New("is nested too deeply")
)

// Value is a value of a JSON text. Raw is a part of the text, and Members are those of an object,
// in their order, as far as Parse keeps them. The zero Value is no value.
type Value struct {
	Raw     []byte
	Members []Member
}

// Member is a member of an object, with its name decoded, which may be a part of the text.
type Member struct {
	Name  []byte
	Value Value
}

// Member returns the value of the member with a name. It returns the zero Value if there is none, or several.
func (v *Value) Member(name string) (found Value) {
	for i := range v.Members {
		if string(v.Members[i].Name) != name {
			continue
		}
		if found.Raw != nil {
			return Value{}
		}
		found = v.Members[i].Value
	}
	return found
}

// IsObject reports whether the value is an object.
func (v *Value) IsObject() bool { return len(v.Raw) > 0 && v.Raw[0] == '{' }

// Parse parses one JSON text in which no object has two members with the same name, and in which
// objects and arrays are nested at most depth levels. It keeps the members of the whole value, and those of a member
// for which keep returns true; level is 1 for the members of the whole value. A nil keep keeps none.
// With ErrDuplicate and ErrDepth, Parse returns the whole value beside the error,
// unless the text is too deep for encoding/json.
//
// It looks at each byte once and allocates only for the members that it keeps, because routes for MCP servers
// parse each request.
func Parse(raw []byte, depth int, keep func(level int, name []byte) bool) (Value, error) {
	if !utf8.Valid(raw) {
		return Value{}, ErrSyntax
	}
	return parse(raw, depth, keep)
}

// parse is Parse of a text that may not be UTF-8.
func parse(raw []byte, depth int, keep func(level int, name []byte) bool) (Value, error) {
	var v Value
	p := parser{raw: raw, depth: depth, keep: keep}
	if !p.value(&v, 1, keep != nil) {
		if p.tooDeep {
			return Value{}, ErrDepth
		}
		return Value{}, ErrSyntax
	}
	if p.space(); p.at < len(raw) {
		return Value{}, ErrSyntax
	}
	return v, p.fault
}

// parser parses a text. Its methods return false where the text is no JSON.
type parser struct {
	raw     []byte
	at      int
	depth   int
	keep    func(level int, name []byte) bool
	names   [maxNames][]byte // of members of the objects that are open, decoded
	open    int              // the number of those names
	fault   error            // the first one in a text that is JSON
	tooDeep bool             // for encoding/json
}

const (
	maxNames = 32     // beyond them, the names of an object are in a map
	most     = 10_000 // levels that encoding/json takes
)

// value parses a value. A nil v keeps nothing of it.
func (p *parser) value(v *Value, level int, members bool) bool {
	p.space()
	start, ok := p.at, false
	switch p.peek() {
	case '{', '[':
		if members {
			ok = p.container(v, level)
		} else {
			ok = p.container(nil, level)
		}
	case '"':
		_, _, ok = p.text()
	case 't':
		ok = p.word("true")
	case 'f':
		ok = p.word("false")
	case 'n':
		ok = p.word("null")
	default:
		ok = p.number()
	}
	if v != nil {
		v.Raw = p.raw[start:p.at]
	}
	return ok
}

// peek returns the next byte, 0 at the end of the text.
func (p *parser) peek() byte {
	if p.at < len(p.raw) {
		return p.raw[p.at]
	}
	return 0
}

// take goes on after a byte if it is the next one.
func (p *parser) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

// word goes on after a word if it is next.
func (p *parser) word(text string) bool {
	if !bytes.HasPrefix(p.raw[p.at:], []byte(text)) {
		return false
	}
	p.at += len(text)
	return true
}

// container parses an object or an array. A nil v keeps none of its members.
func (p *parser) container(v *Value, level int) bool {
	if level > p.depth {
		p.fault = cmp.Or(p.fault, ErrDepth)
	}
	if level > most {
		p.tooDeep = true
		return false
	}
	closing, base := byte(']'), p.open
	if p.peek() == '{' {
		closing = '}'
	}
	var many map[string]bool
	p.at++
	if p.space(); p.take(closing) {
		return true
	}
	for {
		var kept *Value
		members := false
		if closing == '}' {
			name, ok := p.name()
			if !ok {
				return false
			}
			if p.twice(name, base, &many) {
				p.fault = cmp.Or(p.fault, fmt.Errorf("member %q %w", name, ErrDuplicate))
			}
			if v != nil {
				if v.Members == nil {
					v.Members = make([]Member, 0, 4)
				}
				v.Members = append(v.Members, Member{Name: name})
				kept, members = &v.Members[len(v.Members)-1].Value, p.keep(level, name)
			}
		}
		if !p.value(kept, level+1, members) {
			return false
		}
		if p.space(); p.take(closing) {
			p.open = base
			return true
		}
		if !p.take(',') {
			return false
		}
	}
}

// twice notes the name of a member, and reports whether its object has it already. base is the number of the
// names before those of the object.
func (p *parser) twice(name []byte, base int, many *map[string]bool) bool {
	known := p.names[base:p.open]
	if p.open < maxNames {
		p.names[p.open] = name
		p.open++
		return slices.ContainsFunc(known, func(other []byte) bool { return bytes.Equal(name, other) })
	}
	if *many == nil {
		*many = map[string]bool{}
		for _, other := range known {
			(*many)[string(other)] = true
		}
	}
	found := (*many)[string(name)]
	(*many)[string(name)] = true
	return found
}

// name parses the name of a member, with the colon behind it.
func (p *parser) name() ([]byte, bool) {
	p.space()
	if p.peek() != '"' {
		return nil, false
	}
	quoted, escaped, ok := p.text()
	p.space()
	if !ok || !p.take(':') {
		return nil, false
	}
	if !escaped && utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1], true
	}
	var decoded string
	_ = json.Unmarshal(quoted, &decoded) // it is a JSON text
	return []byte(decoded), true
}

// text parses a string, and returns it with its quotes, and whether it has escapes.
func (p *parser) text() (quoted []byte, escaped, ok bool) {
	start, raw := p.at, p.raw
	for at := start + 1; ; at = p.at + 1 {
		if at += plain(raw[at:]); at == len(raw) {
			return nil, false, false
		}
		switch p.at = at; raw[at] {
		case '"':
			p.at++
			return raw[start:p.at], escaped, true
		case '\\':
			if escaped = true; !p.escape() {
				return nil, false, false
			}
		default:
			return nil, false, false
		}
	}
}

// plain returns how many of the first bytes of a text are neither quotes, backslashes nor control characters.
// It looks at eight bytes at once.
func plain(raw []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(raw); n += 8 {
		eight := binary.LittleEndian.Uint64(raw[n:])
		// The other bit of 0x02 makes a quote a space, and leaves control characters below it. A byte below the one
		// that is subtracted borrows, and the first such byte has its high bit set then; bytes beyond ASCII had it.
		quotesAndControls := (eight ^ each*2) - each*(' '+1)
		backslashes := (eight ^ each*'\\') - each
		if found := (quotesAndControls | backslashes) &^ eight & high; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(raw) && raw[n] != '"' && raw[n] != '\\' && raw[n] >= ' '; n++ {
	}
	return n
}

// escape goes on to the last byte of an escape in a string.
func (p *parser) escape() bool {
	p.at++
	switch p.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			p.at++
			if !strings.ContainsRune("0123456789abcdefABCDEF", rune(p.peek())) {
				return false
			}
		}
		return true
	}
	return false
}

// number parses a number.
func (p *parser) number() bool {
	p.take('-')
	if !p.take('0') && !p.digits() || p.take('.') && !p.digits() {
		return false
	}
	if p.take('e') || p.take('E') {
		_ = p.take('+') || p.take('-')
		return p.digits()
	}
	return true
}

// digits parses at least one digit.
func (p *parser) digits() bool {
	start := p.at
	for '0' <= p.peek() && p.peek() <= '9' {
		p.at++
	}
	return p.at > start
}

func (p *parser) space() {
	for p.at < len(p.raw) {
		switch p.raw[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}
