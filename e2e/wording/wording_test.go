package main

import (
	"strings"
	"testing"
)

var sample = `package sample

// check returns what the client
// sends. The second sentence is fine: it names its nouns.
func check() {}

// One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
// seventeen eighteen nineteen twenty one two three four five six seven eight nine ten eleven.
func checkPassword() {}

func (s *server) serve() {} // what serves, in a comment at the end of a line

var text = "what a string says is no comment"

var wide = "` + strings.Repeat("w", 107) + `"
var wider = "` + strings.Repeat("w", 107) + `"
`

// Each kind is found where it is, and only in comments and declarations.
func TestPlaces(t *testing.T) {
	found, err := readFile("gateway/sample.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"gateway/sample.go:3: sentences with \"what\": check returns what the client sends.":            true,
		"gateway/sample.go:5: functions named by a verb alone: check":                                   true,
		"gateway/sample.go:11: functions named by a verb alone: serve":                                  true,
		"gateway/sample.go:11: sentences with \"what\": what serves, in a comment at the end of a line": true,
		"gateway/sample.go:7: sentences above 30 words: One two three four":                             true,
		"gateway/sample.go:16: lines above 120 columns: var wider":                                      true,
	}
	for _, p := range found {
		matched := false
		for w := range want {
			if strings.HasPrefix(p.String(), w) {
				delete(want, w)
				matched = true
			}
		}
		if !matched {
			t.Errorf("found %s", p)
		}
	}
	for w := range want {
		t.Errorf("did not find %s", w)
	}
}

// One sentence more than the limits allow is an error that shows where it is; code that moves to another
// package is none.
func TestCompare(t *testing.T) {
	limits, err := parseLimits(head + "gateway 1 0 0 0\npolicy 1 0 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	places := []place{{what, "policy/a.go", 3, "first"}, {what, "policy/b.go", 4, "second"}}
	var out strings.Builder
	if err := compare(&out, places, limits); err != nil || out.String() != "" {
		t.Errorf("moved code: %v, %s", err, out.String())
	}
	err = compare(&out, append(places, place{what, "gateway/c.go", 5, "third"}), limits)
	if err == nil || !strings.Contains(err.Error(), `3 sentences with "what", the limit is 2`) {
		t.Errorf("one sentence more: %v", err)
	}
	if !strings.Contains(out.String(), `policy/b.go:4: sentences with "what": second`) {
		t.Errorf("one sentence more shows %s", out.String())
	}
}

// The limits read back as they are written, and a row that is incomplete is an error.
func TestLimits(t *testing.T) {
	rows := map[string]counts{"gateway": {1, 2, 3, 4}, "policy": {5, 0, 0, 6}}
	read, err := parseLimits(formatLimits(rows))
	if err != nil || len(read) != 2 || read["gateway"] != rows["gateway"] || read["policy"] != rows["policy"] {
		t.Errorf("read %v, %v", read, err)
	}
	if _, err := parseLimits("gateway 1 2 3\n"); err == nil {
		t.Error("a row of three numbers is read")
	}
}
