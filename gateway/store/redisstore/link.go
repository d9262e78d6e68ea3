package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"
)

const (
	// callTimeout is how long a call waits for Redis at most, so that the
	// gateway can say 503 within two seconds.
	callTimeout = 1500 * time.Millisecond
	// dialTimeout bounds the connecting, and then the greeting, which
	// includes authentication.
	dialTimeout = 500 * time.Millisecond
	// silence is how often a connection is looked at; if nothing has come since
	// the last time it is probed, so after twice that at most. probeTimeout is
	// how long the answer may take before the connection is given up. Together
	// that is less than the three seconds within which all has to work again;
	// and beats, by default, come more often and save the probe.
	silence      = 600 * time.Millisecond
	probeTimeout = callTimeout
	// refusedRetries is how often a read is tried again where nobody listens:
	// for about 0.2 seconds, which a quick restart takes.
	refusedRetries = 16
	// reconnectDelay is between attempts to find Redis for the first time.
	reconnectDelay = 250 * time.Millisecond
	// topologyInterval is how often a Cluster or Sentinel is asked who serves
	// what, beside when an answer or a message says that this has changed.
	topologyInterval = 2 * time.Second
	// beatsPerStaleness is how often contact is confirmed while what is
	// cached may be trusted, but beatMinimum apart.
	beatsPerStaleness = 4
	beatMinimum       = 25 * time.Millisecond
)

// errNoAnswer is apart from context.DeadlineExceeded, which would say that
// the caller had set the limit.
var errNoAnswer = errors.New("no answer in time")

// link is the way to Redis: it connects, in the background and for as long as
// it takes, bounds each call, and knows how far the cache can be trusted.
//
// The cache is right as long as pushes come. They come on the connection to
// each node, one and no more, in the order in which things happened there,
// and before the answer to whatever was asked later. So an answer of each of
// them to ROLE, or to CLUSTER NODES in a Cluster, says that every change made
// before the question was sent has been heard of. For maxStaleness from that
// sending the cache may be trusted, and no longer: against a server that has
// stopped, a network that swallows, and a gateway that was stopped itself.
//
// The cache starts over when a connection ends, when one is made, when nodes
// come, go or change their role, and when slots begin to move or have moved
// between the nodes of a Cluster, as no push will come of what was read before:
// in particular none of a key that was absent when its slot left the node.
type link struct {
	options      rueidis.ClientOption
	maxStaleness time.Duration
	cache        *cache
	logger       *slog.Logger

	started    time.Time    // what trusted counts from, by the monotonic clock
	otherClock bool         // the store's local clock is another one
	trusted    atomic.Int64 // until when, in nanoseconds since started
	state      atomic.Pointer[state]
	clock      *clock
	prefix     string
	timeScript *rueidis.Lua

	beating  sync.Mutex        // guards topology
	topology map[string]string // what each node said of itself when all answered last, by address
	replicas sync.Map          // addresses of the nodes that were one when they answered last

	tried      chan struct{} // closed after the first attempt to connect
	stop       context.CancelFunc
	background sync.WaitGroup
}

// state is a client that has been connected once, or why there is none yet.
type state struct {
	client rueidis.Client
	err    error
}

// newLink returns a link that is not started.
func newLink(o Options, c *cache) *link {
	l := &link{
		maxStaleness: o.MaxStaleness,
		cache:        c,
		logger:       o.Logger,
		started:      time.Now(),
		otherClock:   o.Now != nil || o.Local != nil,
		clock:        newClock(o),
		prefix:       o.KeyPrefix,
		timeScript:   rueidis.NewLuaScript(timeScript),
		tried:        make(chan struct{}),
	}
	l.state.Store(&state{err: errors.New("not connected yet")})
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: silence}
	l.options = rueidis.ClientOption{
		InitAddress:           o.Addresses,
		Username:              o.Username,
		Password:              o.Password,
		TLSConfig:             o.TLS,
		ClientName:            "authgate",
		Dialer:                dialer,
		DialCtxFn:             l.dial,
		ConnWriteTimeout:      probeTimeout,
		RetryDelay:            retryDelay,
		PipelineMultiplex:     -1,         // one connection to each node
		ClientTrackingOptions: []string{}, // tracks all that is read; nil would be OPTIN
		OnInvalidations:       l.forget(o.KeyPrefix),
		ClusterOption:         rueidis.ClusterOption{ShardsRefreshInterval: topologyInterval},
	}
	if o.SentinelMaster != "" {
		l.options.Sentinel = rueidis.SentinelOption{
			MasterSet:               o.SentinelMaster,
			Username:                o.SentinelUsername,
			Password:                o.SentinelPassword,
			TLSConfig:               o.TLS,
			ClientName:              "authgate",
			Dialer:                  dialer,
			TopologyRefreshInterval: topologyInterval,
		}
	}
	return l
}

// start connects in the background and waits for the first attempt, at most
// until ctx ends.
func (l *link) start(ctx context.Context) {
	running, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.background.Go(func() { l.run(running) })
	select {
	case <-l.tried:
	case <-ctx.Done():
	}
}

func (l *link) close() {
	l.stop()
	l.background.Wait()
}

// run connects, and then confirms contact until ctx ends.
func (l *link) run(ctx context.Context) {
	client := l.connect(ctx)
	if client == nil {
		return
	}
	defer client.Close()
	ticker := time.NewTicker(max(l.maxStaleness/beatsPerStaleness, beatMinimum))
	defer ticker.Stop()
	for down, beats := false, 1; ; beats++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := l.beat(ctx, client)
		if err == nil && (down || beats%beatsPerStaleness == 0) || !l.clock.known() {
			err = errors.Join(err, l.setClock(ctx, client))
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !down:
			l.logger.LogAttrs(ctx, slog.LevelError, "contact with redis lost", slog.Any("error", err))
		case err == nil && down:
			l.logger.LogAttrs(ctx, slog.LevelInfo, "contact with redis regained")
		}
		down = err != nil
	}
}

// connect tries until it has a client, and returns nil if ctx ends first.
func (l *link) connect(ctx context.Context) rueidis.Client {
	for attempt := 0; ; attempt++ {
		client, err := rueidis.NewClient(l.options)
		if err == nil {
			_ = errors.Join(l.beat(ctx, client), l.setClock(ctx, client)) // else the next one will tell
			l.state.Store(&state{client: client})
			if attempt == 0 {
				close(l.tried)
			} else {
				l.logger.LogAttrs(ctx, slog.LevelInfo, "connected to redis")
			}
			return client
		}
		l.state.Store(&state{err: fmt.Errorf("not connected yet: %w", err)})
		if attempt == 0 {
			close(l.tried)
			l.logger.LogAttrs(ctx, slog.LevelError, "cannot connect to redis; trying on", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectDelay):
		}
	}
}

// dial makes each connection.
func (l *link) dial(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
	if config != nil {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err == nil {
		l.cache.forgetAll()
	}
	return conn, err
}

// retryDelay is how long a read waits before it is tried again: twice as long
// each time, and half of that by chance. Negative is not at all.
func retryDelay(attempt int, _ rueidis.Completed, err error) time.Duration {
	if attempt > refusedRetries && errors.Is(err, syscall.ECONNREFUSED) {
		return -1
	}
	delay := time.Microsecond << min(attempt, 20) // bounded, though the call ends before
	return delay + rand.N(delay)
}

// forget returns what takes the pushes: keys, or nil for all.
func (l *link) forget(prefix string) func([]rueidis.RedisMessage) {
	return func(keys []rueidis.RedisMessage) {
		if keys == nil {
			l.cache.forgetAll()
		}
		for _, message := range keys {
			key, err := message.ToString()
			if err != nil {
				l.cache.forgetAll()
				return
			}
			if key, ours := strings.CutPrefix(key, prefix); ours {
				l.cache.forget(key)
			}
		}
	}
}

// fresh reports whether what is cached may be trusted now, by the store's local
// clock.
func (l *link) fresh(now time.Time) bool {
	elapsed := now.Sub(l.started)
	if l.otherClock {
		elapsed = time.Since(l.started)
	}
	return int64(elapsed) < l.trusted.Load()
}

// beat confirms contact with all nodes, or returns what went wrong.
func (l *link) beat(ctx context.Context, client rueidis.Client) error {
	l.beating.Lock()
	defer l.beating.Unlock()
	sent := time.Since(l.started)
	said, err := l.ask(ctx, client.Mode(), client.Nodes())
	if err != nil {
		return err
	}
	if !maps.Equal(said, l.topology) {
		l.cache.forgetAll()
		l.topology = said
	}
	l.trusted.Store(int64(sent + l.maxStaleness))
	return nil
}

// reach asks all nodes but replicas, or returns what went wrong. Nothing is
// asked of a replica: without it the cache is not trusted, and all is served.
func (l *link) reach(ctx context.Context, client rueidis.Client) error {
	nodes := client.Nodes()
	maps.DeleteFunc(nodes, func(address string, _ rueidis.Client) bool { return l.isReplica(address) })
	_, err := l.ask(ctx, client.Mode(), nodes)
	return err
}

// isReplica goes by what the node said, even if the client has lost sight of it
// since: the nodes of a Cluster need not agree on who is gone.
func (l *link) isReplica(address string) bool {
	_, is := l.replicas.Load(address)
	return is
}

// ask asks all these nodes at once what they are.
func (l *link) ask(ctx context.Context, mode rueidis.ClientMode, nodes map[string]rueidis.Client) (map[string]string, error) {
	question := l.role
	if mode == rueidis.ClientModeCluster {
		question = l.share
	}
	var mu sync.Mutex
	said := make(map[string]string)
	var all errgroup.Group
	for address, node := range nodes {
		all.Go(func() error {
			answer, err := question(ctx, node)
			if err != nil {
				return fmt.Errorf("ask %s for its role: %w", address, err)
			}
			if strings.Contains(answer, "slave") {
				l.replicas.Store(address, nil)
			} else {
				l.replicas.Delete(address)
			}
			mu.Lock()
			defer mu.Unlock()
			said[address] = answer
			return nil
		})
	}
	return said, all.Wait()
}

// role asks a node whether it is "master" or "slave".
func (l *link) role(ctx context.Context, node rueidis.Client) (string, error) {
	answer := l.send(ctx, node, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().Role().Build())
	})
	parts, err := answer.ToArray()
	if err != nil {
		return "", err
	}
	if len(parts) == 0 {
		return "", errors.New("empty answer")
	}
	return parts[0].ToString()
}

// share asks a node of a Cluster for its role and for its slots, with those that
// it is giving away or taking over, such as "myself,master 0-5460 [7->-ID]".
func (l *link) share(ctx context.Context, node rueidis.Client) (string, error) {
	nodes, err := l.send(ctx, node, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().ClusterNodes().Build())
	}).ToString()
	if err != nil {
		return "", err
	}
	const flags, slots = 2, 8 // ID ADDRESS FLAGS MASTER PING PONG EPOCH LINK SLOT...
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) >= slots && strings.Contains(fields[flags], "myself") {
			return strings.Join(slices.Concat(fields[flags:flags+1], fields[slots:]), " "), nil
		}
	}
	return "", errors.New("it does not know itself")
}

// exchange is a question to Redis and its answer.
type exchange func(context.Context, rueidis.Client) rueidis.RedisResult

// do has an exchange with Redis. Its error says that the context has ended,
// that there was no answer in time, or what went wrong.
func (l *link) do(ctx context.Context, do exchange) rueidis.RedisResult {
	s := l.state.Load()
	if s.client == nil {
		return rueidis.NewErrorResult(s.err)
	}
	if !l.clock.known() {
		return rueidis.NewErrorResult(errNoTime)
	}
	return l.send(ctx, s.client, do)
}

// send bounds an exchange. The client looks at the context too, but not when
// it waits for another call to connect, or for room in a queue that is full.
// Who hangs up leaves the exchange alone, which goes on for as long as any may:
// it may be making the connection that other calls wait for.
func (l *link) send(ctx context.Context, client rueidis.Client, do exchange) rueidis.RedisResult {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer := make(chan rueidis.RedisResult, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		answer <- do(ctx, client)
	}()
	select {
	case result := <-answer:
		if !errors.Is(result.NonRedisError(), context.DeadlineExceeded) {
			return result
		}
	case <-bounded.Done():
	}
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return rueidis.NewErrorResult(errNoAnswer)
}
