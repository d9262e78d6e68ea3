package main

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

// process is a server pinned to one core, with one processor for its
// goroutines.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed once it has ended
}

// pinned returns the command that runs args on a core. taskset becomes the
// program it starts, so that the process is that program.
func pinned(ctx context.Context, core int, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"--cpu-list", strconv.Itoa(core)}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
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
		_ = cmd.Wait() // how it ended tells nothing: it is ended by force
		close(p.ended)
	}()
	return p, nil
}

// startRole starts bench again as a role, and returns it with the addresses
// that it listens on.
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
		return nil, nil, fmt.Errorf("%s did not tell where it listens: %w", role, err)
	}
	return p, strings.Fields(line), nil
}

// stop ends the process and waits until it is gone.
func (p *process) stop() {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it is gone
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// cpu is the user and system time that the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(stat))
}

// parseStat reads utime and stime, fields 14 and 15 of proc_pid_stat(5). They
// count in ticks of 10 ms, which Linux keeps for user space everywhere.
func parseStat(stat string) (time.Duration, error) {
	// The second field is the command in parentheses and may hold anything.
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("not in the form of /proc/PID/stat: %q", stat)
	}
	utime, err := strconv.ParseInt(fields[11], 10, 64)
	stime, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return 0, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	return time.Duration(utime+stime) * 10 * time.Millisecond, nil
}

// peak is the most memory, in bytes, that the process has had resident.
func (p *process) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parsePeak(string(status))
}

// parsePeak reads VmHWM of proc_pid_status(5).
func parsePeak(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("VmHWM in /proc/PID/status: %w", err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("there is no VmHWM in /proc/PID/status")
}
