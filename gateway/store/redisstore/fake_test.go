package redisstore

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// fakeRedis speaks enough of the protocol of Redis (RESP3) for one store. It
// pushes nothing unless the test says so. What a real Redis does is tested in
// e2e/redisstore.
type fakeRedis struct {
	address  string
	listener net.Listener
	serving  sync.WaitGroup

	mu        sync.Mutex
	entries   map[string]string
	role      string
	policy    string   // of evictions; empty: INFO is refused
	overtakes bool     // a push of the key comes before each answer to GET
	commands  []string // their names, in order
	conns     []net.Conn
	held      chan struct{} // until it is closed, new connections are not served; nil: they are
}

// startFake starts a server that ends with the test. With a
// configuration it speaks TLS.
func startFake(t testing.TB, config *tls.Config) *fakeRedis {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	f := &fakeRedis{address: listener.Addr().String(), listener: listener, entries: map[string]string{}, role: "master"}
	f.serving.Go(f.accept)
	t.Cleanup(func() {
		listener.Close()
		f.cut()
		f.serving.Wait()
	})
	return f
}

// accept serves connections until the listener is closed.
func (f *fakeRedis) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		held := f.held
		f.mu.Unlock()
		f.serving.Go(func() {
			defer conn.Close()
			if held != nil {
				<-held
			}
			f.serve(conn)
		})
	}
}

// hold accepts new connections, and does not serve them until release is called.
func (f *fakeRedis) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(chan struct{})
	f.held = held
	return sync.OnceFunc(func() { close(held) })
}

// cut ends all connections.
func (f *fakeRedis) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		conn.Close()
	}
}

func (f *fakeRedis) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		f.mu.Lock()
		_, err = io.WriteString(conn, f.answer(words))
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	var count, size int
	_, err = fmt.Fscanf(in, "*%d\r\n", &count)
	for range count {
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		words = append(words, string(text[:size]))
	}
	return words, err
}

// answer carries out a command. The caller holds f.mu.
func (f *fakeRedis) answer(words []string) string {
	f.commands = append(f.commands, words[0])
	switch words[0] {
	case "HELLO":
		return "%2\r\n" + bulk("proto") + ":3\r\n" + bulk("version") + bulk("7.0.0")
	case "CLUSTER":
		return "-ERR This instance has cluster support disabled\r\n"
	case "INFO":
		if f.policy == "" {
			return "-NOPERM User gate has no permissions to run the 'info' command\r\n"
		}
		return bulk("# Memory\r\nused_memory:1\r\nmaxmemory_policy:" + f.policy + "\r\n")
	case "ROLE":
		return "*1\r\n" + bulk(f.role)
	case "GET":
		if f.overtakes {
			return invalidation(words[1]) + f.get(words[1])
		}
		return f.get(words[1])
	case "GETDEL":
		defer delete(f.entries, words[1])
		return f.get(words[1])
	case "DEL":
		delete(f.entries, words[1])
		return ":1\r\n"
	case "SET":
		f.entries[words[1]] = words[2]
	case "EVALSHA": // SHA NUMKEYS KEY ARGV...
		if len(words) == 4 {
			return "*2\r\n" + bulk(fmt.Sprint(time.Now().Unix())) + bulk("0")
		}
		f.entries[words[3]] = words[6] // Swap, whose old value a test knows to be right
		return ":1\r\n"
	}
	return "+OK\r\n"
}

func (f *fakeRedis) get(key string) string {
	if value, ok := f.entries[key]; ok {
		return bulk(value)
	}
	return "_\r\n"
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// invalidation is the push that keys were changed, or all keys.
func invalidation(keys ...string) string {
	message := ">2\r\n" + bulk("invalidate") + "_\r\n"
	if len(keys) > 0 {
		message = fmt.Sprintf(">2\r\n%s*%d\r\n", bulk("invalidate"), len(keys))
	}
	for _, key := range keys {
		message += bulk(key)
	}
	return message
}

// push sends an invalidation on each connection.
func (f *fakeRedis) push(t testing.TB, keys ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		must.Get(io.WriteString(conn, invalidation(keys...)))(t)
	}
}

// change sets a field between two commands.
func (f *fakeRedis) change(set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set()
}

// count returns how often a command came, and how many connections were made.
func (f *fakeRedis) count(command string) (commands, connections int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.commands {
		if c == command {
			commands++
		}
	}
	return commands, len(f.conns)
}

// openFake opens a store on f that ends with the test. Its cache is trusted for
// longer than a test takes.
func openFake(t testing.TB, f *fakeRedis, o Options) *Store {
	t.Helper()
	o.Addresses, o.MaxStaleness = []string{f.address}, time.Hour
	s := must.Get(Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = s.Close() }) // which never fails
	return s
}

// cached reports whether s has key, or its absence, in the cache.
func cached(s *Store, key string) bool {
	_, known, _ := s.cache.lookup(key)
	return known
}
