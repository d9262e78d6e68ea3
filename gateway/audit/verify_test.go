package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// lines returns the lines of the file, with their line breaks.
func (c *chain) lines() [][]byte {
	return slices.Collect(bytes.Lines(must.Get(os.ReadFile(c.path))(c.tb)))
}

// The first line that was changed, removed, moved or added is named, with why.
func TestVerifyFindsChanges(t *testing.T) {
	t.Parallel()
	c, foreign := newChain(t), newChain(t)
	c.write("1", "2", "3", "4", "5")
	foreign.write("1", "2", "3", "4", "5")
	other := foreign.lines()
	for name, test := range map[string]struct {
		edit func(lines [][]byte) [][]byte
		line int // 0: none
		want string
	}{
		"nothing": {func(lines [][]byte) [][]byte { return lines }, 0, ""},
		"a changed byte": {func(lines [][]byte) [][]byte {
			lines[2] = bytes.Replace(lines[2], []byte(`"INFO"`), []byte(`"INFE"`), 1)
			return lines
		}, 3, "mac is wrong"},
		"another event": {func(lines [][]byte) [][]byte {
			lines[2] = bytes.Replace(lines[2], []byte(`"event":"3"`), []byte(`"event":"4"`), 1)
			return lines
		}, 3, "mac is wrong"},
		"a changed mac": {func(lines [][]byte) [][]byte {
			_, p, _ := cutLine(lines[2][:len(lines[2])-1])
			lines[2] = bytes.Replace(lines[2], []byte(p.MAC), []byte(strings.Repeat("0", 64)), 1)
			return lines
		}, 3, "mac is wrong"},
		"an upper-case mac": {func(lines [][]byte) [][]byte {
			_, p, _ := cutLine(lines[4][:len(lines[4])-1])
			lines[4] = bytes.Replace(lines[4], []byte(p.MAC), []byte(strings.ToUpper(p.MAC)), 1)
			return lines
		}, 5, "not a line of an audit file"},
		"the first line removed": {func(lines [][]byte) [][]byte { return lines[1:] }, 1, "seq is 2"},
		"a line removed": {func(lines [][]byte) [][]byte {
			return slices.Delete(lines, 2, 3)
		}, 3, "seq is 4, and 3 follows"},
		"two swapped": {func(lines [][]byte) [][]byte {
			lines[1], lines[2] = lines[2], lines[1]
			return lines
		}, 2, "seq is 3, and 2 follows"},
		"a line twice": {func(lines [][]byte) [][]byte {
			return slices.Insert(lines, 2, lines[1])
		}, 3, "seq is 2, and 3 follows"},
		"text added": {func(lines [][]byte) [][]byte { return append(lines, []byte("{}\n")) }, 6, "not a line"},
		"a line of another gateway": {func(lines [][]byte) [][]byte {
			lines[2] = other[2]
			return lines
		}, 3, "mac is wrong"},
		"a line of another gateway added": {func(lines [][]byte) [][]byte {
			return append(lines[:4], other[4])
		}, 5, "the line is of another gateway"},
		"a file of another gateway": {func([][]byte) [][]byte { return other }, 1, "mac is wrong"},
		"an empty line": {func(lines [][]byte) [][]byte {
			return slices.Insert(lines, 2, []byte("\n"))
		}, 3, "not a line"},
		"half a line at the end": {func(lines [][]byte) [][]byte {
			return append(lines[:4], lines[4][:20])
		}, 5, "was cut off"},
		"no line break at the end": {func(lines [][]byte) [][]byte {
			lines[4] = lines[4][:len(lines[4])-1]
			return lines
		}, 5, "was cut off"},
		"a carriage return": {func(lines [][]byte) [][]byte {
			lines[0] = append(lines[0][:len(lines[0])-1:len(lines[0])-1], "\r\n"...)
			return lines
		}, 1, "not a line of an audit file"},
		"whole lines cut off the end": {func(lines [][]byte) [][]byte { return lines[:3] }, 0, ""},
	} {
		v := Verifier{Key: must.Get(ReadKey(KeyFile(c.dir)))(t)}
		err := v.Read("audit.jsonl", bytes.NewReader(bytes.Join(test.edit(c.lines()), nil)))
		broken, ok := errors.AsType[*BrokenError](err)
		switch {
		case test.line == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.line > 0 && (!ok || !strings.HasPrefix(err.Error(), fmt.Sprintf("audit.jsonl:%d: ", test.line)) ||
			!strings.Contains(broken.Reason, test.want)):
			t.Errorf("%s: the error is %v, want %q at line %d", name, err, test.want, test.line)
		}
	}
}

// Files are verified in their order. The first one may continue one that was not seen.
func TestVerifyFiles(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.write("1", "2")
	first := c.move()
	c.write("3", "4")
	for _, test := range []struct {
		paths     []string
		broken    string
		events    int
		continues bool
	}{
		{[]string{first, c.path}, "", 5, false},
		{[]string{first}, "", 2, false},
		{[]string{c.path}, "", 3, true},
		{[]string{c.path, first}, first + ":1: seq is 1, and 6 follows", 3, true},
		{[]string{first, first}, first + ":1: seq is 1, and 3 follows", 2, false},
		{[]string{c.path, c.path}, c.path + ":1: seq is 3, and 6 follows", 3, true},
	} {
		v := Verifier{Key: must.Get(ReadKey(KeyFile(c.dir)))(t)}
		var err error
		for _, path := range test.paths {
			if err == nil {
				err = v.Read(path, bytes.NewReader(must.Get(os.ReadFile(path))(t)))
			}
		}
		if v.Events != test.events || v.Continues != test.continues || (err == nil) != (test.broken == "") ||
			err != nil && !strings.HasPrefix(err.Error(), test.broken) {
			t.Errorf("%v: %d events, continues=%v, %v", test.paths, v.Events, v.Continues, err)
		}
	}
}

// Lines that are missing at the end are found by the position of a line that left the machine.
func TestVerifyHolds(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.write("1", "2", "3")
	_, last, _ := cutLine(bytes.TrimSpace(c.lines()[2]))
	other := Position{last.Seq, strings.Repeat("0", 64)}
	for _, test := range []struct {
		lines int
		want  Position
		holds bool
	}{{3, last, true}, {2, last, false}, {3, other, false}, {2, Position{}, true}, {0, last, false}} {
		v := Verifier{Key: must.Get(ReadKey(KeyFile(c.dir)))(t), Want: test.want}
		must.Do(t, v.Read("audit.jsonl", bytes.NewReader(bytes.Join(c.lines()[:test.lines], nil))))
		if v.Holds() != test.holds {
			t.Errorf("%d lines hold %s: %v", test.lines, test.want, v.Holds())
		}
	}
}

// A position has a seq above 0 and a mac of 64 lower-case digits.
func TestParsePosition(t *testing.T) {
	t.Parallel()
	mac := strings.Repeat("0a", 32)
	if p := must.Get(ParsePosition("7:" + mac))(t); p != (Position{7, mac}) || p.String() != "7:"+mac {
		t.Errorf("the position is %v", p)
	}
	for _, text := range []string{
		"", "7", "7:", ":" + mac, "0:" + mac, "-1:" + mac, "7:" + strings.ToUpper(mac), "7:" + mac + "0",
	} {
		if p, err := ParsePosition(text); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
}

// Without the key, no text is accepted but whole lines from the beginning of a file.
func FuzzVerify(f *testing.F) {
	key := Key(strings.Repeat("k", keySize))
	var at Position
	var text string
	whole := []string{""} // all texts that are good
	for _, event := range []string{"login", "denied", "logout"} {
		object := fmt.Sprintf(`{"time":"2026-11-29T10:00:00Z","event":%q,"seq":%d}`, event, at.Seq+1)
		at = key.next(at, []byte(object))
		text += string(finish([]byte(object), at.MAC))
		whole = append(whole, text)
		f.Add([]byte(text))
	}
	lines := strings.SplitAfter(text, "\n")
	f.Add([]byte(lines[1] + lines[0]))
	f.Add([]byte(lines[0] + lines[2]))
	f.Add([]byte(text + lines[2]))
	f.Add([]byte(text[:len(text)-1]))
	f.Add([]byte(strings.Replace(text, "login", continued, 1)))
	f.Fuzz(func(t *testing.T, content []byte) {
		err := (&Verifier{Key: key}).Read("audit.jsonl", bytes.NewReader(content))
		if good := slices.Contains(whole, string(content)); good != (err == nil) {
			t.Errorf("the error of %q is %v", content, err)
		}
	})
}
