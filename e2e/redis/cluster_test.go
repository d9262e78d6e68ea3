package redis

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
)

// clusterPair is a pair on a Cluster, on whose nodes the keys of each login lie.
type clusterPair struct {
	*pair
	cluster *redistest.Cluster
	lost    *redistest.Server // the node that will be gone for a while
}

// TestRedisCluster: two gateways share logins on a Cluster. While a node without a
// replica is gone, requests that need its keys are 503 and others work. A replica
// takes over for its node.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := startRedisCluster(t, "--cluster-require-full-coverage", "no")
	p := &clusterPair{pair: preparePair(t, nil), cluster: c, lost: c.Masters[1]}
	p.a.Configure(shared + world.App(p.up.URL) + world.OnRedis(c.Masters[0].Address))
	p.b.Configure(shared + world.App(p.up.URL) + world.OnRedis(c.Masters[2].Address))
	p.run()
	t.Run("login and logout", func(t *testing.T) { loginHereLogoutThere(t, p.pair) })
	t.Run("a node is gone", p.loseNode)
	t.Run("a node fails over", p.failOver)
}

// spread is a login and which of its keys are on the node that will be gone, by kind.
type spread struct {
	world.Login
	lost map[string]bool
}

// needs reports whether one of these keys is on the node that will be gone.
func (s *spread) needs(kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool { return s.lost[kind] })
}

// signInSpread signs alice in and finds out where the keys are.
func (p *clusterPair) signInSpread(t *testing.T) spread {
	t.Helper()
	s := spread{p.signIn("alice"), map[string]bool{}}
	p.wantAlive(t, s.Login) // so that the caches have it
	claims := world.ClaimsOf(t, s.Access)
	login := fmt.Sprint("login:", claims["sid"])
	var record struct{ Handles []string }
	const header = 9 // see redisstore
	stored := p.cluster.Owner(t, "authgate:"+login).Do(t, "GET", "authgate:"+login)
	if err := json.Unmarshal([]byte(stored)[header:], &record); err != nil {
		t.Fatal(err)
	}
	for _, key := range append(record.Handles, login, fmt.Sprint("revoked:", claims["jti"])) {
		kind, _, _ := strings.Cut(key, ":")
		s.lost[kind] = p.cluster.Owner(t, "authgate:"+key) == p.lost
	}
	return s
}

// loseNode kills a node that has no replica, and starts it again without what it
// held. Meanwhile each credential works on both instances if checking it needs no
// key of the node, and is 503 otherwise.
func (p *clusterPair) loseNode(t *testing.T) {
	var all, whole, dark []spread
	for len(whole) < 2 || len(dark) < 2 {
		s := p.signInSpread(t)
		if all = append(all, s); !s.needs("login", "session", "refresh", "revoked") {
			whole = append(whole, s)
		} else if s.needs("login") {
			dark = append(dark, s)
		}
	}
	p.lost.Kill()
	p.untilOutage(t, dark[0].Login, time.Now(), p.a, p.b)
	for _, s := range all {
		for kind, needs := range map[string]bool{
			"session": s.needs("login", "session"), "token": s.needs("login", "revoked"),
		} {
			for name, g := range p.both() {
				a := p.ask(t, g, credentialsOf(s.Login)[kind]...)
				if needs {
					wantOutage(t, name+": "+kind, a)
				} else if a.Status != http.StatusOK {
					t.Errorf("%s: %s: %d %s, though no key of it is on the node that is gone", name, kind, a.Status, a.Body)
				}
			}
		}
	}
	p.signOut(t, "Authorization", whole[0].Access)
	p.wantEnded(t, whole[0].Login)
	wantOutage(t, "logout", p.a.Do(p.client(p.a), "POST", "/logout", "", "Cookie", dark[0].Session))
	answers := map[bool]int{}
	world.Until(t, "a login that works and one that does not", func() bool {
		a := p.b.Do(p.client(p.b), "POST", "/login", world.AliceJSON, "Content-Type", world.TypeJSON)
		if answers[a.Status == http.StatusOK]++; a.Status != http.StatusOK {
			wantOutage(t, "login", a)
		}
		return len(answers) == 2
	})
	for name, g := range p.both() {
		p.free(t, name, g)
	}
	if p.ready() {
		t.Error("both say that they are ready")
	}

	p.lost.Run(t)
	p.cluster.Agrees(t)
	for range 5 { // logins, so that their keys are on all nodes
		p.recovers(t)
	}
	p.wantEnded(t, whole[0].Login)
	for _, s := range all {
		if s.Access == whole[0].Access {
			continue
		}
		for kind, lost := range map[string]bool{"session": s.needs("login", "session"), "token": s.needs("login")} {
			check := map[bool]func(testing.TB, *world.Instance, ...string){true: p.refuses, false: p.opens}[lost]
			check(t, p.a, credentialsOf(s.Login)[kind]...)
			check(t, p.b, credentialsOf(s.Login)[kind]...)
		}
	}
}

// failOver kills a node that has a replica.
func (p *clusterPair) failOver(t *testing.T) {
	kept, ended := p.signIn("alice"), p.signIn("alice")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Cookie", ended.Session)
	written := redisTells(t, p.cluster.Masters[0], "replication")["master_repl_offset"]
	world.Until(t, "the replica to have all writes", func() bool {
		return redisTells(t, p.cluster.Replica, "replication")["slave_repl_offset"] >= written
	})
	p.cluster.Masters[0].Kill()
	p.cluster.Replica.Leads(t)
	for range 5 {
		p.recovers(t)
	}
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)
}
