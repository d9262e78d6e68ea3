package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy passes bytes to and from a server until it is told not to.
type Proxy struct {
	Address string // where it listens
	target  string
	accept  net.Listener
	conns   sync.WaitGroup

	mu       sync.Mutex
	open     []net.Conn
	refusing bool
	losing   bool
}

// StartProxy starts a proxy to the server at target. It ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), target: target, accept: listener}
	p.conns.Go(p.serve)
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
		p.conns.Wait()
	})
	return p
}

func (p *Proxy) serve() {
	for {
		client, err := p.accept.Accept()
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

// keep notes both ends of a connection; while there is a cut, it does not.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing {
		server.Close()
		return false
	}
	p.open = append(p.open, client, server)
	return true
}

func (p *Proxy) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		losing := p.losing
		p.mu.Unlock()
		if losing {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// Cut ends all connections and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = true
	for _, conn := range p.open {
		conn.Close()
	}
	p.open = nil
}

// Swallow keeps the connections and loses all that is sent on them, until
// Mend: nobody is told that anything is wrong.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = true
}

// Mend ends what Cut or Swallow began. What was swallowed is lost, so the
// connections from that time are ended.
func (p *Proxy) Mend() {
	p.Cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing, p.losing = false, false
}
