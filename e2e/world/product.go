package world

import (
	"fmt"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/internal/test/logtest"
	"authgate/internal/test/porttest"
)

// This file has all that these tests take from packages of the product: free ports,
// logs and Redis servers. Everything else reaches the product as its users do.

// Patience bounds waits that are never long, so that a hang fails a test. It
// does not measure speed, which depends on the machine.
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

// EncryptionKey is the key of OnRedis.
const EncryptionKey = "abcdefghijabcdefghijabcdefghij01"

// OnRedis is the part of a configuration on the store.
func OnRedis(address string) string {
	return fmt.Sprintf("store: {driver: redis, addresses: [%q], encryption_key: %s}\n", address, EncryptionKey)
}
