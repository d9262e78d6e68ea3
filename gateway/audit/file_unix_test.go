//go:build unix

package audit

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"authgate/internal/test/must"
)

// On a full disk, the half of a line that fits is taken back, so that the file is whole all the time
// and no number is left out. The next start tells the events that were lost, too. The limit of the
// process on the size of files is the full disk.
func TestFileOnFullDisk(t *testing.T) { // not parallel: the limit is one of the process
	c := newChain(t)
	r := c.open()
	r.Record("1")
	r.Record("2")
	before := must.Get(os.ReadFile(c.path))(t)
	var limit unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	full := unix.Rlimit{Cur: uint64(len(before)) + 25, Max: limit.Max}
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &full))
	r.Record("3")
	r.file.recover() // fails too
	after, err := os.ReadFile(c.path)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	if must.Do(t, err); string(after) != string(before) || r.Problem() == "" || c.failures() != 1 {
		t.Errorf("the file is\n%s, and was\n%s; the problem is %q", after, before, r.Problem())
	}
	r.file.recover()
	r.Record("4")
	wantEvents(t, c.events(c.path), "1", "2", lost, "4")
	if seq := c.log.Last(t, Message)["seq"]; seq != 4.0 {
		t.Errorf("the seq is %v", seq)
	}
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &full))
	r.Record("5")
	err = r.Close() // which tries again
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	must.Do(t, err)
	c.write("6")
	wantEvents(t, c.events(c.path), "1", "2", lost, "4", lost, "6")
}

// A pipe in the folder of the file does not hold up a start that looks there for the file before.
func TestFileBesidePipe(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.write("1", "2")
	lines := c.log.Records(t, Message)
	state := fmt.Sprintf("1:%v 2:%v\n", lines[0]["mac"], lines[1]["mac"]) // killed while it wrote line 2
	must.Do(t, os.WriteFile(c.dir+"/audit.state", []byte(state), 0o600))
	must.Do(t, os.Remove(c.path))
	pipe := c.dir + "/a pipe"
	must.Do(t, unix.Mkfifo(pipe, 0o600))
	started := make(chan struct{})
	go func() {
		defer close(started)
		c.open()
	}()
	for running := true; running; {
		select {
		case <-started:
			running = false
		default: // a pipe can be opened so only while another waits for that
			if end, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				t.Error("the start waits for the pipe")
				must.Do(t, end.Close())
			}
		}
	}
}
