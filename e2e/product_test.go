package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"authgate/e2e/redistest"
	"authgate/gateway/logtest"
	"authgate/gateway/password"
	"authgate/gateway/porttest"
	"authgate/upstream/provider"
)

// This file has all that these tests take from packages of the product: free ports,
// logs, Redis servers, the provider of the demonstration and password hashes.
// Everything else reaches the product as its users do.

// patience bounds what never takes long, so that a hang fails a test. It does
// not measure speed, which depends on the machine.
const patience = redistest.Patience

type (
	lines        = logtest.Buffer // the output of a process, which tests may read at any time
	redisServer  = redistest.Server
	redisProxy   = redistest.Proxy
	redisCluster = redistest.Cluster
)

var (
	freePort      = porttest.Port        // a port that no other program uses while the test runs
	freeAddress   = porttest.Address     // likewise, at 127.0.0.1
	startProxy    = redistest.StartProxy // starts a TCP proxy that a test can cut
	eventually    = redistest.Eventually // calls a check until it returns nil, for as long as a limit
	redisExchange = redistest.Exchange   // sends a command to a Redis server and reads the reply
)

// startRedis starts a Redis server for one test, with more arguments.
func startRedis(t testing.TB, more ...string) *redisServer {
	t.Helper()
	return redistest.Start(t, freeAddress(t), more...)
}

// startRedisCluster starts three masters, of which the first has a replica.
func startRedisCluster(t testing.TB, more ...string) *redisCluster {
	t.Helper()
	return redistest.StartCluster(t, func() string { return freeAddress(t) }, more...)
}

// startSentinels starts a master, a replica and Sentinels that watch them.
func startSentinels(t testing.TB, password, sentinelPassword string) *redistest.Watched {
	t.Helper()
	return redistest.StartWatched(t, func() string { return freeAddress(t) }, password, sentinelPassword)
}

// startDemoProvider starts the provider of the demonstration for one client,
// once issuer and client are known: addresses are chosen by listening. The
// handler that wrap returns, if not nil, serves in its place.
func startDemoProvider(t testing.TB, configure func(issuer string) (provider.Client, *http.Client), wrap func(*provider.Provider) http.Handler) {
	t.Helper()
	listener := must(provider.Listen("127.0.0.1:0"))(t)
	issuer := "http://" + listener.Addr().String()
	client, caller := configure(issuer)
	p := must(provider.New(provider.Options{Issuer: issuer, Clients: []provider.Client{client}, HTTPClient: caller}))(t)
	handler := http.Handler(p)
	if wrap != nil {
		handler = wrap(p)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		server.Close()
		p.Close()
	})
}

// costlyHash returns a hash as `authgate hash-password` makes it: it takes
// 19 MiB and some work to check.
func costlyHash(t testing.TB, plain string) string {
	t.Helper()
	return must(password.New(plain))(t)
}

// isHashOf reports whether text is a hash of a password.
func isHashOf(text, plain string) bool {
	hash, err := password.Parse(text)
	return err == nil && hash.Verify(plain)
}
