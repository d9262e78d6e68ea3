package e2e

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

// redisServer is a Redis of its own for one test. It keeps nothing, so after
// kill and run it is empty.
type redisServer struct {
	address string
	args    []string
	process *exec.Cmd
	ended   chan struct{}
}

// startRedis starts redis-server with more arguments and waits until it
// answers. It ends with the test.
func startRedis(t testing.TB, more ...string) *redisServer {
	t.Helper()
	port := freePort(t)
	r := &redisServer{address: "127.0.0.1:" + port, args: append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir(), "--logfile", "redis.log", "--daemonize", "no",
	}, more...)}
	r.run(t)
	t.Cleanup(r.kill)
	return r
}

// run starts the process, again after kill.
func (r *redisServer) run(t testing.TB) {
	t.Helper()
	process, ended := exec.Command("redis-server", r.args...), make(chan struct{})
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		t.Fatalf("starting redis-server (Debian package redis-server): %v", err)
	}
	r.process, r.ended = process, ended
	go func() {
		_ = process.Wait() // tests end it by a signal
		close(ended)
	}()
	until(t, "redis-server to answer", func() bool {
		_, err := redisCommand(r.address, "PING")
		return err == nil
	})
}

// kill is kill -9. It returns when the process is gone.
func (r *redisServer) kill() {
	_ = r.process.Process.Kill() // it may have ended before
	<-r.ended
}

func (r *redisServer) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := r.process.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// do sends a command past the gateways.
func (r *redisServer) do(t testing.TB, words ...string) string {
	t.Helper()
	answer, err := redisCommand(r.address, words...)
	if err != nil {
		t.Fatalf("redis: %q: %v", words, err)
	}
	return answer
}

// redisCommand has one exchange in the protocol of Redis. It returns a string
// as it is, and of any other answer the first line.
func redisCommand(address string, words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	return exchangeRedis(conn, bufio.NewReader(conn), words...)
}

func exchangeRedis(out io.Writer, in *bufio.Reader, words ...string) (string, error) {
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

// wire passes bytes between a gateway and Redis until it is told not to.
type wire struct {
	address string
	target  string

	mu       sync.Mutex
	open     []net.Conn
	refusing bool
	losing   bool
}

// startWire starts a wire to target, which ends with the test.
func startWire(t testing.TB, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: l.Addr().String(), target: target}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", w.target)
			if err != nil {
				client.Close()
				continue
			}
			if w.keep(client, server) {
				passing.Go(func() { w.pass(server, client) })
				passing.Go(func() { w.pass(client, server) })
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		passing.Wait()
	})
	return w
}

// keep notes both ends of a connection, or closes them after cut.
func (w *wire) keep(ends ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refusing {
		for _, end := range ends {
			end.Close()
		}
		return false
	}
	w.open = append(w.open, ends...)
	return true
}

func (w *wire) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		losing := w.losing
		w.mu.Unlock()
		if losing {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections and refuses new ones until mend.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusing = true
	for _, end := range w.open {
		end.Close()
	}
	w.open = nil
}

// lose keeps the connections and loses all that is sent on them, until mend:
// nobody is told that anything is wrong.
func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losing = true
}

// mend lets new connections pass. Those that lost something end.
func (w *wire) mend() {
	w.cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusing, w.losing = false, false
}
