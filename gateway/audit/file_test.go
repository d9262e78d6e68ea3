package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

// chain is a data_dir with a file of events.
type chain struct {
	tb      testing.TB
	dir     string
	path    string
	log     logtest.Buffer
	metrics *prometheus.Registry // of the last recorder
}

func newChain(tb testing.TB) *chain {
	dir := tb.TempDir()
	return &chain{tb: tb, dir: dir, path: filepath.Join(dir, "audit.jsonl")}
}

// open returns a recorder that writes to the file, and logs as JSON. The test ends it.
func (c *chain) open() *Recorder {
	c.metrics = prometheus.NewRegistry()
	r := must.Get(WithFile(slog.New(slog.NewJSONHandler(&c.log, nil)), c.path, c.dir, c.metrics))(c.tb)
	c.tb.Cleanup(func() { r.Close() })
	return r
}

// write records events in a recorder that it opens and closes.
func (c *chain) write(events ...string) {
	r := c.open()
	defer r.Close()
	for _, event := range events {
		r.Record(event)
	}
}

// events returns the names of the events of files, the oldest first, after it has verified them.
func (c *chain) events(paths ...string) (names []string) {
	c.tb.Helper()
	must.Do(c.tb, c.verify(paths...))
	for _, path := range paths {
		for line := range bytes.Lines(must.Get(os.ReadFile(path))(c.tb)) {
			names = append(names, decode(c.tb, line)["event"].(string))
		}
	}
	return names
}

// verify verifies files of the chain.
func (c *chain) verify(paths ...string) error {
	v := Verifier{Key: must.Get(ReadKey(KeyFile(c.dir)))(c.tb)}
	for _, path := range paths {
		if err := v.Read(path, bytes.NewReader(must.Get(os.ReadFile(path))(c.tb))); err != nil {
			return err
		}
	}
	return nil
}

// move moves the file away, and returns its new path.
func (c *chain) move() string {
	moved := c.path + ".1"
	must.Do(c.tb, os.Rename(c.path, moved))
	return moved
}

// cutTo makes the file end after lines, and some bytes of the next one.
func (c *chain) cutTo(lines, more int) {
	size := more
	content := must.Get(os.ReadFile(c.path))(c.tb)
	for _, line := range slices.Collect(bytes.Lines(content))[:lines] {
		size += len(line)
	}
	must.Do(c.tb, os.Truncate(c.path, int64(size)))
}

// failures returns how many events the metric of the last recorder counts as lost.
func (c *chain) failures() float64 {
	for _, family := range must.Get(c.metrics.Gather())(c.tb) {
		if family.GetName() == "authgate_audit_failures_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	c.tb.Fatal("there is no metric")
	return 0
}

func decode(tb testing.TB, line []byte) (event map[string]any) {
	must.Do(tb, json.Unmarshal(line, &event))
	return event
}

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the events are %v, want %v", got, want)
	}
}

// Each event is a JSON object on a line, whatever the level and the format of the log, with seq and
// mac as the reference defines them. Only the owner can read the files.
func TestFileLines(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	var text logtest.Buffer
	for _, log := range []slog.Handler{
		slog.NewJSONHandler(&c.log, &slog.HandlerOptions{Level: slog.LevelError}), slog.NewTextHandler(&text, nil),
	} {
		r := must.Get(WithFile(slog.New(log), c.path, c.dir, prometheus.NewRegistry()))(t)
		r.Record("login", slog.String("subject", "local:alice"), slog.String("login", "\x1b"))
		r.Record("denied", slog.String("reason", ""))
		must.Do(t, r.Close())
	}
	digits := must.Get(os.ReadFile(filepath.Join(c.dir, "audit.key")))(t)
	key := must.Get(hex.DecodeString(strings.TrimSpace(string(digits))))(t)
	var mac string
	var number int
	var names []string
	for line := range bytes.Lines(must.Get(os.ReadFile(c.path))(t)) {
		number++
		event := decode(t, line)
		own, _ := event["mac"].(string)
		covered, found := strings.CutSuffix(string(line), `,"mac":"`+own+`"}`+"\n")
		sum := hmac.New(sha256.New, key)
		fmt.Fprintf(sum, "%s%s}", mac, covered)
		if mac = hex.EncodeToString(sum.Sum(nil)); !found || own != mac || len(key) != 32 {
			t.Errorf("the mac of %s is not %s", line, mac)
		}
		if event["seq"] != float64(number) || event["level"] != "INFO" || event["time"] == nil {
			t.Errorf("line %d is %s", number, line)
		}
		names = append(names, strings.TrimSpace(fmt.Sprintln(
			event["msg"], event["event"], event["subject"], event["login"], event["reason"])))
	}
	login, denied := `audit login local:alice \x1b <nil>`, "audit denied <nil> <nil> <nil>"
	wantEvents(t, names, login, denied, login, denied)
	if last := text.String(); number != 4 || c.log.String() != "" || !strings.HasSuffix(last, "seq=4 mac="+mac+"\n") {
		t.Errorf("there are %d lines, and the logs are\n%s and\n%s", number, c.log.String(), last)
	}
	for _, name := range []string{"audit.jsonl", "audit.key", "audit.state"} {
		if mode := must.Get(os.Stat(filepath.Join(c.dir, name)))(t).Mode(); mode != 0o600 {
			t.Errorf("the mode of %s is %v", name, mode)
		}
	}
}

// Goroutines that record at once leave lines in the order of their numbers.
func TestFileAtOnce(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	r := c.open()
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 25 {
				r.Record("login")
			}
		})
	}
	writers.Wait()
	if events := c.events(c.path); len(events) != 200 || len(c.log.Records(t, Message)) != 200 {
		t.Errorf("there are %d events", len(events))
	}
}

// After the file was moved away or became smaller, while the gateway runs or is stopped, the next
// line is audit_continued, with the last position before.
func TestFileContinues(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		for name, do := range map[string]func(*chain){
			"moved":          func(c *chain) { c.move() },
			"removed":        func(c *chain) { must.Do(c.tb, os.Remove(c.path)) },
			"emptied":        func(c *chain) { must.Do(c.tb, os.Truncate(c.path, 0)) },
			"replaced":       func(c *chain) { must.Do(c.tb, os.WriteFile(c.move(), nil, 0o600)) },
			"moved twice":    func(c *chain) { must.Do(c.tb, os.Rename(c.move(), c.path+".2")) },
			"cut in line 1":  func(c *chain) { c.cutTo(0, 10) },
			"made and moved": func(c *chain) { c.move(); must.Do(c.tb, os.WriteFile(c.path, []byte(`{"time":"2026`), 0o600)) },
		} {
			t.Run(fmt.Sprintf("%s running=%v", name, running), func(t *testing.T) {
				t.Parallel()
				c := newChain(t)
				r := c.open()
				r.Record("first")
				r.Record("second")
				second := c.log.Last(t, Message)
				if !running {
					must.Do(t, r.Close())
				}
				do(c)
				if !running {
					r = c.open()
				}
				r.Record("third")
				r.Record("fourth")
				want := []string{continued, "third", "fourth"}
				if half := name == "cut in line 1" || name == "made and moved"; half && !running {
					want = slices.Insert(want, 1, cut)
				}
				wantEvents(t, c.events(c.path), want...)
				content := must.Get(os.ReadFile(c.path))(t)
				first := decode(t, content[:bytes.IndexByte(content, '\n')])
				if first["last_seq"] != 2.0 || first["last_mac"] != second["mac"] || first["seq"] != 3.0 {
					t.Errorf("the first line is %v, and the one before it was %v", first, second)
				}
				if slices.Contains([]string{"moved", "replaced", "made and moved"}, name) {
					c.events(c.path+".1", c.path)
				}
			})
		}
	}
}

// A process that is killed at any point of a line leaves a chain that goes on, also if the file was
// moved away meanwhile. No number is used twice, and none is left out.
func TestFileAfterKill(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state int // how many lines the state has as written, and one as begun if begun
		begun bool
		lines int // in the file
		more  int // bytes of the next one
		moved bool
		want  string // the events of all files
	}{
		"before the state":     {state: 2, lines: 2, want: "1 2 next"},
		"before the line":      {state: 2, begun: true, lines: 2, want: "1 2 next"},
		"in the line":          {state: 2, begun: true, lines: 2, more: 30, want: "1 2 audit_cut next"},
		"after the line":       {state: 2, begun: true, lines: 3, want: "1 2 3 next"},
		"moved before a line":  {state: 2, begun: true, lines: 2, moved: true, want: "1 2 audit_continued next"},
		"moved after the line": {state: 2, begun: true, lines: 3, moved: true, want: "1 2 3 audit_continued next"},
		"in the first line":    {begun: true, more: 30, want: "audit_cut next"},
		"after the first line": {begun: true, lines: 1, want: "1 next"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t)
			c.write("1", "2", "3")
			at := []Position{{}}
			for _, event := range c.log.Records(t, Message) {
				at = append(at, Position{uint64(event["seq"].(float64)), event["mac"].(string)})
			}
			c.cutTo(test.lines, test.more)
			state := at[test.state].String()
			if test.begun {
				state += " " + at[test.state+1].String()
			}
			must.Do(t, os.WriteFile(filepath.Join(c.dir, "audit.state"), []byte(state+"\n"), 0o600))
			files := []string{c.path}
			if test.moved {
				files = []string{c.move(), c.path}
			}
			c.write("next")
			wantEvents(t, c.events(files...), strings.Fields(test.want)...)
		})
	}
}

// A file that ends before the state at a start gets audit_lost with both numbers, and goes on there.
func TestFileEndsBeforeItsState(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 20} {
		c := newChain(t)
		c.write("1", "2", "3", "4")
		c.cutTo(3, more)
		c.log.Reset()
		c.write("next")
		want := []string{"1", "2", "3", lost, "next"}
		if more > 0 {
			want = slices.Insert(want, 4, cut)
		}
		wantEvents(t, c.events(c.path), want...)
		event := c.log.Records(t, Message)[0]
		if event["event"] != lost || event["last_seq"] != 4.0 || event["file_seq"] != 3.0 || event["seq"] != 4.0 {
			t.Errorf("the log has %v", event)
		}
	}
}

// A file that cannot be written is no reason to stop: the events are in the log without numbers, and
// are counted, and the log says it once. A second after it can be written again, audit_lost says how many.
func TestFileRecovers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		moved      bool // the file goes on elsewhere
		hurt, mend func(*chain, *Recorder)
	}{
		"no folder": {
			true, func(c *chain, _ *Recorder) { must.Do(c.tb, os.Rename(filepath.Dir(c.path), c.dir+"/away")) },
			func(c *chain, _ *Recorder) { must.Do(c.tb, os.Mkdir(filepath.Dir(c.path), 0o700)) },
		},
		"not a file": {
			true, func(c *chain, _ *Recorder) { c.move(); must.Do(c.tb, os.Mkdir(c.path, 0o700)) },
			func(c *chain, _ *Recorder) { must.Do(c.tb, os.Remove(c.path)) },
		},
		"an error of the disk": {
			false, func(c *chain, r *Recorder) { must.Do(c.tb, r.file.events.Close()) },
			func(*chain, *Recorder) {},
		},
		"no state": {
			false, func(c *chain, r *Recorder) { must.Do(c.tb, r.file.state.Close()) },
			func(c *chain, r *Recorder) {
				r.file.mu.Lock()
				defer r.file.mu.Unlock()
				r.file.state = must.Get(openLocked(r.file.statePath, 0))(c.tb)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newChain(t)
				c.path = filepath.Join(c.dir, "log", "audit.jsonl")
				must.Do(t, os.Mkdir(filepath.Dir(c.path), 0o700))
				r := c.open()
				r.Record("before")
				test.hurt(c, r)
				r.Record("one")
				r.Record("two")
				if two := c.log.Last(t, Message); two["event"] != "two" || two["seq"] != nil || two["mac"] != nil {
					t.Errorf("the log has %v", two)
				}
				if c.failures() != 2 || r.Problem() == "" {
					t.Errorf("%v failures are counted, and the problem is %q", c.failures(), r.Problem())
				}
				if name != "an error of the disk" {
					time.Sleep(5 * retryTime)
				}
				if said := strings.Count(c.log.String(), "cannot be written"); said != 1 || r.Problem() == "" {
					t.Errorf("the log says it %d times:\n%s", said, c.log.String())
				}
				test.mend(c, r)
				time.Sleep(retryTime)
				synctest.Wait()
				if r.Problem() != "" || strings.Count(c.log.String(), "is written again") != 1 {
					t.Errorf("the problem is still %q, and the log is\n%s", r.Problem(), c.log.String())
				}
				r.Record("after")
				events := c.log.Records(t, Message)
				count := events[len(events)-2]
				if count["event"] != lost || count["count"] != 2.0 || c.failures() != 2 {
					t.Errorf("the event before is %v", count)
				}
				want, seq := []string{"before", lost, "after"}, 3.0
				if test.moved {
					want, seq = []string{continued, lost, "after"}, 4.0
				}
				wantEvents(t, c.events(c.path), want...)
				if after := events[len(events)-1]; after["seq"] != seq {
					t.Errorf("the event after is %v", after)
				}
			})
		})
	}
}

// A gateway starts without its file, and one that stops while it fails tries once more to say how
// many events are lost.
func TestFileFailsAtStartAndStop(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	must.Do(t, os.Mkdir(c.path, 0o700))
	r := c.open()
	if !strings.Contains(r.Problem(), "is a directory") {
		t.Errorf("the problem is %q", r.Problem())
	}
	r.Record("login")
	must.Do(t, os.Remove(c.path))
	must.Do(t, r.Close())
	wantEvents(t, c.events(c.path), lost)
	c.path = "/dev/null"
	if r := c.open(); !strings.Contains(r.Problem(), "not a regular file") {
		t.Errorf("the problem is %q", r.Problem())
	}
}

// Events that are lost before a stop are told by the first start that can write the file.
func TestFileLostOverStarts(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.path = filepath.Join(c.dir, "log", "audit.jsonl")
	c.write("early")
	must.Do(t, os.Mkdir(filepath.Dir(c.path), 0o700))
	c.write("before")
	away := filepath.Join(c.dir, "away")
	must.Do(t, os.Rename(filepath.Dir(c.path), away))
	c.write("one", "two")
	c.write("three")
	must.Do(t, os.Rename(away, filepath.Dir(c.path)))
	c.write("after")
	wantEvents(t, c.events(c.path), lost, "before", lost, "after")
	var counts []any
	for _, event := range c.log.Records(t, Message) {
		if event["event"] == lost {
			counts = append(counts, event["count"])
		}
	}
	if !slices.Equal(counts, []any{1.0, 3.0}) {
		t.Errorf("the events lost are %v", counts)
	}
}

// A second process cannot write to the file, with the same data_dir or another, until the first ends.
func TestFileOfAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t)
		other := &chain{tb: t, dir: t.TempDir(), path: c.path}
		first := c.open()
		for _, r := range []*Recorder{c.open(), other.open()} {
			r.Record("refused")
			if !strings.Contains(r.Problem(), "in use by another process") {
				t.Errorf("the problem is %q", r.Problem())
			}
			must.Do(t, r.Close())
		}
		second := c.open()
		first.Record("login")
		must.Do(t, first.Close())
		time.Sleep(retryTime)
		synctest.Wait()
		second.Record("logout")
		wantEvents(t, c.events(c.path), "login", "logout")
	})
}

// A key that is not one stops the start, and is never replaced.
func TestKeyIsBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(KeyFile(dir), []byte("abcd\n"), 0o600))
	_, err := WithFile(slog.New(slog.DiscardHandler), filepath.Join(dir, "audit.jsonl"), dir, prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "audit.jsonl")); !os.IsNotExist(err) {
		t.Errorf("the file was made: %v", err)
	}
}

// A file that is none of audit events stays as it is, such as a key whose name was given by mistake.
func TestFileOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"0123456789secret", "-----BEGIN PRIVATE KEY-----\nx\n", `{"tim_`, "\x00"} {
		c := newChain(t)
		must.Do(t, os.WriteFile(c.path, []byte(content), 0o600))
		r := c.open()
		r.Record("first")
		must.Do(t, r.Close())
		if got := must.Get(os.ReadFile(c.path))(t); string(got) != content {
			t.Errorf("%q has become %q", content, got)
		}
		if event := c.log.Last(t, Message); event["seq"] != nil {
			t.Errorf("the event that is not written is %v", event)
		}
	}
}
