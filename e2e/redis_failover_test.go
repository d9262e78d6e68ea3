package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRedisFailover: when the master is killed, Sentinels promote its replica.
// Logins stay what they were, alive or ended. Then an instance is killed, and the
// other one goes on with its logins. Redis and the Sentinels demand different
// passwords.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	const password, sentinelPassword = "of Redis alone", "of the Sentinels alone"
	servers := startSentinels(t, password, sentinelPassword)
	for _, s := range servers.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">"+sentinelPassword, "&*", "+@all")
	}
	p := preparePair(t, servers.Master)
	for _, g := range p.both() {
		g.write("sentinel-password", sentinelPassword+"\n")
		g.configure(shared + app(p.up.url) + fmt.Sprintf("store: {driver: redis, sentinel_master: gate, addresses: ['%s'], password: %q, "+
			"sentinel_username: watcher, sentinel_password_file: sentinel-password}\n", strings.Join(servers.Addresses(), "', '"), password))
	}
	p.run()
	kept, ended := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Authorization", ended.access)
	servers.Master.Do(t, "SET", "last", "write")
	until(t, "the replica to have all writes", func() bool { return servers.Replica.Do(t, "GET", "last") == "write" })

	servers.Master.Kill()
	servers.Replica.Leads(t)
	p.recovers(t)
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)

	p.a.kill()
	for _, credential := range kept.credentials() {
		p.opens(t, p.b, credential...)
	}
	p.wantRefresh(t, p.b, kept.refresh, http.StatusOK)
	p.relaunch(p.a, "/readyz")
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)
}
