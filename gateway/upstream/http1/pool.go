package http1

import (
	"sync"
	"time"
)

const (
	// idleSweep is how often old idle connections are closed, and idleLives how long
	// one is kept.
	idleSweep = 30 * time.Second
	idleLives = 60 * time.Second
)

// pool has the idle connections.
type pool struct {
	max int // for each address

	mu       sync.Mutex
	conns    map[string][]*conn // by address, the most recently used last
	sweeping bool
}

// take removes and returns the most recently used connection, or nil.
func (p *pool) take(address string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.conns[address]
	if len(idle) == 0 {
		return nil
	}
	last := len(idle) - 1
	k := idle[last]
	idle[last] = nil
	p.conns[address] = idle[:last]
	return k
}

// put keeps a connection for the next request.
func (p *pool) put(k *conn) {
	k.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns[k.address]) >= p.max {
		k.Close()
		return
	}
	p.conns[k.address] = append(p.conns[k.address], k)
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(idleSweep, p.sweep)
	}
}

// sweep closes old connections, and runs again while there are others.
func (p *pool) sweep() {
	left := p.drop(time.Now().Add(-idleLives))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = left > 0
	if p.sweeping {
		time.AfterFunc(idleSweep, p.sweep)
	}
}

// drop closes the connections that became idle before that time. It returns how
// many are left.
func (p *pool) drop(before time.Time) (left int) {
	p.mu.Lock()
	var old []*conn
	for address, idle := range p.conns {
		n := 0
		for n < len(idle) && idle[n].since.Before(before) {
			n++
		}
		old = append(old, idle[:n]...)
		if n < len(idle) {
			p.conns[address] = append([]*conn(nil), idle[n:]...)
		} else {
			delete(p.conns, address)
		}
		left += len(idle) - n
	}
	p.mu.Unlock()
	for _, k := range old {
		k.Close() // not under the lock: TLS may take a moment
	}
	return left
}
