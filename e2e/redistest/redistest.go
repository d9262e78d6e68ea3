// Package redistest runs real Redis servers, Sentinels and Clusters for tests,
// and a proxy that can cut connections and lose data. They listen on loopback
// only, keep no data on disk and end with their test.
package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience bounds waits that are short unless something hangs. It does not
// measure speed.
const Patience = 2 * time.Minute

// Server is a process of one test. It keeps no data on disk, so it is empty after
// Kill and Run.
type Server struct {
	Address  string // HOST:PORT
	password string // --requirepass
	args     []string
	process  *exec.Cmd
	ended    chan struct{}
}

// Start runs redis-server at a free address, with more arguments, and waits until
// it answers.
func Start(t testing.TB, address string, args ...string) *Server {
	t.Helper()
	_, port := split(t, address)
	return start(t, address, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir(), "--logfile", "redis.log", "--daemonize", "no",
	}, args...))
}

func split(t testing.TB, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func start(t testing.TB, address string, args []string) *Server {
	t.Helper()
	s := &Server{Address: address, args: args}
	if i := slices.Index(args, "--requirepass"); i >= 0 {
		s.password = args[i+1]
	}
	s.Run(t)
	t.Cleanup(s.Kill)
	return s
}

// Run starts the process, again after Kill.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	process, ended := exec.Command("redis-server", s.args...), make(chan struct{})
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		t.Fatalf("starting redis-server (Debian package redis-server): %v", err)
	}
	s.process, s.ended = process, ended
	go func() {
		_ = process.Wait() // tests end it by a signal
		close(ended)
	}()
	Eventually(t, Patience, "redis-server answers", func() error {
		_, err := s.Try("PING")
		if err != nil && strings.HasPrefix(err.Error(), "-NOAUTH") {
			return nil // it has users of its own
		}
		return err
	})
}

// Kill kills the process, even a frozen one, with SIGKILL, and waits for its end.
func (s *Server) Kill() {
	_ = s.process.Process.Kill() // it may have ended before
	<-s.ended
}

// Signal sends a signal, such as SIGSTOP.
func (s *Server) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops the process as SIGSTOP does, and returns when it has stopped.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.Signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(s.process.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("redis-server did not stop: %v, status %#x", err, status)
		}
		return
	}
}

// Do calls Try and ends the test if it fails.
func (s *Server) Do(t testing.TB, words ...string) string {
	t.Helper()
	answer, err := s.Try(words...)
	if err != nil {
		t.Fatalf("redis: %q: %v", words, err)
	}
	return answer
}

// Try sends one command to the server on a connection of its own.
func (s *Server) Try(words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Address, Patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	if s.password != "" {
		if _, err := Exchange(conn, in, "AUTH", s.password); err != nil {
			return "", err
		}
	}
	return Exchange(conn, in, words...)
}

// Exchange sends a command in the protocol of Redis and returns the answer: a
// string, or the first line of any other answer. A first line that begins with a
// minus is an error.
func Exchange(out io.Writer, in *bufio.Reader, words ...string) (string, error) {
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(out, command); err != nil {
		return "", err
	}
	line, err := in.ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("%s", line)
	case strings.HasPrefix(line, "$") && line != "$-1":
		var size int
		if _, err := fmt.Sscanf(line, "$%d", &size); err != nil {
			return "", err
		}
		text := make([]byte, size+len("\r\n"))
		_, err := io.ReadFull(in, text)
		return string(text[:size]), err
	}
	return line, nil
}

// The pauses of Eventually.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// Eventually waits until check returns nil, and fails the test if that takes
// longer than limit. It looks again after a tenth of the time that has passed: there is
// nothing else to wait for, and looking takes time from the process that is waited for.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	for begun := time.Now(); ; {
		err := check()
		if err == nil {
			return
		}
		passed := time.Since(begun)
		if passed > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		<-time.After(min(max(passed/10, shortestPause), longestPause))
	}
}
