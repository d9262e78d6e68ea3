// Package process starts servers on chosen cores, and reads the processor time and the memory
// that they have used, together with the processes that they have started. The figures are
// those of Linux; on other systems there are none.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a running server, and the processes that it starts.
type Process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed once it has ended
}

// Pinned returns the command that runs args on cores, a list such as "0" or "0,1", with
// GOMAXPROCS as many. taskset execs the program, so the process is that program.
func Pinned(ctx context.Context, cores string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"--cpu-list", cores}, args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", 1+strings.Count(cores, ",")))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Start starts a server.
func Start(cmd *exec.Cmd) (*Process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %v: %w", cmd.Args, err)
	}
	p := &Process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it is ended by a signal
		close(p.ended)
	}()
	return p, nil
}

// StartRole starts this program again in a role, and returns the process and the addresses
// that it prints in its first line.
func StartRole(ctx context.Context, core, role string, args ...string) (*Process, []string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := Pinned(ctx, core, append([]string{self, role}, args...)...)
	cmd.Stderr = os.Stderr
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	cmd.Stdout = writer
	p, err := Start(cmd)
	writer.Close()
	if err != nil {
		return nil, nil, err
	}
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		p.Stop()
		return nil, nil, fmt.Errorf("%s did not print its addresses: %w", role, err)
	}
	return p, strings.Fields(line), nil
}

// Stop ends the process and waits for its end.
func (p *Process) Stop() {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Await waits until the server answers as ready wants, for at most a time.
func (p *Process) Await(ctx context.Context, atMost time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("the process has ended")
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tree returns the ids of the process and of the processes that it has started.
func (p *Process) tree() ([]int, error) {
	pids := []int{p.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pids[i]))
		if err != nil {
			return nil, err
		}
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				return nil, fmt.Errorf("/proc/PID/task/PID/children: %w", err)
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// CPU returns the user and system time of the processes so far.
func (p *Process) CPU() (time.Duration, error) {
	pids, err := p.tree()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range pids {
		used, err := processTime(pid)
		if err != nil {
			return 0, fmt.Errorf("the processor time of process %d: %w", pid, err)
		}
		sum += used
	}
	return sum, nil
}

// Fields of proc_pid_status(5): the largest resident memory so far, and the present.
const (
	PeakMemory    = "VmHWM"
	PresentMemory = "VmRSS"
)

// Memory returns the sum of a field over the processes, in bytes.
func (p *Process) Memory(field string) (int64, error) {
	pids, err := p.tree()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		bytes, err := parseMemory(string(status), field)
		if err != nil {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

func parseMemory(status, field string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s in /proc/PID/status: %w", field, err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("there is no %s in /proc/PID/status", field)
}
