package redis

import (
	"testing"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
)

// startRedisCluster starts three masters, of which the first has a replica.
func startRedisCluster(t testing.TB, more ...string) *redistest.Cluster {
	t.Helper()
	return redistest.StartCluster(t, func() string { return world.FreeAddress(t) }, more...)
}

// startSentinels starts a master, a replica and Sentinels that watch them.
func startSentinels(t testing.TB, password, sentinelPassword string) *redistest.Watched {
	t.Helper()
	return redistest.StartWatched(t, func() string { return world.FreeAddress(t) }, password, sentinelPassword)
}
