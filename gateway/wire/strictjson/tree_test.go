package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// none keeps the members of the whole value alone.
func none(int, []byte) bool { return false }

// Parse keeps members with decoded names down to a level, and the bytes of each value.
func TestParse(t *testing.T) {
	t.Parallel()
	v, err := Parse([]byte(` {"a\u0062":[1,{"x":"}\""}] , "c":{"d":{"e":-1.5e9}},"f":true,"g":{"h":1}} `), 64,
		func(level int, name []byte) bool { return level == 1 && string(name) != "g" })
	if err != nil {
		t.Fatal(err)
	}
	m := v.Members
	got := fmt.Sprintf("%s %s %s", m[0].Value.Raw, m[1].Value.Members[0].Value.Raw, m[2].Value.Raw)
	if want := `[1,{"x":"}\""}] {"e":-1.5e9} true`; got != want || string(v.Members[0].Name) != "ab" {
		t.Errorf("got %s, want %s", got, want)
	}
	if d := v.Members[1].Value.Members[0].Value; d.Members != nil {
		t.Errorf("the third level is kept: %v", d.Members)
	}
	if g := v.Member("g"); g.Members != nil || string(g.Raw) != `{"h":1}` {
		t.Errorf("of g, %s and %v is kept", g.Raw, g.Members)
	}
}

// Parse refuses what is no JSON in UTF-8, names that appear twice at any level, and deep nesting.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"m%d":{"a":1},`, i)
		}
		return "{" + b.String() + `"` + last + `":1}`
	}
	for text, want := range map[string]error{
		``: ErrSyntax, `{`: ErrSyntax, `{}{}`: ErrSyntax, "\ufeff{}": ErrSyntax, "{\"a\":\"\xff\"}": ErrSyntax,
		`{"a":1,"\u0061":2}`: ErrDuplicate, `[[{"a":{"b":1,"b":2}}]]`: ErrDuplicate, many("m3"): ErrDuplicate,
		many("m39"): ErrDuplicate, many("m40"): nil, `{"a":{"a":[{"a":1},{"a":1}]}}`: nil, `1e999`: nil,
		strings.Repeat("[", 8) + strings.Repeat("]", 8): nil, strings.Repeat("[", 9) + strings.Repeat("]", 9): ErrDepth,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000): ErrDepth,
	} {
		if _, err := Parse([]byte(text), 8, none); !errors.Is(err, want) {
			t.Errorf("%.60s: got %v, want %v", text, err, want)
		}
	}
}

// In strings, each byte at each place of eight and behind them is judged as encoding/json judges it.
func TestParseEachByte(t *testing.T) {
	t.Parallel()
	for _, fill := range []string{"x", "\x7f", "ß"} {
		for at := range 18 {
			for c := range 256 {
				text := `"` + strings.Repeat(fill, at) + string([]byte{byte(c)}) + strings.Repeat(fill, 18-at) + `"`
				_, err := Parse([]byte(text), 1, nil)
				if (err == nil) != (json.Valid([]byte(text)) && utf8.ValidString(text)) {
					t.Errorf("%q: %v", text, err)
				}
			}
		}
	}
}

// With a name that appears twice, the members after it are there, too, and no value is taken for the member twice.
func TestParseAfterAFault(t *testing.T) {
	t.Parallel()
	v, err := Parse([]byte(`{"params":{"a":1,"a":2},"id":7}`), 8, none)
	if id := v.Member("id"); string(id.Raw) != "7" || err.Error() != `member "a" appears twice` {
		t.Errorf("got %v, %v", v, err)
	}
	if v, _ = Parse([]byte(`{"id":7,"id":7}`), 8, none); v.Member("id").Raw != nil || v.Member("a").Raw != nil {
		t.Errorf("got %v", v)
	}
}

// Parse takes what encoding/json takes and is UTF-8, and finds the members that encoding/json finds.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{`{"a":1,"b":{"a":[{}]}}`, `{"a":1,"a":2}`, `{}{}`, ` 7 `, `["\"",{"\\":1,"\\":2}]`,
		`[-0.5e+1,0,-0,1E5,10.0]`, `[01]`, `[1.]`, `[.5]`, `[1e]`, `[+1]`, `[-]`, `[1,]`,
		`{"a":1,}`, `{,}`, `[,1]`, `{"a"}`,
		`{"a":}`, `{a:1}`, `[true,false,null]`, `[tru]`, `[nulll]`, `"\u12aF\/"`,
		`"\u12g0"`, "\"\\u\x10000\"", `"\x"`, "\"\x01\"",
		"[\x00]", "{\x00}", "\x00", "7\x00", `"`, `"\`, "\xff", `[1 2]`, `{"a" :1 ,"b": 2}`,
		strings.Repeat("[", 10_001)} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Parse(raw, 10_000, none)
		if (errors.Is(err, ErrSyntax) || errors.Is(err, ErrDepth)) == (json.Valid(raw) && utf8.Valid(raw)) {
			t.Errorf("%q: %v; it is JSON for encoding/json: %v", raw, err, json.Valid(raw))
		}
		if errors.Is(err, ErrSyntax) || errors.Is(err, ErrDepth) {
			return
		}
		if string(v.Raw) != strings.Trim(string(raw), " \t\r\n") {
			t.Errorf("%q: the value is %q", raw, v.Raw)
		}
		if v.IsObject() {
			var members map[string]json.RawMessage
			if json.Unmarshal(raw, &members) != nil || err == nil && len(members) != len(v.Members) {
				t.Errorf("%q has %d members, encoding/json finds %d", raw, len(v.Members), len(members))
			}
		}
	})
}
