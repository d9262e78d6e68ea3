package strictjson

import (
	"bytes"
	"encoding/json"
	"regexp"
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
	for want, bads := range map[string][]string{
		`"a" appears twice`:   {`{"a":1,"a":1}`, `{"a":1,"b":2,"a":3}`},
		`"sub" appears twice`: {`{"sub":1,"s\u0075b":2}`},
		`"b" appears twice`:   {`{"a":{"b":1,"b":2}}`, `[{"a":[{"b":{},"b":[]}]}]`},
		`"" appears twice`:    {`{"":1,"":2}`},
		"more than one":       {`{}{}`, `{} x`, `{},`, `1 2`},
		"EOF":                 {``, `{`, `{"a":1`, `nul`, strings.Repeat("[", 10_000)},
		"invalid character":   {`{"a"}`, `{"a":1,}`, `{1:2}`, `[1}`, `{"a":01}`, `{'a':1}`, `{"a":1,` + `"a` + "\x00" + `"`},
	} {
		for _, bad := range bads {
			if err := Unique([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40s: got %v, want an error that says %q", bad, err, want)
			}
		}
	}
}

// What passes is one JSON value, and keeps all its members when decoded.
func FuzzUnique(f *testing.F) {
	for _, raw := range []string{
		`{"a":1,"b":{"a":[{}]}}`, `{"a":1,"a":2}`, `{}{}`, `[1,]`, `{"\u0061":1,"a":2}`,
		` 7 `, `{"a":}`, `[{"a":1},{"a":1}]`, "{\"\xff\":1,\"\xfe\":1}",
	} {
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
			if !json.Valid(raw) { // numbers out of range are none of its business
				t.Errorf("%q passes and is no JSON value", raw)
			}
			return
		}
		again, err := json.Marshal(value)
		if before, after := members(raw), members(again); err != nil || before != after {
			t.Errorf("%q has %d members, decoded %d, %v", raw, before, after, err)
		}
	})
}

// text is a string of JSON.
var text = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"`)

// members counts the colons outside of strings: one for each member.
func members(raw []byte) int { return bytes.Count(text.ReplaceAll(raw, nil), []byte(":")) }
