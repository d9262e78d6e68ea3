package redisstore

import (
	"net"
	"testing"
	"time"

	"authgate/gateway/store/redisstore/redistest"
)

// startServer starts a Redis at a free address.
func startServer(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, freeAddress(t), args...)
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	redistest.Eventually(t, limit, what, check)
}
