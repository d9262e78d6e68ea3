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
	// restTime is how long a connection rests after a response without a body. Some
	// servers send the body all the same, a moment later.
	restTime = 100 * time.Millisecond
)

// pool has the idle connections.
type pool struct {
	max int // for each address

	mu       sync.Mutex
	conns    map[string]*idle // by address
	sweeping bool
}

// idle has the idle connections to one address.
type idle struct {
	ready   queue
	resting queue // not to be used before restTime is over
}

// take removes and returns the connection that has been idle for the longest time, or
// nil. So a connection has the most time to show bytes that belong to no response.
func (p *pool) take(address string, now time.Time) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.conns[address]
	if i == nil {
		return nil
	}
	ready, rested := i.ready.first(), i.resting.first()
	if rested != nil && now.Sub(rested.since) >= restTime && (ready == nil || rested.since.Before(ready.since)) {
		return i.resting.take()
	}
	return i.ready.take()
}

// put keeps a connection for a later request. rests says that it must rest before.
func (p *pool) put(k *conn, rests bool) {
	if k.rest(idleLives); !k.until.After(k.since) {
		k.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.conns[k.address]
	if i == nil {
		i = new(idle)
		p.conns[k.address] = i
	}
	switch {
	case i.ready.len()+i.resting.len() >= p.max:
		k.Close()
		return
	case rests:
		i.resting.put(k)
	default:
		i.ready.put(k)
	}
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
	for address, i := range p.conns {
		old = i.ready.drop(before, i.resting.drop(before, old))
		n := i.ready.len() + i.resting.len()
		if n == 0 {
			delete(p.conns, address)
		}
		left += n
	}
	p.mu.Unlock()
	for _, k := range old {
		k.Close() // not under the lock: TLS may take a moment
	}
	return left
}

// queue has connections in the order in which they became idle. Its memory is used
// again, because each request takes a connection and puts one.
type queue struct {
	conns []*conn // the first head of them are taken
	head  int
}

func (q *queue) len() int { return len(q.conns) - q.head }

// first returns the first connection, nil if there is none.
func (q *queue) first() *conn {
	if q.len() == 0 {
		return nil
	}
	return q.conns[q.head]
}

// take removes and returns the first connection, nil if there is none.
func (q *queue) take() *conn {
	k := q.first()
	if k == nil {
		return nil
	}
	q.conns[q.head] = nil
	if q.head++; q.head == len(q.conns) {
		q.conns, q.head = q.conns[:0], 0
	}
	return k
}

func (q *queue) put(k *conn) {
	if q.head > 0 && len(q.conns) == cap(q.conns) {
		left := copy(q.conns, q.conns[q.head:])
		clear(q.conns[left:])
		q.conns, q.head = q.conns[:left], 0
	}
	q.conns = append(q.conns, k)
}

// drop removes the connections that became idle before that time, and appends them
// to old.
func (q *queue) drop(before time.Time, old []*conn) []*conn {
	for k := q.first(); k != nil && k.since.Before(before); k = q.first() {
		old = append(old, q.take())
	}
	return old
}
