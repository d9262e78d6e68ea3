package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"authgate/gateway/store/redisstore/redistest"
)

// TestRedisFailover: the master is killed, Sentinels make its replica the new
// one, and all goes on: what lived lives, and what had ended has ended.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	host, port, err := net.SplitHostPort(master.Address)
	if err != nil {
		t.Fatal(err)
	}
	replica := startRedis(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	var sentinels []string
	var watch *redistest.Server
	for range 3 {
		watch = redistest.StartSentinel(t, "127.0.0.1:"+freePort(t), master)
		sentinels = append(sentinels, fmt.Sprintf("%q", watch.Address))
	}
	until(t, "the Sentinels to know each other and the replica", func() bool {
		if _, err := redistest.Command(watch.Address, "SENTINEL", "CKQUORUM", "gate"); err != nil {
			return false
		}
		return strings.Contains(watch.Do(t, "INFO", "sentinel"), "slaves=1,sentinels=3")
	})
	p := &pair{a: prepared(t), b: prepared(t), up: record(t), redis: master}
	p.b.public = p.a.base
	for _, g := range p.both() {
		g.configure(shared + app(p.up.url) + "store: {driver: redis, sentinel_master: gate, addresses: [" + strings.Join(sentinels, ", ") + "]}\n")
	}
	p.a.run()
	p.b.run()
	atA, atB := p.a.stranger(), p.b.stranger()
	kept, ended := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")
	for _, s := range []signIn{kept, ended} {
		for _, credential := range s.credentials() {
			p.opens(t, p.b, atB, credential...)
		}
	}
	if got := p.a.status(atA, "POST", "/logout", "Authorization", ended.access); got != http.StatusOK {
		t.Fatalf("logout: %d", got)
	}
	master.Do(t, "SET", "last", "write")
	until(t, "the replica to have it all", func() bool { return replica.Do(t, "GET", "last") == "write" })

	master.Kill()
	until(t, "the replica to become the master", func() bool {
		role, _ := redistest.Command(replica.Address, "INFO", "replication") // the Sentinels cut its connections
		return strings.Contains(role, "role:master")
	})
	within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
	within(t, recovery, "both are ready again", p.ready)
	for _, credential := range kept.credentials() {
		p.opens(t, p.a, atA, credential...)
		p.opens(t, p.b, atB, credential...)
	}
	for _, credential := range ended.credentials() {
		p.refuses(t, p.a, atA, credential...)
		p.refuses(t, p.b, atB, credential...)
	}
}

// TestRedisInstanceKilled: what was begun on an instance that is gone goes on
// at the other.
func TestRedisInstanceKilled(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	atA, atB := p.a.stranger(), p.b.stranger()
	kept, ended := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")
	if got := p.a.status(atA, "POST", "/logout", "Authorization", ended.access); got != http.StatusOK {
		t.Fatalf("logout: %d", got)
	}
	p.a.kill()
	for _, credential := range kept.credentials() {
		p.opens(t, p.b, atB, credential...)
	}
	for _, credential := range ended.credentials() {
		p.refuses(t, p.b, atB, credential...)
	}
	if _, got, err := p.b.tryRefresh(atB, kept.refresh); err != nil || got != http.StatusOK {
		t.Errorf("refresh at the other: %d, %v", got, err)
	}
	p.a.run()
	atA = p.a.stranger()
	for _, credential := range kept.credentials() {
		p.opens(t, p.a, atA, credential...)
	}
}

// TestRedisSecretsDiffer: an instance that has another token.secret refuses
// the others' access tokens, and nothing else.
func TestRedisSecretsDiffer(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	p.b.kill()
	const secret = "01234567890123456789012345678901"
	if !strings.Contains(shared, secret) {
		t.Fatal("the secret is another")
	}
	p.b.configure(strings.Replace(shared, secret, "another "+secret, 1) + app(p.up.url) + onRedis(p.redis.Address))
	p.b.run()
	atB := p.b.stranger()
	s := p.a.signIn(p.a.stranger(), "alice")
	p.opens(t, p.b, atB, "Cookie", s.session)
	p.refuses(t, p.b, atB, "Authorization", s.access)
}
