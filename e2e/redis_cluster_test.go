package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// spread is a login and where its keys are.
type spread struct {
	signIn
	elsewhere map[string]bool // by kind of key: whether it is on a node that stays
}

// has reports whether all keys of these kinds are on nodes that stay.
func (s *spread) has(kinds ...string) bool {
	return !slices.ContainsFunc(kinds, func(kind string) bool { return !s.elsewhere[kind] })
}

// signInSpread signs alice in and finds out where the keys are.
func (p *clusterPair) signInSpread(t *testing.T) spread {
	t.Helper()
	s := spread{p.signIn("alice"), map[string]bool{}}
	var claims struct{ JTI, SID string }
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(s.access, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	login := "authgate:login:" + claims.SID
	var record struct{ Handles []string }
	const header = 9 // see redisstore
	stored := p.cluster.Owner(t, login).Do(t, "GET", login)
	if err := json.Unmarshal([]byte(stored)[header:], &record); err != nil {
		t.Fatal(err)
	}
	for _, key := range append(record.Handles, "login:"+claims.SID, "revoked:"+claims.JTI) {
		kind, _, _ := strings.Cut(key, ":")
		s.elsewhere[kind] = p.cluster.Owner(t, "authgate:"+key) != p.lost
	}
	return s
}

// signInsSpread makes logins until two have no key on the node that will be gone,
// and two have a session with one.
func (p *clusterPair) signInsSpread(t *testing.T) (whole, halves []spread) {
	t.Helper()
	for dark := 0; len(whole) < 2 || dark < 2; {
		s := p.signInSpread(t)
		p.wantAlive(t, s.signIn) // so that the caches have it
		if s.has("login", "session", "refresh", "revoked") {
			whole = append(whole, s)
			continue
		}
		if !s.has("login", "session") {
			dark++
		}
		halves = append(halves, s)
	}
	return whole, halves
}

// loseNode kills a node that has no replica, and starts it again without what
// it held.
func (p *clusterPair) loseNode(t *testing.T) {
	whole, halves := p.signInsSpread(t)
	dark := halves[slices.IndexFunc(halves, func(s spread) bool { return !s.has("login", "session") })]
	p.lost.Kill()
	killed := time.Now()
	var asking sync.WaitGroup
	for name, g := range p.both() {
		asking.Go(func() { p.trustedFor(t, g, name, killed, dark.credentials()["session"]) })
	}
	asking.Wait()
	p.partly(t, slices.Concat(whole, halves))
	p.changesPartly(t, whole[0], dark)
	if p.ready() {
		t.Error("both say that they are ready")
	}
	for name, g := range p.both() {
		p.free(t, name, g)
	}

	p.lost.Run(t)
	p.cluster.Agrees(t)
	p.recovers(t)
	p.wantEnded(t, whole[0].signIn)
	for _, s := range whole[1:] {
		p.wantAlive(t, s.signIn)
	}
	check := func(lives bool, credential []string) {
		t.Helper()
		does := p.refuses
		if lives {
			does = p.opens
		}
		does(t, p.a, credential...)
		does(t, p.b, credential...)
	}
	for _, s := range halves {
		check(s.has("login", "session"), s.credentials()["session"])
		check(s.has("login"), s.credentials()["token"])
	}
}

// partly expects each credential to work on both instances if checking it needs no
// key of the node, and 503 otherwise.
func (p *clusterPair) partly(t *testing.T, all []spread) {
	t.Helper()
	var asking sync.WaitGroup
	opened, dark := 0, 0
	for _, s := range all {
		for kind, checkable := range map[string]bool{"session": s.has("login", "session"), "token": s.has("login", "revoked")} {
			if checkable {
				opened++
			} else {
				dark++
			}
			for name, g := range p.both() {
				c := g.stranger()
				asking.Go(func() { p.askPartly(t, name+": "+kind, g, c, checkable, s.credentials()[kind]) })
			}
		}
	}
	asking.Wait()
	t.Logf("without a node %d credentials opened, and %d did not", opened, dark)
}

func (p *clusterPair) askPartly(t *testing.T, what string, g *instance, c *http.Client, checkable bool, credential []string) {
	began := time.Now()
	a := p.ask(t, g, c, credential...)
	if !checkable {
		wantOutage(t, what, a, began)
	} else if a.status != http.StatusOK {
		t.Errorf("%s: %d %s, though no key of it is on the node that is gone", what, a.status, a.body)
	}
}

// changesPartly ends a login without a key on the node, and fails to end one with
// a key there. New logins work, or fail and give nothing.
func (p *clusterPair) changesPartly(t *testing.T, whole, dark spread) {
	t.Helper()
	p.signOut(t, "Authorization", whole.access)
	p.wantEnded(t, whole.signIn)
	began := time.Now()
	wantOutage(t, "logout", p.a.do(p.client(p.a), "POST", "/logout", "", "Cookie", dark.session), began)

	worked, failed := 0, 0
	until(t, "a login that works and one that does not", func() bool {
		began := time.Now()
		a := p.b.do(p.client(p.b), "POST", "/login", right, "Content-Type", typeJSON)
		if a.status == http.StatusOK {
			worked++
		} else {
			failed++
			wantOutage(t, "login", a, began)
			wantNothingGiven(t, a)
		}
		return worked > 0 && failed > 0
	})
}

// recovers waits until logins work again on all nodes.
func (p *clusterPair) recovers(t *testing.T) {
	t.Helper()
	within(t, recovery, "logins work again", func() bool {
		for range 5 {
			if !p.works() {
				return false
			}
		}
		return true
	})
	within(t, recovery, "both are ready again", p.ready)
}

// failOver kills a node that has a replica.
func (p *clusterPair) failOver(t *testing.T) {
	kept, ended := p.signIn("alice"), p.signIn("alice")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Cookie", ended.session)
	written := redisInfo(t, p.cluster.Masters[0], "replication", "master_repl_offset")
	until(t, "the replica to have all writes", func() bool {
		return redisInfo(t, p.cluster.Replica, "replication", "slave_repl_offset") >= written
	})
	p.cluster.Masters[0].Kill()
	p.cluster.Replica.Leads(t)
	p.recovers(t)
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)
}
