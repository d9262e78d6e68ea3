package redisstore

import (
	"testing"

	"authgate/gateway/porttest"
	"authgate/gateway/store/redisstore/redistest"
)

// startServer starts a Redis at a free address.
func startServer(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, freeAddress(t), args...)
}

func freeAddress(t testing.TB) string {
	t.Helper()
	return porttest.Address(t)
}

// eventually waits until check returns nil. How long that takes depends on the
// machine; what a stand-still of Redis may cost is measured by benchmarks.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	redistest.Eventually(t, redistest.Patience, what, check)
}
