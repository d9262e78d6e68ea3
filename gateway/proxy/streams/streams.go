package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/proxy/web"
)

const (
	// checkEvery is how often open streams are checked. A stream ends at most
	// checkEvery and EndingTime after its login.
	checkEvery = 250 * time.Millisecond
	// EndingTime is how long a stream has to end by itself: to send a Close frame,
	// or for a write that its client holds up.
	EndingTime = 500 * time.Millisecond
	// checkTime bounds how long one check waits for the store.
	checkTime = time.Second
	// unconfirmedTime is how long a stream goes on at most while the store, or
	// the issuer of its token, does not confirm that its login is alive.
	unconfirmedTime = 10 * time.Second
	// checksAtOnce is how many streams are checked side by side, and so how many
	// may wait for the store.
	checksAtOnce = 64
	// goneEvery is how often a stream is asked whether its client has gone, and
	// how long it has for a short answer before.
	goneEvery = time.Minute
	// shards keeps requests from waiting for each other.
	shards = 16
)

// Stream is a request, as a Set needs it. The Set calls one method at a time, and none
// after Remove; only Check may still run then.
type Stream interface {
	// Check returns nil if the stream may go on, an *Ended if it must end, and any
	// other error if nothing can tell.
	Check(context.Context) error
	// Ending is told why the stream ends, before Entry.Ended tells it too.
	Ending(*Ended)
	// Cancel ends the stream.
	Cancel()
	// CancelIfGone ends the stream if its client has gone.
	CancelIfGone()
}

// Ended is the error of a stream that has ended.
type Ended struct {
	Err    error  // the answer to the same request now
	Reason string // for operators
}

func (e *Ended) Error() string { return "the login has ended: " + e.Reason }
func (e *Ended) Unwrap() error { return e.Err }

// Set has the streams that are open. It is safe for concurrent use.
type Set struct {
	armed  atomic.Bool // the timer runs
	last   time.Time   // of the last check
	shards [shards]shard
	slots  chan struct{} // of checksAtOnce
}

type shard struct {
	mu   sync.Mutex
	open []*Entry
	_    [32]byte // so that no two shards share a cache line
}

// Entry is the place of a stream in a Set. The zero Entry is in no Set.
type Entry struct {
	stream Stream
	shard  *shard // nil: in no Set
	index  int32  // in shard.open; shard.mu is held to use it
	met    bool   // a check may use the Entry, even after Remove; shard.mu is held to set it

	mu    sync.Mutex // held to call the stream, but for Check
	over  bool       // the stream is removed
	ended atomic.Pointer[Ended]

	checking atomic.Bool // the goroutine that sets it may use watch
	watch    *watch      // nil: not checked yet
}

// watch is the result of the last check of a stream.
type watch struct {
	unconfirmed time.Time // since when nothing could tell; zero: the last check could
	asked       time.Time // when the client was last found to be there
}

// NewSet returns a Set without streams.
func NewSet() *Set { return &Set{slots: make(chan struct{}, checksAtOnce)} }

// Add begins to check a stream, which the caller must remove. The Entry is a part of the
// stream, so that a short request needs no memory of its own for it.
func (s *Set) Add(e *Entry, stream Stream) {
	shard := &s.shards[rand.Uint32()%shards]
	shard.mu.Lock()
	e.stream, e.shard, e.index = stream, shard, int32(len(shard.open))
	shard.open = append(shard.open, e)
	shard.mu.Unlock()
	s.arm()
}

// Remove takes a stream out of its Set, which leaves it alone from then on. It returns
// why the stream has ended, nil if it has not. An Entry that is in no Set stays as it is.
func (e *Entry) Remove() *Ended {
	shard := e.shard
	if shard == nil {
		return nil
	}
	shard.mu.Lock()
	last := len(shard.open) - 1
	moved := shard.open[last]
	shard.open[e.index], moved.index = moved, e.index
	shard.open[last] = nil
	shard.open = shard.open[:last]
	shard.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	return e.ended.Load()
}

// Alone reports, after Remove, whether no check will use the Entry any more.
func (e *Entry) Alone() bool { return !e.met }

// Ended returns why the stream has ended, nil if it has not.
func (e *Entry) Ended() *Ended { return e.ended.Load() }

// Turn calls turn, which makes the stream something that Cancel ends in another way. A
// stream that has ended before is canceled again, in its new form.
func (e *Entry) Turn(turn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	turn()
	if e.ended.Load() != nil {
		e.stream.Cancel()
	}
}

// endStream ends the stream, once.
func (e *Entry) endStream(why *Ended) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.ended.Load() != nil {
		return
	}
	e.stream.Ending(why)
	e.ended.Store(why)
	e.stream.Cancel()
}

// endIfGone ends the stream if its client has gone.
func (e *Entry) endIfGone() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.stream.CancelIfGone()
	}
}

// arm makes the timer run.
func (s *Set) arm() {
	if !s.armed.Load() && s.armed.CompareAndSwap(false, true) {
		s.last = time.Now()
		time.AfterFunc(checkEvery, s.tick)
	}
}

// all returns the streams that are open.
func (s *Set) all() []*Entry {
	var all []*Entry
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		all = append(all, shard.open...)
		for _, e := range shard.open {
			e.met = true
		}
		shard.mu.Unlock()
	}
	return all
}

// tick checks all streams. It does not wait for those that the store keeps
// waiting: they are left out until they are done.
func (s *Set) tick() {
	before, now := s.last, time.Now()
	open := s.all()
	if len(open) == 0 {
		s.armed.Store(false)
		if len(s.all()) > 0 { // came just now, and found the timer armed
			s.arm()
		}
		return
	}
	s.last = now
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		s.checkAll(ctx, open, before)
	}()
	select {
	case <-done:
	case <-time.After(checkEvery):
	}
	time.AfterFunc(checkEvery, s.tick)
}

// checkAll checks streams side by side. The last check before was at that time.
func (s *Set) checkAll(ctx context.Context, open []*Entry, before time.Time) {
	var next atomic.Int64
	var checks sync.WaitGroup
	for range min(len(open), checksAtOnce) {
		select {
		case s.slots <- struct{}{}:
		default:
			continue // others wait for the store
		}
		checks.Go(func() {
			defer func() { <-s.slots }()
			for i := next.Add(1) - 1; i < int64(len(open)); i = next.Add(1) - 1 {
				if e := open[i]; e.checking.CompareAndSwap(false, true) {
					e.checkStream(ctx, before)
					e.checking.Store(false)
				}
			}
		})
	}
	checks.Wait()
}

// checkStream checks the stream, and ends it if it must end. The last check before was
// at that time.
func (e *Entry) checkStream(ctx context.Context, before time.Time) {
	if e.watch == nil {
		e.watch = &watch{asked: time.Now()}
	}
	w := e.watch
	if time.Since(w.asked) >= goneEvery {
		w.asked = time.Now()
		e.endIfGone()
	}
	err := e.checkSafely(ctx)
	if err == nil {
		w.unconfirmed = time.Time{}
		return
	}
	if ended, ok := errors.AsType[*Ended](err); ok {
		e.endStream(ended)
		return
	}
	if w.unconfirmed.IsZero() {
		w.unconfirmed = before
	}
	// The next check may be over that much later.
	if time.Since(w.unconfirmed) >= unconfirmedTime-checkTime-2*checkEvery {
		e.endStream(&Ended{Err: web.Unavailable(err), Reason: "not confirmed in time: " + err.Error()})
	}
}

// checkSafely is Check of the stream, with a panic as an error: no server would recover it.
func (e *Entry) checkSafely(ctx context.Context) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return e.stream.Check(ctx)
}
