package redis

import (
	"net/http"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestHowToTwoInstances runs two gateways with the files of the page.
func TestHowToTwoInstances(t *testing.T) {
	t.Parallel()
	const page = "docs/how-to/two-instances.md"
	var server []string
	for line := range strings.Lines(world.DocumentedFile(t, page, "redis.conf")) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name != "port" {
			server = append(server, "--"+name, strings.ReplaceAll(value, "REDIS_PASSWORD", "redis-password"))
		}
	}
	up := world.Record(t)
	p := &pair{a: world.Prepare(t), b: world.Prepare(t), up: up, redis: world.StartRedis(t, server...),
		clients: map[*world.Instance]*http.Client{}}
	p.b.Public = p.a.Base
	config := world.WithoutAddresses(world.Substituted(t, world.DocumentedFile(t, page, "gateway.yaml"),
		"127.0.0.1:6379", p.redis.Address, "${REDIS_PASSWORD}", "redis-password",
		"${STORE_KEY}", world.EncryptionKey, "${TOKEN_SECRET}", "01234567890123456789012345678901",
		"http://127.0.0.1:3000", up.URL))
	p.a.Configure(config)
	p.b.Configure(config)
	p.run()
	in := p.signIn("alice")
	for _, credential := range [][]string{{"Cookie", in.Session}, {"Authorization", in.Access}} {
		if got := p.b.Status(p.client(p.b), "GET", "/", credential...); got != http.StatusOK {
			t.Errorf("the %s of one instance at the other: %d", credential[0], got)
		}
	}
	if got := p.b.Status(p.client(p.b), "POST", "/logout", "Cookie", in.Session); got != http.StatusOK {
		t.Fatalf("logout at the other instance: %d", got)
	}
	world.Until(t, "the logout at the first instance", func() bool {
		return p.a.Status(p.client(p.a), "GET", "/", "Cookie", in.Session) == http.StatusUnauthorized &&
			p.a.Status(p.client(p.a), "GET", "/", "Authorization", in.Access) == http.StatusUnauthorized
	})
}
