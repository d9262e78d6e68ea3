package redisstore

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a Redis of its own for one test.
type server struct {
	address string
	args    []string
	process *exec.Cmd
	ended   chan struct{}
}

// startServer starts redis-server, which keeps nothing, with more arguments,
// and waits until it answers. It ends with the test.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return startServerAt(t, freeAddress(t), args...)
}

func startServerAt(t testing.TB, address string, args ...string) *server {
	t.Helper()
	_, port, _ := net.SplitHostPort(address)
	s := &server{address: address, args: append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir(), "--logfile", "redis.log", "--daemonize", "no",
	}, args...)}
	s.run(t)
	t.Cleanup(s.kill)
	return s
}

// run starts the process, again after kill.
func (s *server) run(t testing.TB) {
	t.Helper()
	s.process = exec.Command("redis-server", s.args...)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		t.Fatalf("start redis-server (Debian package redis-server): %v", err)
	}
	s.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(s.process, s.ended)
	eventually(t, 10*time.Second, "redis-server answers", func() error {
		_, err := command(s.address, "PING")
		if err != nil && strings.HasPrefix(err.Error(), "-NOAUTH") {
			return nil
		}
		return err
	})
}

// kill ends the process as kill -9 does, also when it is frozen.
func (s *server) kill() {
	_ = s.process.Process.Kill()
	<-s.ended
}

func (s *server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// do sends a command past any store and returns the first line of the answer.
func (s *server) do(t testing.TB, words ...string) string {
	t.Helper()
	answer, err := command(s.address, words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return answer
}

// command sends a command in the protocol of Redis. An answer that begins
// with a minus is an error, and one that is a string is that string.
func command(address string, words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(conn, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(word), word)
	}
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("%s", line)
	case strings.HasPrefix(line, "$") && line != "$-1":
		var size int
		fmt.Sscanf(line, "$%d", &size)
		text := make([]byte, size)
		_, err := io.ReadFull(answer, text)
		return string(text), err
	}
	return line, nil
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// eventually waits until check returns nil, and fails the test if that takes
// longer than limit.
func eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(5 * time.Millisecond) // another process: nothing else to wait for
	}
}

// proxy passes bytes between a store and a server until it is told not to.
type proxy struct {
	address  string
	target   string
	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	refusing bool
	dropping bool
	conns    sync.WaitGroup
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), target: target, listener: listener}
	p.conns.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.conns.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			client.Close()
			continue
		}
		p.conns.Go(func() { p.pass(server, client) })
		p.conns.Go(func() { p.pass(client, server) })
	}
}

// keep notes a pair of connections, or closes them while there is a cut.
func (p *proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing {
		server.Close()
		return false
	}
	p.open = append(p.open, client, server)
	return true
}

func (p *proxy) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		dropping := p.dropping
		p.mu.Unlock()
		if dropping {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections and refuses new ones until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = true
	for _, conn := range p.open {
		conn.Close()
	}
	p.open = nil
}

// swallow keeps the connections and loses all that is sent on them.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropping = true
}

// mend ends what cut or swallow began. What was swallowed is lost, so the
// connections from that time are ended.
func (p *proxy) mend() {
	p.cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing, p.dropping = false, false
}
