// Package redistest runs real Redis servers and Sentinels for tests, and a
// proxy that cuts and loses what is on the way to them. They listen on
// loopback alone, keep nothing on disk and end with their test.
package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTime is how long a server may take until it answers.
const startTime = 10 * time.Second

// Server is a process of one test. It keeps nothing, so after Kill and Run it
// is empty.
type Server struct {
	Address string // HOST:PORT
	args    []string
	process *exec.Cmd
	ended   chan struct{}
}

// Start runs redis-server at address, which is free, with more arguments, and
// waits until it answers.
func Start(t testing.TB, address string, args ...string) *Server {
	t.Helper()
	_, port := split(t, address)
	return start(t, address, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir(), "--logfile", "redis.log", "--daemonize", "no",
	}, args...))
}

// StartSentinel runs a Sentinel at address, which is free. It watches master
// under the name "gate", and two Sentinels agree on a failover.
func StartSentinel(t testing.TB, address string, master *Server) *Server {
	t.Helper()
	_, port := split(t, address)
	host, masterPort := split(t, master.Address)
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, `port %s
bind 127.0.0.1
dir %s
logfile sentinel.log
sentinel monitor gate %s %s 2
sentinel down-after-milliseconds gate 500
sentinel failover-timeout gate 1000
`, port, dir, host, masterPort), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, address, []string{file, "--sentinel"})
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
	for deadline := time.Now().Add(startTime); ; {
		_, err := Command(s.Address, "PING")
		if err == nil || strings.HasPrefix(err.Error(), "-NOAUTH") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("redis-server does not answer within %v: %v", startTime, err)
		}
		time.Sleep(5 * time.Millisecond) // another process: nothing else to wait for
	}
}

// Kill is kill -9. It returns when the process is gone, be it frozen.
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

// Do is Command, past any store; an error ends the test.
func (s *Server) Do(t testing.TB, words ...string) string {
	t.Helper()
	answer, err := Command(s.Address, words...)
	if err != nil {
		t.Fatalf("redis: %q: %v", words, err)
	}
	return answer
}

// Command has one exchange with the server at address.
func Command(address string, words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	return Exchange(conn, bufio.NewReader(conn), words...)
}

// Exchange sends a command in the protocol of Redis and reads the answer: a
// string as it is, and of any other the first line. One that begins with a
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
