package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/web"
)

const (
	// checkEvery is how often the logins of open streams are checked. A stream
	// ends at most checkEvery and endingTime after its login.
	checkEvery = 250 * time.Millisecond
	// endingTime is how long a stream has to end by itself: to send a Close frame,
	// or for a write that its client holds up.
	endingTime = 500 * time.Millisecond
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
	// streamShards keeps requests from waiting for each other.
	streamShards = 16
)

// streams are the requests in flight: long downloads, event streams, WebSockets,
// and each short request while it lasts. Those whose upstream was told an
// identity end when their credentials would not be accepted any more. Over
// HTTP/1.1 those whose client has gone end, too: net/http notices a client that
// leaves only until it has sent the first byte of its next request.
//
// A timer runs while there are streams. Each time it checks all of them, by the
// configuration that runs then, in memory as a rule: see
// auth.Authenticator.Alive. The end of a login sends no message to streams, so
// it does not matter how, or on which instance, a login ends.
type streams struct {
	// check returns nil if an exchange may go on, an *endedError if it must
	// end, and any other error if that cannot be found out.
	check func(context.Context, *exchange) error
	// end ends an exchange.
	end func(*exchange, *endedError)

	armed  atomic.Bool // the timer runs
	last   time.Time   // of the last check
	shards [streamShards]streamShard
	slots  chan struct{} // of checksAtOnce
}

type streamShard struct {
	mu   sync.Mutex
	open []*exchange
	_    [32]byte // so that no two shards share a cache line
}

// stream is what an exchange is to streams.
type stream struct {
	shard *streamShard // nil: not among them
	index int32        // in shard.open; shard.mu is held to use it

	mu    sync.Mutex // held to set over, ended and exchange.socket
	over  bool       // the request is done
	ended atomic.Pointer[endedError]
	told  bool // the answer tells that the login has ended

	checking atomic.Bool // the goroutine that sets it may use watch
	watch    *watch      // nil: not checked yet
}

func newStreams(check func(context.Context, *exchange) error, end func(*exchange, *endedError)) *streams {
	return &streams{check: check, end: end, slots: make(chan struct{}, checksAtOnce)}
}

// add begins to check an exchange, which must be removed.
func (s *streams) add(ex *exchange) {
	shard := &s.shards[rand.Uint32()%streamShards]
	shard.mu.Lock()
	ex.stream.shard, ex.stream.index = shard, int32(len(shard.open))
	shard.open = append(shard.open, ex)
	shard.mu.Unlock()
	s.arm()
}

// remove ends that. It returns why the exchange has ended, nil if it has not.
// After it, streams leave the exchange alone.
func (s *streams) remove(ex *exchange) *endedError {
	shard := ex.stream.shard
	if shard == nil {
		return nil
	}
	shard.mu.Lock()
	last := len(shard.open) - 1
	moved := shard.open[last]
	shard.open[ex.stream.index], moved.stream.index = moved, ex.stream.index
	shard.open[last] = nil
	shard.open = shard.open[:last]
	shard.mu.Unlock()

	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	ex.stream.over = true
	return ex.stream.ended.Load()
}

// arm makes the timer run.
func (s *streams) arm() {
	if !s.armed.Load() && s.armed.CompareAndSwap(false, true) {
		s.last = time.Now()
		time.AfterFunc(checkEvery, s.tick)
	}
}

// all returns the exchanges that are open.
func (s *streams) all() []*exchange {
	var all []*exchange
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		all = append(all, shard.open...)
		shard.mu.Unlock()
	}
	return all
}

// tick checks all streams. It does not wait for those that the store keeps
// waiting: they are left out until they are done.
func (s *streams) tick() {
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
func (s *streams) checkAll(ctx context.Context, open []*exchange, before time.Time) {
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
				if ex := open[i]; ex.stream.checking.CompareAndSwap(false, true) {
					s.checkOne(ctx, ex, before)
					ex.stream.checking.Store(false)
				}
			}
		})
	}
	checks.Wait()
}

func (s *streams) checkOne(ctx context.Context, ex *exchange, before time.Time) {
	w := ex.stream.watch
	if w == nil {
		w = &watch{state: ex.state, route: ex.route, id: ex.Identity, asked: time.Now()}
		ex.stream.watch = w
	}
	if time.Since(w.asked) >= goneEvery {
		w.asked = time.Now()
		ex.endIfGone()
	}
	if ex.Identity == nil {
		return
	}
	err := s.checkSafely(ctx, ex)
	if err == nil {
		w.since = time.Time{}
		return
	}
	if ended, ok := errors.AsType[*endedError](err); ok {
		s.end(ex, ended)
		return
	}
	if w.since.IsZero() {
		w.since = before
	}
	// The next check may be over that much later.
	if time.Since(w.since) >= unconfirmedTime-checkTime-2*checkEvery {
		s.end(ex, &endedError{err: web.Unavailable(err), reason: "not confirmed in time: " + err.Error()})
	}
}

// checkSafely is check, with a panic as an error: no server would recover it.
func (s *streams) checkSafely(ctx context.Context, ex *exchange) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, stack())
		}
	}()
	return s.check(ctx, ex)
}
