//go:build unix

package audit

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"authgate/internal/test/must"
)

// On a full disk, the half of a line that fits is taken back, so that the file is whole all the time
// and no number is left out. The limit of the process on the size of files is the full disk.
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
}
