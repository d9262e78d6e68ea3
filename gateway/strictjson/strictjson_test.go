package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestUnique(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		`{}`, `[]`, `null`, `7`, `"x"`, ` {"a":1,"b":1,"A":1} `, `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}`,
		`{"a":"a","":"","b":[]}`, `{"a":1e300}`,
	} {
		if err := Unique([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		`{"a":1,"a":1}`:                 `"a" appears twice`,
		`{"a":1,"b":2,"a":3}`:           `"a" appears twice`,
		`{"sub":1,"s\u0075b":2}`:        `"sub" appears twice`,
		`{"a":{"b":1,"b":2}}`:           `"b" appears twice`,
		`[{"a":[{"b":{},"b":[]}]}]`:     `"b" appears twice`,
		`{"":1,"":2}`:                   `"" appears twice`,
		`{}{}`:                          "more than one",
		`{} x`:                          "more than one",
		`{},`:                           "more than one",
		`1 2`:                           "more than one",
		``:                              "EOF",
		`{`:                             "EOF",
		`{"a":1`:                        "EOF",
		`{"a"}`:                         "invalid character",
		`{"a":1,}`:                      "invalid character",
		`{1:2}`:                         "invalid character",
		`[1}`:                           "invalid character",
		`{"a":01}`:                      "invalid character",
		`{'a':1}`:                       "invalid character",
		`nul`:                           "EOF",
		strings.Repeat("[", 10_000):     "EOF",
		`{"a":1,` + `"a` + "\x00" + `"`: "invalid character",
	} {
		err := Unique([]byte(bad))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want an error that says %q", bad, err, want)
		}
	}
}

// What passes is one JSON value, and keeps all its members when decoded.
func FuzzUnique(f *testing.F) {
	for _, raw := range []string{`{"a":1,"b":{"a":[{}]}}`, `{"a":1,"a":2}`, `{}{}`, `[1,]`, `{"\u0061":1,"a":2}`, ` 7 `, `{"a":}`, `[{"a":1},{"a":1}]`, "{\"\xff\":1,\"\xfe\":1}"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := Unique(raw)
		if err != nil {
			if json.Valid(raw) && !strings.Contains(err.Error(), "appears twice") {
				t.Errorf("%q is refused: %v", raw, err)
			}
			return
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			// Numbers out of range are none of its business.
			if !json.Valid(raw) {
				t.Errorf("%q passes and is no JSON value", raw)
			}
			return
		}
		again, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if before, after := colons(raw), colons(again); before != after {
			t.Errorf("%q has %d members, decoded %d", raw, before, after)
		}
	})
}

// colons counts those outside of strings: one for each member.
func colons(raw []byte) (n int) {
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch {
		case quoted && raw[i] == '\\':
			i++
		case raw[i] == '"':
			quoted = !quoted
		case raw[i] == ':' && !quoted:
			n++
		}
	}
	return n
}
