package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// clusterPair is a pair on a Cluster, on whose nodes the keys of each login lie.
type clusterPair struct {
	*pair
	cluster *redisCluster
	lost    *redisServer // the node that will be gone for a while
}

// TestRedisCluster: two gateways share logins on a Cluster. While a node without a
// replica is gone, requests that need its keys are 503 and others work. A replica
// takes over for its node.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := startRedisCluster(t, "--cluster-require-full-coverage", "no")
	p := &clusterPair{pair: preparePair(t, nil), cluster: c, lost: c.Masters[1]}
	p.a.configure(shared + app(p.up.url) + onRedis(c.Masters[0].Address))
	p.b.configure(shared + app(p.up.url) + onRedis(c.Masters[2].Address))
	p.run()
	t.Run("login and logout", func(t *testing.T) { loginHereLogoutThere(t, p.pair) })
	t.Run("a node is gone", p.loseNode)
	t.Run("a node fails over", p.failOver)
}

// spread is a login and which of its keys are on the node that will be gone, by kind.
type spread struct {
	signIn
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
	p.wantAlive(t, s.signIn) // so that the caches have it
	claims := claimsOf(t, s.access)
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
	p.untilOutage(t, dark[0].signIn, time.Now(), p.a, p.b)
	for _, s := range all {
		for kind, needs := range map[string]bool{"session": s.needs("login", "session"), "token": s.needs("login", "revoked")} {
			for name, g := range p.both() {
				a := p.ask(t, g, s.credentials()[kind]...)
				if needs {
					wantOutage(t, name+": "+kind, a)
				} else if a.status != http.StatusOK {
					t.Errorf("%s: %s: %d %s, though no key of it is on the node that is gone", name, kind, a.status, a.body)
				}
			}
		}
	}
	p.signOut(t, "Authorization", whole[0].access)
	p.wantEnded(t, whole[0].signIn)
	wantOutage(t, "logout", p.a.do(p.client(p.a), "POST", "/logout", "", "Cookie", dark[0].session))
	answers := map[bool]int{}
	until(t, "a login that works and one that does not", func() bool {
		a := p.b.do(p.client(p.b), "POST", "/login", right, "Content-Type", typeJSON)
		if answers[a.status == http.StatusOK]++; a.status != http.StatusOK {
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
	p.wantEnded(t, whole[0].signIn)
	for _, s := range all {
		if s.access == whole[0].access {
			continue
		}
		for kind, lost := range map[string]bool{"session": s.needs("login", "session"), "token": s.needs("login")} {
			check := map[bool]func(testing.TB, *instance, ...string){true: p.refuses, false: p.opens}[lost]
			check(t, p.a, s.credentials()[kind]...)
			check(t, p.b, s.credentials()[kind]...)
		}
	}
}

// failOver kills a node that has a replica.
func (p *clusterPair) failOver(t *testing.T) {
	kept, ended := p.signIn("alice"), p.signIn("alice")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Cookie", ended.session)
	written := redisTells(t, p.cluster.Masters[0], "replication")["master_repl_offset"]
	until(t, "the replica to have all writes", func() bool {
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
