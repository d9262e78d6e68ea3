package acme

import (
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
)

// twins returns two gateways that do not run yet: one service on one Redis, at
// 127.0.0.1 and 127.0.0.2, with the ports to which pebble sends challenges.
func (p *pebble) twins(up *world.Recorder, redis *redistest.Server) (a, b *acmeGateway) {
	p.t.Helper()
	a, b = p.gateway("127.0.0.1", p.http, p.https), p.gateway("127.0.0.2", p.http, p.https)
	a.configure(gated + world.App(up.URL) + world.OnRedis(redis.Address))
	b.configure(gated + world.App(up.URL) + world.OnRedis(redis.Address))
	return a, b
}

// says counts the lines of the log with a message on certificates.
func (g *acmeGateway) says(message string) int {
	g.T.Helper()
	return len(g.Log.Records(g.T, "certificates: "+message))
}

// TestACMEShared: one instance orders a certificate, the other one, which alone
// can be reached by the name, answers the challenge, and both use the certificate,
// later without Redis too. Redis holds nothing that can be read.
func TestACMEShared(t *testing.T) {
	t.Parallel()
	p, redis, up := startPebble(t, days), world.StartRedis(t), world.Record(t)
	a, b := p.twins(up, redis)
	p.leadsTo(gateName, "127.0.0.2")
	roots := p.trust()
	p.signal(syscall.SIGSTOP) // until both want a certificate
	a.Run()
	world.Until(t, "A to begin", func() bool { return a.says("obtaining certificate") > 0 })
	b.Run()
	world.Until(t, "B to wait", func() bool { return b.says("acquiring lock") > 0 })
	p.signal(syscall.SIGCONT)
	first, second := a.obtains(roots), b.obtains(roots)
	if !first.Equal(second) {
		t.Errorf("A serves %s and B serves %s", serial(first), serial(second))
	}
	if got := b.solved(); len(a.solved()) > 0 || got["http-01 for another"]+got["tls-alpn-01 for another"] == 0 {
		t.Errorf("A has solved %v and B has solved %v", a.solved(), got)
	}
	sealedInRedis(t, redis, p.directory)
	b.Signal(syscall.SIGTERM)
	<-b.Done
	b.Run()
	if again := b.serves(roots, gateName); again == nil || !again.Equal(first) {
		t.Error("B does not serve the certificate at once after a restart")
	}
	if got := p.issued(); len(got) != 1 || got[0] != serial(first) || b.says("obtaining certificate") > 0 {
		t.Errorf("pebble has issued %v, and served is %s", got, serial(first))
	}
	b.worksOverTLS(t, up, roots)
	redis.Kill()
	a.worksOverTLS(t, up, roots)
}

// sealedInRedis: Redis has keys, certificates and the account, and their values
// cannot be read.
func sealedInRedis(t *testing.T, redis *redistest.Server, directory string) {
	t.Helper()
	keys := redis.Do(t, "EVAL", "return table.concat(redis.call('KEYS', '*'), '\\n')", "0")
	for _, part := range []string{gateName + ".key", gateName + ".crt", gateName + ".json", "/users/admin@gate.test/"} {
		if !strings.Contains(keys, part) {
			t.Errorf("Redis has no key with %s: %q", part, keys)
		}
	}
	for _, key := range strings.Split(keys, "\n") {
		value := redis.Do(t, "GET", key) // all are strings
		for _, secret := range []string{"PRIVATE KEY", "BEGIN", gateName, directory} {
			if strings.Contains(value, secret) {
				t.Errorf("%s in Redis holds %q", key, secret)
			}
		}
	}
}

// TestACMEKilled: an instance that stops in the middle of an order gives its lock
// back. The lock of an instance that is killed stays until its lease is over, and
// then another instance orders.
func TestACMEKilled(t *testing.T) {
	t.Parallel()
	p, redis := startPebble(t, days), world.StartRedis(t)
	a, b := p.twins(world.Record(t), redis)
	const lock = "authgate:acme:lock:issue_cert_" + gateName
	wantLock := func(when, want string) {
		t.Helper()
		if held := redis.Do(t, "EXISTS", lock); held != want {
			t.Fatalf("%s, EXISTS %s is %s", when, lock, held)
		}
	}
	p.signal(syscall.SIGSTOP) // no order ends
	for _, end := range []struct {
		how  string
		do   func()
		want string
	}{{"a stop", func() { a.Signal(syscall.SIGTERM); a.Ends(world.Patience) }, ":0"}, {"a kill", a.Kill, ":1"}} {
		before := a.says("obtaining certificate")
		a.Run()
		world.Until(t, "A to order", func() bool { return a.says("obtaining certificate") > before })
		wantLock("in the middle of an order", ":1")
		end.do()
		wantLock("after "+end.how, end.want)
	}
	b.Run()
	world.Until(t, "B to wait", func() bool { return b.says("acquiring lock") > 0 })
	p.leadsTo(gateName, "127.0.0.2")
	p.signal(syscall.SIGCONT)
	if b.says("lock acquired") > 0 || len(p.issued()) > 0 {
		t.Fatalf("B does not wait\n%s", b.Log)
	}
	// In place of waiting for the leases. A killed instance holds the lock on the account too.
	redis.Do(t, "EVAL", "for _, key in ipairs(redis.call('KEYS', 'authgate:acme:lock:*')) do redis.call('DEL', key) end",
		"0")
	b.obtains(p.trust())
}
