package process

import (
	"bufio"
	"os/exec"
	"testing"
	"time"
)

// TestProcessesAreSummed: a server's workers count, as nginx's do.
func TestProcessesAreSummed(t *testing.T) {
	t.Parallel()
	// The worker loops, and the shell waits for it.
	cmd := exec.Command("sh", "-c",
		`exec 3<&0; sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read line' <&3 & wait`)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	own, err := processTime(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.CPU()
	if err != nil || all < own+10*time.Millisecond {
		t.Errorf("both took %v, the shell alone %v (%v)", all, own, err)
	}
	memory, err := p.Memory(PresentMemory)
	peak, err2 := p.Memory(PeakMemory)
	if err != nil || err2 != nil || memory <= 0 || peak < memory {
		t.Errorf("memory %d (%v), at most %d (%v)", memory, err, peak, err2)
	}
}
