package main

import "slices"

// stores are the stores that several instances share.
var stores = []row{
	{name: "Redis 7", needs: []string{"redis-server"}, version: version{"redis-server --version", `v=(7\S+)`},
		tries: redisTries()},
	{name: "Redis 6.2", needs: []string{"./interop/stores/redis-6.2/redis-server"}, path: "interop/stores/redis-6.2",
		version: version{"interop/stores/redis-6.2/redis-server --version", `v=(6.2\S+)`},
		tries: slices.DeleteFunc(redisTries(), func(t try) bool {
			return t.test == "TestRedisCluster" // whose nodes need a setting of Redis 7
		})},
	{name: "Valkey", needs: []string{"./interop/stores/valkey/redis-server"}, path: "interop/stores/valkey",
		version: version{"interop/stores/valkey/redis-server --version", `Valkey server v=(\S+)`}, tries: redisTries()},
}

// authorities issue certificates by ACME.
var authorities = []row{
	{name: "pebble", version: goModule(".", "github.com/letsencrypt/pebble/v2"),
		tries: []try{
			{"HTTP-01 and TLS-ALPN-01", "TestACMEChallenges"},
			{"on demand", "TestACMEOnDemand"},
			{"renewal", "TestACMERenewal"},
			{"failure", "TestACMEFailure"},
			{"two instances", "TestACMEShared"},
		}},
}

// redisTries are the tries that every Redis and every server that speaks its protocol
// must pass. The tests start the program redis-server.
func redisTries() []try {
	return []try{
		{"two instances share logins", "TestRedisSharesLogins"},
		{"revocation reaches the other", "TestRedisRevocationReachesOthers"},
		{"delegated logins", "TestRedisDelegated"},
		{"rates", "TestRedisRate"},
		{"killed and back", "TestRedisKilled"},
		{"full", "TestRedisFull"},
		{"Sentinel fails over", "TestRedisFailover"},
		{"Cluster moves slots and fails over", "TestRedisCluster"},
	}
}
