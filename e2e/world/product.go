package world

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/internal/test/logtest"
	"authgate/internal/test/porttest"
	"authgate/upstream/provider"
)

// This file has all that these tests take from packages of the product: free ports,
// logs, Redis servers and the provider of the demonstration.
// Everything else reaches the product as its users do.

// Patience bounds what never takes long, so that a hang fails a test. It does
// not measure speed, which depends on the machine.
const Patience = redistest.Patience

// Output is the output of a process, which tests may read at any time.
type Output = logtest.Buffer

// FreePort returns a port that no other program uses while the test runs.
func FreePort(t testing.TB) string {
	t.Helper()
	return porttest.Port(t)
}

// FreeAddress is FreePort with the address, 127.0.0.1.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return porttest.Address(t)
}

// Eventually calls check until it returns nil, for as long as limit.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	redistest.Eventually(t, limit, what, check)
}

// StartRedis starts a Redis server for one test, with more arguments.
func StartRedis(t testing.TB, more ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, FreeAddress(t), more...)
}

// StartDemoProvider starts the provider of the demonstration for one client,
// once issuer and client are known: addresses are chosen by listening. The
// handler that wrap returns, if not nil, serves in its place.
func StartDemoProvider(
	t testing.TB, configure func(issuer string) (provider.Client, *http.Client),
	wrap func(*provider.Provider) http.Handler,
) {
	t.Helper()
	listener := Must(provider.Listen("127.0.0.1:0"))(t)
	issuer := "http://" + listener.Addr().String()
	client, caller := configure(issuer)
	p := Must(provider.New(provider.Options{Issuer: issuer, Clients: []provider.Client{client}, HTTPClient: caller}))(t)
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

// EncryptionKey is the key of OnRedis.
const EncryptionKey = "abcdefghijabcdefghijabcdefghij01"

// OnRedis is the part of a configuration on the store.
func OnRedis(address string) string {
	return fmt.Sprintf("store: {driver: redis, addresses: [%q], encryption_key: %s}\n", address, EncryptionKey)
}
