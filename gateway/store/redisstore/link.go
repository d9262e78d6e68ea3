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
	// callTimeout is how long a call waits for Redis, so that the gateway can
	// answer 503 within two seconds.
	callTimeout = 1500 * time.Millisecond
	// dialTimeout bounds the connecting, and then the handshake (HELLO), which
	// includes authentication.
	dialTimeout = 500 * time.Millisecond
	// silence is how often the client checks a connection. If nothing has come
	// since the last check, it sends a probe, and if the answer takes longer
	// than probeTimeout, it drops the connection. Together that is less than
	// the three seconds within which the store must work again. By default,
	// beats come more often, so that no probe is needed.
	silence      = 600 * time.Millisecond
	probeTimeout = callTimeout
	// refusedRetries is how often a read is repeated while the connection is
	// refused: for about 0.2 seconds, the time of a quick restart.
	refusedRetries = 16
	// reconnectDelay is the pause between attempts to connect for the first time.
	reconnectDelay = 250 * time.Millisecond
	// topologyInterval is how often a Cluster or Sentinel is asked for its
	// nodes, in addition to when an answer or a message reports a change.
	topologyInterval = 2 * time.Second
	// beatsPerStaleness is how often contact is confirmed in maxStaleness, at
	// least beatMinimum apart.
	beatsPerStaleness = 4
	beatMinimum       = 25 * time.Millisecond
)

// errNoAnswer is not context.DeadlineExceeded, which would mean that the caller's
// deadline had passed.
var errNoAnswer = errors.New("no answer in time")

// link is the connection to Redis. It connects in the background, bounds each
// call, and knows until when the cache can be trusted.
//
// The cache is right as long as pushes arrive. There is exactly one connection to
// each node. Pushes arrive on it in the order of the changes, and before the
// answer to any later command. So after each node has answered ROLE, or CLUSTER
// NODES in a Cluster, the store has received the push of every change that was
// made before the command was sent. From then on the cache is trusted for
// maxStaleness. The limit protects against a server that has stopped, a network
// that loses packets, and a gateway that was suspended itself.
//
// The cache is emptied when a connection ends or is made, and when nodes come,
// go or change their role. It is also emptied when slots of a Cluster begin to
// move or have moved. In these cases no push comes for earlier reads: for
// example, the old node never pushes a key that was absent when its slot moved.
type link struct {
	options      rueidis.ClientOption
	maxStaleness time.Duration
	cache        *cache
	logger       *slog.Logger

	started    time.Time    // the origin of trusted, with a monotonic reading
	otherClock bool         // the store's local clock is not time.Now
	trusted    atomic.Int64 // the end of trust in the cache, in nanoseconds since started
	state      atomic.Pointer[state]
	clock      *clock
	prefix     string
	timeScript *rueidis.Lua
	evicts     eviction // of run

	beating  sync.Mutex        // guards topology
	topology map[string]string // the last answer of each node, by address
	replicas sync.Map          // addresses of the nodes that were replicas in their last answer

	tried      chan struct{} // closed after the first attempt to connect
	stop       context.CancelFunc
	background sync.WaitGroup
}

// state is a client that has connected once, or the reason why there is none yet.
type state struct {
	client rueidis.Client
	err    error
}

// newLink returns a link; start starts it.
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
		ClientTrackingOptions: []string{}, // tracks all reads; nil would mean OPTIN
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

// start connects in the background and waits for the end of the first attempt, or
// of ctx.
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
			l.evicts.known = false // it can be another server
		}
		if down = err != nil; !down && !l.evicts.known {
			l.evicts.look(ctx, l, client)
		}
	}
}

// connect tries until it has connected, and returns nil if ctx ends first.
func (l *link) connect(ctx context.Context) rueidis.Client {
	for attempt := 0; ; attempt++ {
		client, err := rueidis.NewClient(l.options)
		if err == nil {
			if errors.Join(l.beat(ctx, client), l.setClock(ctx, client)) == nil { // run repeats them and logs errors
				l.evicts.look(ctx, l, client)
			}
			l.state.Store(&state{client: client})
			if attempt == 0 {
				close(l.tried)
			} else {
				l.logger.LogAttrs(ctx, slog.LevelInfo, "connected to redis")
			}
			return client
		}
		err = advise(err)
		l.state.Store(&state{err: fmt.Errorf("not connected yet: %w", err)})
		if attempt == 0 {
			close(l.tried)
			l.logger.LogAttrs(ctx, slog.LevelError, "cannot connect to redis; trying again", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectDelay):
		}
	}
}

// advise adds to the reason why there is no connection how an operator can get one. Redis begins its
// answers with a word for their kind.
func advise(err error) error {
	advice := ""
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOAUTH"):
		advice = "correct store.username and store.password, " +
			"or store.sentinel_username and store.sentinel_password if Sentinels ask for them"
	case strings.Contains(text, "without any password configured"):
		advice = "Redis has no password; remove store.password, or set one there"
	case strings.HasPrefix(text, "NOPERM"):
		advice = "give the user of store.username this right in Redis"
	case isReply(err):
		return err
	default:
		advice = "start Redis, or correct store.addresses and store.tls"
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// isReply reports whether an error is an answer of Redis.
func isReply(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// dial makes a connection and empties the cache.
func (l *link) dial(
	ctx context.Context, address string, dialer *net.Dialer, config *tls.Config,
) (conn net.Conn, err error) {
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

// retryDelay returns how long a read waits before it is repeated: twice as long
// each time, with a random part. A negative result means no repetition.
func retryDelay(attempt int, _ rueidis.Completed, err error) time.Duration {
	if attempt > refusedRetries && errors.Is(err, syscall.ECONNREFUSED) {
		return -1
	}
	delay := time.Microsecond << min(attempt, 20) // without overflow
	return delay + rand.N(delay)
}

// forget returns the function that receives pushes: keys, or nil for all keys.
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

// fresh reports whether the cache may be trusted at now, a time of the store's
// local clock.
func (l *link) fresh(now time.Time) bool {
	elapsed := now.Sub(l.started)
	if l.otherClock {
		elapsed = time.Since(l.started)
	}
	return int64(elapsed) < l.trusted.Load()
}

// beat confirms contact with all nodes, and extends the trust in the cache.
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

// reach checks that all nodes except replicas answer. The store reads nothing
// from replicas: without one the cache is not trusted, but calls succeed.
func (l *link) reach(ctx context.Context, client rueidis.Client) error {
	nodes := client.Nodes()
	maps.DeleteFunc(nodes, func(address string, _ rueidis.Client) bool { return l.isReplica(address) })
	_, err := l.ask(ctx, client.Mode(), nodes)
	return err
}

// isReplica reports whether the node was a replica in its last answer. It keeps
// nodes that the client has dropped since, because the nodes of a Cluster may
// disagree about which node has failed.
func (l *link) isReplica(address string) bool {
	_, is := l.replicas.Load(address)
	return is
}

// ask asks all nodes concurrently for their role.
func (l *link) ask(
	ctx context.Context, mode rueidis.ClientMode, nodes map[string]rueidis.Client,
) (map[string]string, error) {
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

// role returns the role of a node, "master" or "slave".
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

// share returns the role and the slots of a node of a Cluster, with the slots
// that are moving, such as "myself,master 0-5460 [7->-ID]".
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

// exchange sends a command to Redis and returns the answer.
type exchange func(context.Context, rueidis.Client) rueidis.RedisResult

// do carries out an exchange, or fails if the store has not connected yet.
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

// send bounds an exchange. It does not rely on the client to obey the context:
// the client ignores it while it waits for another call to connect or for room in
// a full queue. When ctx ends, the exchange continues until callTimeout: it may
// be making the connection that other calls wait for.
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
