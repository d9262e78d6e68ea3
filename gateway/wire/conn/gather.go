package conn

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longWrite is the length of a write that others follow, in bytes. crypto/tls
	// writes each record apart, and a full one is this long (RFC 8446, section 5.1).
	longWrite = 16 << 10
	// mostGathered is how many bytes a Gatherer keeps at most.
	mostGathered = 64 << 10
	// shortBuffer is the memory for short writes, in bytes: many connections may have
	// some at the same time.
	shortBuffer = 4 << 10
)

// Gatherer is a connection that joins writes that follow each other at once. A write
// is the most expensive part of a short answer: the system carries the bytes all the
// way to the reader. net/http needs two writes for each answer over HTTP/2 and one
// for each message of a stream, and crypto/tls one for each 16 KiB of a long answer.
//
// Write returns before the bytes are sent. A new goroutine sends them, after the
// goroutines that can already run. Until then they count as unsent. If sending fails,
// each Read and Write from then on returns the error. Close drops unsent bytes: see
// SetWriteDeadline.
type Gatherer struct {
	net.Conn
	Buffers *Buffers
	keeps   atomic.Int32 // a keeping

	kept   atomic.Int64 // bytes that are not sent yet
	failed atomic.Pointer[error]

	mu      sync.Mutex
	pending []byte // is to be sent; nil if there is nothing
	soon    bool   // flush is about to run
	sending bool   // a write is in progress, without the lock
	sent    *sync.Cond
}

// keeping tells which writes a Gatherer keeps.
type keeping int32

// The writes that a Gatherer keeps. A write after kept bytes is always kept behind them.
const (
	keepLong keeping = iota // writes of 16 KiB and more
	keepAll
	keepNothing
)

// Buffers lends memory to Gatherers. Its zero value is ready.
type Buffers struct{ short, long sync.Pool }

// KeepAll makes g keep all writes from now on, also those of less than 16 KiB.
func (g *Gatherer) KeepAll() { g.keep(keepAll) }

// keep sets which writes are kept from now on. At first it is keepLong.
func (g *Gatherer) keep(k keeping) { g.keeps.Store(int32(k)) }

func (g *Gatherer) keepsAll() bool { return keeping(g.keeps.Load()) == keepAll }

// passes reports whether a write of n bytes is sent at once.
func (g *Gatherer) passes(n int) bool {
	if g.Kept() > 0 || g.failed.Load() != nil {
		return false
	}
	k := keeping(g.keeps.Load())
	return k == keepNothing || k == keepLong && n < longWrite
}

// failure returns why kept bytes could not be sent, or nil.
func (g *Gatherer) failure() error {
	if err := g.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Write implements net.Conn.
func (g *Gatherer) Write(b []byte) (int, error) {
	n, later, err := g.take(b)
	if later {
		go g.flush()
	}
	return n, err
}

// take sends b, or keeps it. later reports whether the caller must start flush.
func (g *Gatherer) take(b []byte) (n int, later bool, err error) {
	if g.passes(len(b)) {
		n, err = g.Conn.Write(b)
		return n, false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.sending && g.Kept()+len(b) > mostGathered {
		g.wait()
	}
	if err := g.failure(); err != nil {
		return 0, false, err
	}
	need := len(g.pending) + len(b)
	if need > mostGathered {
		n, err = g.send(b)
		return n, false, err
	}
	if need > cap(g.pending) {
		larger := append(g.Buffers.get(need), g.pending...)
		g.Buffers.put(g.pending)
		g.pending = larger
	}
	g.pending = append(g.pending, b...)
	g.kept.Add(int64(len(b)))
	later = !g.soon
	g.soon = true
	return len(b), later, nil
}

// flush sends the pending bytes, after the writes that are about to follow.
func (g *Gatherer) flush() {
	runtime.Gosched()
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.pending != nil {
		g.settle()
	}
	g.soon = false
}

// settle returns when all earlier writes are sent. The caller holds the lock.
func (g *Gatherer) settle() {
	for g.sending {
		g.wait()
	}
	if g.pending != nil {
		_, _ = g.send(nil) // each Read and Write from then on returns the error
	}
}

// wait waits for the end of a write. The caller holds the lock, which wait gives up
// until it returns.
func (g *Gatherer) wait() {
	if g.sent == nil {
		g.sent = sync.NewCond(&g.mu)
	}
	g.sent.Wait()
}

// send sends the pending bytes and then b. It returns how much of b was sent. No
// other write is in progress. The caller holds the lock, which send gives up until
// it returns.
func (g *Gatherer) send(b []byte) (int, error) {
	pending := g.pending
	g.pending, g.sending = nil, true
	g.mu.Unlock()
	n, err := g.write(pending, b)
	g.mu.Lock()
	g.sending = false
	if g.sent != nil {
		g.sent.Broadcast()
	}
	if err != nil {
		failure := err // else err would be on the heap in any case
		g.failed.Store(&failure)
		g.release(g.pending)
		g.pending = nil
		_ = g.SetReadDeadline(time.Unix(1, 0)) // ends a Read; fails if the connection is closed
	}
	g.release(pending)
	return max(0, n-len(pending)), err
}

// release gives memory back. The caller holds the lock.
func (g *Gatherer) release(pending []byte) {
	if pending != nil {
		g.kept.Add(-int64(len(pending)))
		g.Buffers.put(pending)
	}
}

// write writes first and then second, and returns how much was written.
func (g *Gatherer) write(first, second []byte) (int, error) {
	switch {
	case len(first) == 0:
		return g.Conn.Write(second)
	case len(second) == 0:
		return g.Conn.Write(first)
	}
	both := net.Buffers{first, second}
	n, err := both.WriteTo(g.Conn)
	return int(n), err
}

// Read implements net.Conn.
func (g *Gatherer) Read(b []byte) (int, error) {
	if err := g.failure(); err != nil {
		return 0, err
	}
	n, err := g.Conn.Read(b)
	if failure := g.failure(); failure != nil {
		return 0, failure
	}
	return n, err
}

// Settle returns when all earlier writes are sent, or cannot be.
func (g *Gatherer) Settle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle()
	return g.failure()
}

// SetWriteDeadline implements net.Conn. Before it sets a past deadline or none, it
// sends the kept bytes under the old deadline, and waits for that. So
// tls.Conn.Close sends its last message.
func (g *Gatherer) SetWriteDeadline(t time.Time) error {
	if g.Kept() > 0 && (t.IsZero() || !t.After(time.Now())) {
		_ = g.Settle() // each Read and Write from then on returns the error
	}
	return g.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (g *Gatherer) SetDeadline(t time.Time) error {
	if err := g.SetReadDeadline(t); err != nil {
		return err
	}
	return g.SetWriteDeadline(t)
}

// Kept returns how many bytes were written and are not sent yet.
func (g *Gatherer) Kept() int { return int(g.kept.Load()) }

// get returns memory for n bytes.
func (b *Buffers) get(n int) []byte {
	if n <= shortBuffer {
		if memory, ok := b.short.Get().(*[shortBuffer]byte); ok {
			return memory[:0]
		}
		return make([]byte, 0, shortBuffer)
	}
	if memory, ok := b.long.Get().(*[mostGathered]byte); ok {
		return memory[:0]
	}
	return make([]byte, 0, mostGathered)
}

// put takes back a buffer of get.
func (b *Buffers) put(memory []byte) {
	switch cap(memory) {
	case shortBuffer:
		b.short.Put((*[shortBuffer]byte)(memory[:shortBuffer]))
	case mostGathered:
		b.long.Put((*[mostGathered]byte)(memory[:mostGathered]))
	}
}
