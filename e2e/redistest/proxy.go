package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy passes bytes between clients and a server, and can stop doing so.
type Proxy struct {
	Address string // where it listens
	target  string
	accept  net.Listener
	conns   sync.WaitGroup

	mu       sync.Mutex
	open     []*passage
	refusing bool
	losing   bool
	held     chan struct{} // closed while nothing is held
}

// passage is a connection of a client, and the matching one to the server.
type passage struct {
	client, server  net.Conn
	forgotten, mute bool // guarded by the proxy's mu
}

// StartProxy starts a proxy to the server at target. It ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), target: target, accept: listener, held: make(chan struct{})}
	close(p.held)
	p.conns.Go(p.acceptAll)
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
		p.conns.Wait()
	})
	return p
}

func (p *Proxy) acceptAll() {
	for {
		client, err := p.accept.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		c := &passage{client: client, server: server}
		if err != nil || !p.keep(c) {
			client.Close()
			continue
		}
		p.conns.Go(func() { p.pass(c, server, client) })
		p.conns.Go(func() { p.pass(c, client, server) })
	}
}

// keep records a connection. It refuses connections between Cut and Mend.
func (p *Proxy) keep(c *passage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing {
		c.server.Close()
		return false
	}
	p.open = append(p.open, c)
	return true
}

// Connections returns the number of connections since the last Cut.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

func (p *Proxy) pass(c *passage, to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if p.loses(c, from) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// loses waits while the proxy holds data, and then reports whether to drop the
// data that came from from.
func (p *Proxy) loses(c *passage, from net.Conn) bool {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	<-held
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.losing || c.forgotten || c.mute && from == c.server
}

// Cut ends all connections and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = true
	for _, c := range p.open {
		c.client.Close()
		c.server.Close()
	}
	p.open = nil
}

// Swallow keeps the connections and drops all that is sent on them, until Mend.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = true
}

// Forget drops, for good, all that is sent on the present connections, as a
// network that has lost their state. New connections work.
func (p *Proxy) Forget() { p.each(func(c *passage) { c.forgotten = true }) }

// Mute drops the answers of the server on the present connections.
func (p *Proxy) Mute() { p.each(func(c *passage) { c.mute = true }) }

func (p *Proxy) each(do func(*passage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		do(c)
	}
}

// Hold passes nothing on, and drops nothing, until release is called.
func (p *Proxy) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return sync.OnceFunc(func() { close(held) })
}

// Mend ends Cut and Swallow. It closes the present connections, because bytes of
// theirs may be lost.
func (p *Proxy) Mend() {
	p.Cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing, p.losing = false, false
}
