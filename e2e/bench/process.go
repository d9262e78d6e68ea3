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

// process is a server on one core, with GOMAXPROCS 1.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed once it has ended
}

// pinned returns the command that runs args on a core. taskset execs the program, so
// the process is that program.
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

// cpu returns the user and system time of the process so far.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(stat))
}

// parseStat reads utime and stime, fields 14 and 15 of proc_pid_stat(5), in ticks of
// 10 ms, which Linux uses for user space on all machines.
func parseStat(stat string) (time.Duration, error) {
	// The second field is the command in parentheses, which may contain any character.
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

// peak returns the largest resident memory of the process so far, in bytes.
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
