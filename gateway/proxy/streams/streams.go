package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/proxy/web"
	"authgate/policy"
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
	// endAtOnce is how many streams of a login end at once, and endPause how long others then have the
	// processor. If there are many, more end at once, so that there are at most endBatches pauses.
	endAtOnce  = 16
	endBatches = 32
	endPause   = time.Millisecond
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
// after Remove.
type Stream interface {
	// Ending is told why the stream ends, before Entry.Ended tells it too.
	Ending(*Ended)
	// Cancel ends the stream.
	Cancel()
	// CancelIfGone ends the stream if its client has gone.
	CancelIfGone()
}

// Login is the login of a stream. Its methods may still run after Remove.
type Login interface {
	// Check returns nil if the stream may go on, an *Ended if it must end, and any
	// other error if nothing can tell.
	Check(context.Context) error
	// LoginID is the sid of the login, empty if there is none.
	LoginID() string
	// Ground is the reason for which the last Check let the stream go on.
	Ground() Ground
	// Shares reports whether a stream with the same Ground, which is not zero, has the same credential too:
	// while that of one changes nothing about its Ground, both go on.
	Shares(Login) bool
}

// Ground is the user whom a Check has found, and the place. Streams with equal ones may go on together. The zero Ground
// is of a stream that does so with no other.
type Ground struct {
	Identity *policy.Identity
	Route    any // comparable
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
	Places
	armed  atomic.Bool // the timer runs
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
	login  Login
	shard  *shard // nil: in no Set
	index  int32  // in shard.open; shard.mu is held to use it
	met    bool   // a check may use the Entry, even after Remove; shard.mu is held to set it

	mu    sync.Mutex // held to call the stream
	over  bool       // the stream is removed
	ended atomic.Pointer[Ended]

	checking atomic.Bool // the goroutine that sets it may use watch
	watch    *watch      // nil: not checked yet
}

// watch is the result of the last checks of a stream.
type watch struct {
	group     *group
	confirmed time.Time // when a check last let the stream go on
	asked     time.Time // when the client was last found to be there
}

// NewSet returns a Set without streams.
func NewSet() *Set { return &Set{slots: make(chan struct{}, checksAtOnce)} }

// Add begins to check a stream, which the caller must remove. The Entry is a part of the
// stream, so that a short request needs no memory of its own for it.
func (s *Set) Add(e *Entry, stream Stream, login Login) {
	shard := &s.shards[rand.Uint32()%shards]
	shard.mu.Lock()
	e.stream, e.login, e.shard, e.index = stream, login, shard, int32(len(shard.open))
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
		time.AfterFunc(checkEvery, s.tick)
	}
}

// CheckLogin checks the requests of a login that has places, without waiting for that: it has ended.
func (s *Set) CheckLogin(sid string) {
	if !s.hasLogin(sid) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), checkTime)
		defer cancel()
		s.checkAll(ctx, s.all(func(e *Entry) bool { return e.login.LoginID() == sid }))
	}()
}

// each reports true.
func each(*Entry) bool { return true }

// all returns the open streams for which is reports true.
func (s *Set) all(is func(*Entry) bool) []*Entry {
	var all []*Entry
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		for _, e := range shard.open {
			if is(e) {
				e.met = true
				all = append(all, e)
			}
		}
		shard.mu.Unlock()
	}
	return all
}

// tick checks all streams. It does not wait for those that the store keeps
// waiting: they are left out until they are done.
func (s *Set) tick() {
	open := s.all(each)
	if len(open) == 0 {
		s.armed.Store(false)
		if len(s.all(each)) > 0 { // came just now, and found the timer armed
			s.arm()
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		s.checkAll(ctx, open)
	}()
	select {
	case <-done:
	case <-time.After(checkEvery):
	}
	time.AfterFunc(checkEvery, s.tick)
}

// checkAll checks streams side by side.
func (s *Set) checkAll(ctx context.Context, open []*Entry) {
	groups := claim(open)
	var next atomic.Int64
	var checks sync.WaitGroup
	for range min(len(groups), checksAtOnce) {
		select {
		case s.slots <- struct{}{}:
		default:
			continue // others wait for the store
		}
		checks.Go(func() {
			defer func() { <-s.slots }()
			for i := next.Add(1) - 1; i < int64(len(groups)); i = next.Add(1) - 1 {
				groups[i].checkStreams(ctx)
			}
		})
	}
	checks.Wait()
	for i := next.Load(); i < int64(len(groups)); i++ { // there was no slot
		groups[i].release()
	}
}

// group is some streams that may go on together until something has changed for one of them. A check asks
// the first.
type group struct {
	streams []*Entry
	changed bool
}

// claim takes the streams that no other goroutine checks, in groups.
func claim(open []*Entry) (groups []*group) {
	now, byLast, byGround := time.Now(), map[*group]*group{}, map[Ground]*group{}
	for _, e := range open {
		if e.Ended() != nil || !e.checking.CompareAndSwap(false, true) {
			continue
		}
		if e.watch == nil {
			e.watch = &watch{confirmed: now.Add(-2 * checkEvery), asked: now} // it may have come that long before
		}
		last := e.watch.group
		g := byLast[last]
		if g == nil { // rarely, so that thousands of streams are no work
			ground := e.login.Ground()
			g = byGround[ground]
			if g == nil || ground == (Ground{}) || !g.streams[0].login.Shares(e.login) {
				g = &group{}
				groups, byGround[ground] = append(groups, g), g
			}
			if last != nil && !last.changed {
				byLast[last] = g
			}
		}
		g.streams, e.watch.group = append(g.streams, e), g
	}
	return groups
}

// release lets other goroutines check the streams.
func (g *group) release() {
	for _, e := range g.streams {
		e.checking.Store(false)
	}
}

// checkStreams checks the first stream of the group. If anything has changed for it, it checks the others, a
// batch at a time, with pauses if they end: their ends are work that would delay other requests.
func (g *group) checkStreams(ctx context.Context) {
	defer g.release()
	first := g.streams[0]
	ground := first.login.Ground()
	if first.checkStream(ctx) && first.login.Ground() == ground {
		now := time.Now()
		for _, e := range g.streams[1:] {
			e.confirm(now)
		}
		return
	}
	g.changed = true
	for some := range slices.Chunk(g.streams[1:], max(endAtOnce, len(g.streams)/endBatches)) {
		var checks sync.WaitGroup // side by side: a store may answer late
		for _, e := range some {
			checks.Go(func() { e.checkStream(ctx) })
		}
		checks.Wait()
		if some[0].Ended() != nil {
			time.Sleep(endPause)
		}
	}
}

// confirm notes that the stream goes on at a time.
func (e *Entry) confirm(now time.Time) {
	e.watch.confirmed = now
	if now.Sub(e.watch.asked) >= goneEvery {
		e.watch.asked = now
		e.endIfGone()
	}
}

// checkStream checks the stream, and ends it if it must end. It reports whether the stream goes on because the
// check has confirmed it.
func (e *Entry) checkStream(ctx context.Context) bool {
	err := e.checkSafely(ctx)
	ended, _ := errors.AsType[*Ended](err)
	switch {
	case err == nil:
		e.confirm(time.Now())
	case ended != nil:
		e.endStream(ended)
	// The next check may be over that much later.
	case time.Since(e.watch.confirmed) >= unconfirmedTime-checkTime-2*checkEvery:
		e.endStream(&Ended{Err: web.Unavailable(err), Reason: "not confirmed in time: " + err.Error()})
	}
	return err == nil
}

// checkSafely is Check of the stream, with a panic as an error: no server would recover it.
func (e *Entry) checkSafely(ctx context.Context) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return e.login.Check(ctx)
}
