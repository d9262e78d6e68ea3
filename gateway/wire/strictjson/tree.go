package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
// in their order, as far as Parse keeps them.
type Value struct {
	Raw     []byte
	Members []Member
}

// Member is a member of an object, with its name decoded.
type Member struct {
	Name  string
	Value Value
}

// Member returns the value of a member, and false if there is none.
func (v *Value) Member(name string) (*Value, bool) {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i].Value, true
		}
	}
	return nil, false
}

// IsObject reports whether the value is an object.
func (v *Value) IsObject() bool { return len(v.Raw) > 0 && v.Raw[0] == '{' }

// Parse parses one JSON text in which no object has two members with the same name, and in which
// objects and arrays are nested at most depth levels. It keeps the members of objects in the first keep
// levels. With ErrDuplicate and ErrDepth, it returns the whole value beside the error,
// unless the text is too deep for encoding/json.
func Parse(raw []byte, depth, keep int) (Value, error) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil && strings.Contains(err.Error(), "max depth") {
			return Value{}, ErrDepth // below the 10,000 levels of encoding/json
		}
		return Value{}, ErrSyntax
	}
	return parse(raw, depth, keep)
}

// parse is Parse of a text that is JSON.
func parse(raw []byte, depth, keep int) (Value, error) {
	p := parser{raw: raw, depth: depth, keep: keep}
	var v Value
	p.value(&v, 1)
	return v, p.fault
}

// parser parses a text that is JSON.
type parser struct {
	raw         []byte
	at          int
	depth, keep int
	names       [][]byte // of the objects that are open, decoded
	fault       error    // the first one
}

// linear is up to how many members the names of an object are compared with each other.
const linear = 16

func (p *parser) value(v *Value, level int) {
	p.space()
	start := p.at
	switch p.raw[p.at] {
	case '{', '[':
		if level > p.depth {
			p.fail(ErrDepth)
		}
		p.container(v, level)
	case '"':
		p.text()
	default:
		for p.at < len(p.raw) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(p.raw[p.at])) {
			p.at++
		}
	}
	v.Raw = p.raw[start:p.at]
}

func (p *parser) fail(err error) {
	if p.fault == nil {
		p.fault = err
	}
}

// container parses an object or an array.
func (p *parser) container(v *Value, level int) {
	object, base := p.raw[p.at] == '{', len(p.names)
	var many map[string]bool
	for p.at++; ; {
		if p.space(); p.raw[p.at] == '}' || p.raw[p.at] == ']' {
			p.at++
			p.names = p.names[:base]
			return
		}
		if p.raw[p.at] == ',' {
			p.at++
			p.space()
		}
		var name []byte
		if object {
			name = p.name()
			if p.twice(name, base, &many) {
				p.fail(fmt.Errorf("member %q %w", name, ErrDuplicate))
			}
			p.space()
			p.at++ // the colon
		}
		var one Value
		p.value(&one, level+1)
		if object && level <= p.keep {
			v.Members = append(v.Members, Member{Name: string(name), Value: one})
		}
	}
}

// twice notes the name of a member, and reports whether its object has it already.
func (p *parser) twice(name []byte, base int, many *map[string]bool) bool {
	known := p.names[base:]
	if len(known) < linear {
		p.names = append(p.names, name)
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

// name parses the name of a member.
func (p *parser) name() []byte {
	quoted := p.text()
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	var decoded string
	_ = json.Unmarshal(quoted, &decoded) // it is a JSON text
	return []byte(decoded)
}

// text parses a string, and returns it with its quotes.
func (p *parser) text() []byte {
	start := p.at
	for p.at++; p.raw[p.at] != '"'; p.at++ {
		if p.raw[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
	return p.raw[start:p.at]
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
