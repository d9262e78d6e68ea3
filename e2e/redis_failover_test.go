package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestRedisFailover: the master is killed, Sentinels make its replica the new
// one, and all goes on: what lived lives, and what had ended has ended. Redis
// and the Sentinels each demand a password of their own.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	const password, sentinelPassword = "of Redis alone", "of the Sentinels alone"
	servers := startSentinels(t, password, sentinelPassword)
	master, replica := servers.Master, servers.Replica
	for _, s := range servers.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">"+sentinelPassword, "&*", "+@all")
	}
	p := &pair{a: prepared(t), b: prepared(t), up: record(t), redis: master}
	p.b.public = p.a.base
	for _, g := range p.both() {
		g.write("sentinel-password", sentinelPassword+"\n")
		g.configure(shared + app(p.up.url) + fmt.Sprintf("store: {driver: redis, sentinel_master: gate, addresses: ['%s'], password: %q, "+
			"sentinel_username: watcher, sentinel_password_file: sentinel-password}\n", strings.Join(servers.Addresses(), "', '"), password))
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
	replica.Leads(t)
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

// TestRedisAddressesDiffer: an instance that has another public_url refuses the
// others' access tokens, which name theirs as issuer, and nothing else.
func TestRedisAddressesDiffer(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	p.b.kill()
	p.b.public = p.b.base
	p.b.configure(shared + app(p.up.url) + onRedis(p.redis.Address))
	p.b.run()
	atB := p.b.stranger()
	s := p.a.signIn(p.a.stranger(), "alice")
	p.opens(t, p.b, atB, "Cookie", s.session)
	p.refuses(t, p.b, atB, "Authorization", s.access)
	given, status, err := p.b.tryRefresh(atB, s.refresh)
	if err != nil || status != http.StatusOK {
		t.Fatalf("refresh: %d, %v", status, err)
	}
	p.opens(t, p.b, atB, "Authorization", given.access)
	p.refuses(t, p.a, p.a.stranger(), "Authorization", given.access)
}

// TestRedisAccountsDiffer: an instance refuses logins of accounts that it does
// not have, or has with another password, and leaves them to those that do;
// but one that starts or reloads has seen then that they were gone.
func TestRedisAccountsDiffer(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	p.b.kill()
	config := shared + app(p.up.url) + onRedis(p.redis.Address)
	another := strings.NewReplacer(wonderlandHash, builderHash, "{username: bob,", "{username: carol,").Replace(config)
	p.b.configure(another)
	p.b.run()
	atA, atB := p.a.stranger(), p.b.stranger()
	users := []signIn{p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")}
	for _, s := range users {
		for _, credential := range s.credentials() {
			p.refuses(t, p.b, atB, credential...)
			p.opens(t, p.a, atA, credential...)
		}
		if _, got, err := p.b.tryRefresh(atB, s.refresh); err != nil || got != http.StatusUnauthorized {
			t.Errorf("refresh: %d, %v", got, err)
		}
		if _, got, err := p.a.tryRefresh(atA, s.refresh); err != nil || got != http.StatusOK {
			t.Errorf("refresh where the account is known: %d, %v", got, err)
		}
	}
	carol := p.b.signInWith(atB, "carol", passwords["bob"])
	p.refuses(t, p.a, atA, "Cookie", carol.session)
	p.opens(t, p.b, atB, "Cookie", carol.session)

	p.a.signal(syscall.SIGHUP)
	until(t, "the reload", func() bool { return strings.Contains(p.a.log.String(), `"msg":"reloaded"`) })
	for _, s := range users {
		for _, credential := range s.credentials() {
			p.refuses(t, p.a, atA, credential...)
		}
	}
}
