package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/conn"
	"authgate/policy"
)

const (
	// lookEvery is how often the logins of open streams are looked at. A
	// stream ends at most lookEvery and endingTime after its login.
	lookEvery = 250 * time.Millisecond
	// endingTime is how long a stream has to end by itself: to say goodbye, or
	// for a write that its client holds up.
	endingTime = 500 * time.Millisecond
	// lookTime bounds what one look asks of the store.
	lookTime = time.Second
	// unconfirmedTime is how long a stream goes on at most while the store, or
	// the issuer of its token, does not confirm that its login is alive.
	unconfirmedTime = 10 * time.Second
	// lookersAtOnce is how many streams are looked at side by side, and so how
	// many may wait for the store.
	lookersAtOnce = 64
	// goneEvery is how often a stream is asked whether its client has gone, and
	// how long it has for a short answer before.
	goneEvery = time.Minute
	// streamShards keeps requests from waiting for each other.
	streamShards = 16
)

// streams are the requests under way: long downloads, event streams,
// WebSockets, and each short request while it lasts. Those whose upstream was
// told an identity end when their credentials would not be accepted any more.
// Over HTTP/1.1 those whose client has gone end, too: net/http notices a client
// that leaves only until it has sent the first byte of its next request.
//
// A timer runs while there are streams. Each time it looks at all of them, by
// the configuration that runs then, in memory as a rule: see
// auth.Authenticator.Alive. Nothing has to tell it of a login's end, so it
// does not matter how, or on which instance, that ended.
type streams struct {
	// check returns nil if an exchange may go on, an *endedError if it must
	// end, and any other error where that could not be found out.
	check func(context.Context, *exchange) error
	// end ends an exchange.
	end func(*exchange, *endedError)

	armed  atomic.Bool // the timer runs
	last   time.Time   // of the last look
	shards [streamShards]streamShard
	slots  chan struct{} // of lookersAtOnce
}

type streamShard struct {
	mu   sync.Mutex
	open []*exchange
	_    [32]byte // so that no two shards share a cache line
}

// stream is what an exchange is to streams.
type stream struct {
	shard *streamShard // nil: not among them
	route *route
	index int32 // in shard.open; shard.mu is held to use it

	over  bool       // the request is done
	mu    sync.Mutex // held to set over, ended and exchange.socket
	ended atomic.Pointer[endedError]

	looking atomic.Bool // who sets it may use watch
	watch   *watch      // nil: not looked at yet
}

// watch is what the last look at a stream has found.
type watch struct {
	st    *state // by which the login was confirmed, and the rest of it
	route *route
	rule  *policy.Route
	id    *policy.Identity
	since time.Time // when the last look was that confirmed the login; zero: the last one
	asked time.Time // when the client was last found to be there
}

// endedError is why a stream has ended; err is the answer to the same request
// now.
type endedError struct {
	err        error
	reason     string // for operators
	challenges []auth.Challenge
}

func (e *endedError) Error() string { return "the login has ended: " + e.reason }
func (e *endedError) Unwrap() error { return e.err }

func newStreams(check func(context.Context, *exchange) error, end func(*exchange, *endedError)) *streams {
	return &streams{check: check, end: end, slots: make(chan struct{}, lookersAtOnce)}
}

// add begins to look at an exchange, which must be removed.
func (s *streams) add(ex *exchange, route *route) {
	ex.stream.route = route
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
		time.AfterFunc(lookEvery, s.look)
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

// look looks at all streams. It does not wait for those that the store keeps
// waiting: they are left out until they are done.
func (s *streams) look() {
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
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		s.lookAt(ctx, open, before)
	}()
	select {
	case <-done:
	case <-time.After(lookEvery):
	}
	time.AfterFunc(lookEvery, s.look)
}

// lookAt looks at streams side by side. The last look before was at that time.
func (s *streams) lookAt(ctx context.Context, open []*exchange, before time.Time) {
	var next atomic.Int64
	var lookers sync.WaitGroup
	for range min(len(open), lookersAtOnce) {
		select {
		case s.slots <- struct{}{}:
		default:
			continue // others wait for the store
		}
		lookers.Go(func() {
			defer func() { <-s.slots }()
			for i := next.Add(1) - 1; i < int64(len(open)); i = next.Add(1) - 1 {
				if ex := open[i]; ex.stream.looking.CompareAndSwap(false, true) {
					s.lookAtOne(ctx, ex, before)
					ex.stream.looking.Store(false)
				}
			}
		})
	}
	lookers.Wait()
}

func (s *streams) lookAtOne(ctx context.Context, ex *exchange, before time.Time) {
	if ex.stream.watch == nil {
		ex.stream.watch = &watch{st: ex.st, route: ex.stream.route, rule: ex.rule, id: ex.id, asked: time.Now()}
	}
	if asked := &ex.stream.watch.asked; time.Since(*asked) >= goneEvery {
		*asked = time.Now()
		ex.endIfGone()
	}
	if ex.id == nil {
		return
	}
	since := &ex.stream.watch.since
	err := s.checked(ctx, ex)
	if err == nil {
		*since = time.Time{}
		return
	}
	if ended, ok := errors.AsType[*endedError](err); ok {
		s.end(ex, ended)
		return
	}
	if since.IsZero() {
		*since = before
	}
	// The next look may be over that much later.
	if time.Since(*since) >= unconfirmedTime-lookTime-2*lookEvery {
		s.end(ex, &endedError{err: errUnavailable(err), reason: "not confirmed in time: " + err.Error()})
	}
}

// checked is check, of which a panic is an error: no server would catch it.
func (s *streams) checked(ctx context.Context, ex *exchange) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, stack())
		}
	}()
	return s.check(ctx, ex)
}

// stillLetIn finds out whether the request of an exchange would be let in now.
// The error is an *endedError if not.
func (g *Gateway) stillLetIn(ctx context.Context, ex *exchange) error {
	w := ex.stream.watch
	if st := g.state.Load(); w.st != st {
		match, ok := st.table.Match(&ex.req)
		if !ok {
			return &endedError{err: errNoRoute(), reason: "no route matches any more"}
		}
		w.st, w.route, w.rule, w.id = st, &st.routes[match.Index], match.Route, nil
	}
	if w.rule.Public() {
		return nil
	}
	id, err := w.route.chain.Alive(ctx, &ex.creds)
	if err != nil && !errors.Is(err, auth.ErrNoCredentials) {
		return ex.notAlive(err, w.route.chain)
	}
	if id != nil && id == w.id {
		return nil // as decided before
	}
	switch decision := w.rule.Decide(id, &ex.req); decision.Outcome {
	case policy.Allow:
		w.id = id
		return nil
	case policy.Challenge:
		return ex.notAlive(&auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: "the route does not accept the credentials any more"}, w.route.chain)
	default:
		return &endedError{err: errForbidden(), reason: decision.Reason}
	}
}

// notAlive is the error of stillLetIn for one of Alive.
func (ex *exchange) notAlive(err error, chain auth.Chain) error {
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
		return &endedError{err: err, reason: rejection.Reason, challenges: chain.Challenges(&ex.creds)}
	}
	return err
}

// endStream ends an exchange whose login has ended. Where its answer has not
// begun, that tells why. Otherwise the connection is closed, or the stream of
// HTTP/2 reset, in the middle of the answer; finish does that.
func (g *Gateway) endStream(ex *exchange, ended *endedError) {
	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	if ex.stream.over || !ex.stream.ended.CompareAndSwap(nil, ended) {
		return
	}
	ex.audit("stream_ended", slog.String("reason", ended.reason))
	if ex.socket != nil {
		g.sockets.SignOut(ex.socket, endingTime)
		return
	}
	// A client that does not read must not hold it up.
	_ = http.NewResponseController(ex.ResponseWriter).SetWriteDeadline(time.Now().Add(endingTime))
	ex.giveUp()
}

// becomes notes what the connection of an exchange has become.
func (ex *exchange) becomes(s *conn.WebSocket) {
	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	ex.socket = s
	if ex.stream.ended.Load() != nil {
		ex.gw.sockets.SignOut(s, endingTime)
	}
}

// endIfGone gives up a request over HTTP/1.1 whose client has closed the
// connection. A WebSocket reads from it, and notices by itself.
func (ex *exchange) endIfGone() {
	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	if !ex.stream.over && ex.socket == nil && conn.ClientGone(ex.r) {
		conn.Cancel(ex.r)()
	}
}
