package e2e

import (
	"crypto/x509"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// twins are two gateways that do not run yet: one service on one Redis, at
// 127.0.0.1 and 127.0.0.2, with the ports that pebble asks at.
func (p *pebble) twins(up *recorder, redis *redisServer) (a, b *acmeGateway) {
	p.t.Helper()
	a, b = p.gateway("127.0.0.1", p.http, p.https), p.gateway("127.0.0.2", p.http, p.https)
	a.configure(gated + app(up.url) + onRedis(redis.Address))
	b.configure(gated + app(up.url) + onRedis(redis.Address))
	return a, b
}

// says reports how often the log has a line on the certificates.
func (g *acmeGateway) says(message string) int {
	g.t.Helper()
	return len(g.entriesOf("certificates: " + message))
}

// TestACMEShared: one instance orders, the other one, which alone can be
// reached by the name, answers, and both use what they get. They do so without
// Redis, too.
func TestACMEShared(t *testing.T) {
	t.Parallel()
	p, redis, up := startPebble(t, days), startRedis(t), record(t)
	a, b := p.twins(up, redis)
	p.leadsTo(gateName, "127.0.0.2")
	roots := p.trust()
	p.signal(syscall.SIGSTOP) // until both want a certificate
	a.run()
	until(t, "A to begin", func() bool { return a.says("obtaining certificate") > 0 })
	b.run()
	until(t, "B to wait", func() bool { return b.says("acquiring lock") > 0 })
	p.signal(syscall.SIGCONT)
	first, second := a.obtains(roots), b.obtains(roots)
	if !first.Equal(second) {
		t.Errorf("A serves %s and B serves %s", serial(first), serial(second))
	}
	if got := b.solved(); len(a.solved()) > 0 || got["http-01 for another"]+got["tls-alpn-01 for another"] == 0 {
		t.Errorf("A has solved %v and B has solved %v", a.solved(), got)
	}
	b.signal(syscall.SIGTERM)
	<-b.done
	b.run()
	if again := b.serves(roots, gateName); again == nil || !again.Equal(first) {
		t.Error("B was restarted, and does not serve the certificate at once")
	}
	if got := p.issued(); len(got) != 1 || got[0] != serial(first) || b.says("obtaining certificate") > 0 {
		t.Errorf("pebble has issued %v, and served is %s", got, serial(first))
	}
	b.worksOverTLS(t, up, roots)
	redis.Kill()
	a.worksOverTLS(t, up, roots)
}

// blackHole listens where pebble asks at 127.0.0.3, and answers nothing. The
// channel is closed when somebody has come.
func blackHole(t testing.TB, p *pebble) <-chan struct{} {
	t.Helper()
	came, once := make(chan struct{}), sync.Once{}
	for _, port := range []string{p.http, p.https} {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.3", port))
		if err != nil {
			t.Fatal(err)
		}
		var held []net.Conn
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				held = append(held, conn)
				once.Do(func() { close(came) })
			}
		})
		t.Cleanup(func() {
			l.Close()
			accepting.Wait()
			for _, conn := range held {
				conn.Close()
			}
		})
	}
	return came
}

// lockKey is where the lock of gateName is in Redis.
const lockKey = "authgate:acme:lock:issue_cert_" + gateName

// midOrder runs a gateway until pebble is asking for a challenge.
func (g *acmeGateway) midOrder(t *testing.T) {
	t.Helper()
	g.p.leadsTo(gateName, "127.0.0.3")
	came := blackHole(t, g.p)
	g.run()
	select {
	case <-came:
	case <-time.After(patience):
		t.Fatalf("pebble asks for no challenge\n%s", g.log)
	}
	g.p.leadsTo(gateName, g.host)
}

// TestACMEStopped: who is told to stop in the middle of an order gives the lock
// back, so that the next one does not wait for the lease.
func TestACMEStopped(t *testing.T) {
	t.Parallel()
	p, redis := startPebble(t, days), startRedis(t)
	a, _ := p.twins(record(t), redis)
	a.midOrder(t)
	if held := redis.Do(t, "EXISTS", lockKey); held != ":1" {
		t.Fatalf("in the middle of an order, EXISTS %s is %s", lockKey, held)
	}
	a.signal(syscall.SIGTERM)
	select {
	case <-a.done:
	case <-time.After(patience):
		t.Fatalf("it does not stop\n%s", a.log)
	}
	a.run()
	a.obtains(p.trust())
}

// TestACMEKilled: what an instance has begun that is killed, another one takes
// over when the lease of the lock is over, and not before.
func TestACMEKilled(t *testing.T) {
	t.Parallel()
	p, redis := startPebble(t, days), startRedis(t)
	a, b := p.twins(record(t), redis)
	a.midOrder(t)
	a.kill()
	p.leadsTo(gateName, "127.0.0.2")
	b.run()
	until(t, "B to wait", func() bool { return b.says("acquiring lock") > 0 })
	if b.says("lock acquired") > 0 || len(p.issued()) > 0 || redis.Do(t, "EXISTS", lockKey) != ":1" {
		t.Fatalf("B does not wait\n%s", b.log)
	}
	redis.Do(t, "DEL", lockKey) // nobody waits for the lease here
	b.obtains(p.trust())
}

// TestACMEKilledAlone: one that is killed and has files gets its certificate
// after the next start.
func TestACMEKilledAlone(t *testing.T) {
	t.Parallel()
	p := startPebble(t, days)
	g := p.gateway("127.0.0.1", p.http, p.https)
	g.configure(gated + app(record(t).url))
	g.midOrder(t)
	g.kill()
	g.run()
	g.obtains(p.trust())
}

// inRedis are the entries of a Redis by their keys.
func inRedis(t *testing.T, redis *redisServer) map[string]string {
	t.Helper()
	keys := redis.Do(t, "EVAL", "return table.concat(redis.call('KEYS', '*'), '\\n')", "0")
	all := map[string]string{}
	for _, key := range strings.Split(keys, "\n") {
		all[key] = redis.Do(t, "GET", key) // all are strings
	}
	return all
}

// TestACMEAtRest: Redis holds nothing that is of use to who reads it, and who
// writes to it cannot put one thing in the place of another.
func TestACMEAtRest(t *testing.T) {
	t.Parallel()
	p, redis, up := startPebble(t, days), startRedis(t), record(t)
	a, b := p.twins(up, redis)
	const other = "other.test"
	p.leadsTo(other, "127.0.0.1")
	a.domains = []string{gateName, other}
	a.configure(gated + app(up.url) + onRedis(redis.Address))
	a.run()
	roots := p.trust()
	a.obtains(roots)
	before := inRedis(t, redis)
	for _, end := range []string{".key", ".crt", ".json"} {
		for _, name := range []string{gateName, other} {
			if len(entriesEnding(before, name+end)) != 1 {
				t.Fatalf("Redis does not have %s: %q", name+end, slices.Collect(maps.Keys(before)))
			}
		}
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(before)), func(key string) bool { return strings.Contains(key, "/users/admin@gate.test/") }) {
		t.Errorf("there is no account of tls.email: %q", slices.Collect(maps.Keys(before)))
	}
	for key, value := range before {
		for _, secret := range []string{"PRIVATE KEY", "BEGIN", gateName, other, p.directory} {
			if strings.Contains(value, secret) {
				t.Errorf("%s in Redis holds %q", key, secret)
			}
		}
	}
	b.refusesKey(t, up, redis, roots)
	a.refusesSwap(t, redis, roots, other)
	if got := p.issued(); len(got) != 2 {
		t.Errorf("pebble has issued %v, expected two", got)
	}
}

// entriesEnding are the keys that end like that.
func entriesEnding(all map[string]string, end string) []string {
	var keys []string
	for key := range all {
		if strings.HasSuffix(key, "/"+end) {
			keys = append(keys, key)
		}
	}
	return keys
}

// refusesKey: an instance with another store.encryption_key says so, leaves
// everything as it is, and has no certificate.
func (g *acmeGateway) refusesKey(t *testing.T, up *recorder, redis *redisServer, roots *x509.CertPool) {
	t.Helper()
	before := inRedis(t, redis)
	g.configure(gated + app(up.url) + strings.Replace(onRedis(redis.Address), "abcdefghij", "ABCDEFGHIJ", 1))
	g.run()
	const message = "there is no certificate yet, and it cannot be had; it is tried again"
	until(t, "it to try again", func() bool { return len(g.entriesOf(message)) > 1 })
	for _, entry := range g.entriesOf(message) {
		if problem, _ := entry["error"].(string); entry["domain"] != gateName || !strings.Contains(problem, "store.encryption_key") {
			t.Errorf("with another key, the log has %v", entry)
		}
	}
	if problem := g.problem(gateName); !strings.Contains(problem, "store.encryption_key") {
		t.Errorf("with another key, /readyz says %q", problem)
	}
	if g.serves(roots, gateName) != nil {
		t.Error("with another key, it serves a certificate")
	}
	for key, value := range inRedis(t, redis) {
		if before[key] != value {
			t.Errorf("with another key, it has changed %s", key)
		}
	}
	g.signal(syscall.SIGTERM)
	<-g.done
}

// refusesSwap: the certificate of one name, put in the place of another one's,
// is not used there.
func (g *acmeGateway) refusesSwap(t *testing.T, redis *redisServer, roots *x509.CertPool, other string) {
	t.Helper()
	g.signal(syscall.SIGTERM)
	<-g.done
	all := inRedis(t, redis)
	for _, end := range []string{".key", ".crt", ".json"} {
		redis.Do(t, "SET", entriesEnding(all, other+end)[0], all[entriesEnding(all, gateName+end)[0]])
	}
	g.run()
	g.domains = []string{gateName}
	g.obtains(roots)
	until(t, "it to try again", func() bool {
		return len(g.entriesOf("there is no certificate yet, and it cannot be had; it is tried again")) > 1
	})
	if problem := g.problem(other); !strings.Contains(problem, "store.encryption_key") {
		t.Errorf("with what belongs elsewhere, /readyz says %q", problem)
	}
	if g.serves(roots, other) != nil {
		t.Error("it serves what belongs elsewhere")
	}
	if problem := g.problem(gateName); problem != "" {
		t.Errorf("the certificate of another name has this problem: %q", problem)
	}
}
