package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server on one core, with GOMAXPROCS 1, and the processes that it starts.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed once it has ended
}

// pinned returns the command that runs args on a core. taskset execs the program, so
// the process is that program.
func pinned(ctx context.Context, core int, args ...string) *exec.Cmd {
	return pinnedTo(ctx, strconv.Itoa(core), args...)
}

// pinnedTo is pinned for a list of cores.
func pinnedTo(ctx context.Context, cores string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"--cpu-list", cores}, args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", 1+strings.Count(cores, ",")))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func start(cmd *exec.Cmd) (*process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %v: %w", cmd.Args, err)
	}
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it is ended by a signal
		close(p.ended)
	}()
	return p, nil
}

// startRole starts bench again in a role, and returns the process and its addresses.
func startRole(ctx context.Context, core int, role string, args ...string) (*process, []string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := pinned(ctx, core, append([]string{self, role}, args...)...)
	cmd.Stderr = os.Stderr
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	cmd.Stdout = writer
	p, err := start(cmd)
	writer.Close()
	if err != nil {
		return nil, nil, err
	}
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, nil, fmt.Errorf("%s did not print its addresses: %w", role, err)
	}
	return p, strings.Fields(line), nil
}

// stop ends the process and waits for its end.
func (p *process) stop() {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// tree returns the ids of the process and of the processes that it has started.
func (p *process) tree() ([]int, error) {
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

// cpu returns the user and system time of the processes so far.
func (p *process) cpu() (time.Duration, error) {
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
	peakMemory    = "VmHWM"
	presentMemory = "VmRSS"
)

// memory returns the sum of a field over the processes, in bytes.
func (p *process) memory(field string) (int64, error) {
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
