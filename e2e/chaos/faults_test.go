package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"
)

// trouble is a fault that lasts for a while.
type trouble struct {
	name  string
	at    string // the instance; empty: all
	begin func()
	mend  func()
}

// storeFaults causes one fault after the other at Redis, or in the connections of an
// instance to Redis.
//
// The faults and the times between them are short, or longer than
// store.max_staleness: that an instance has missed the end of a login shows only when
// it accepts the login that much later, and each fault makes it forget the login.
func (c *cell) storeFaults(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		f := c.storeFault(random)
		began := c.history.Now()
		f.begin()
		c.troubles.Add(1)
		c.shortOrLong(ctx, random)
		f.mend()
		c.awaitReady()
		c.history.Add(Event{Kind: Outage, At: f.at, Begin: began, End: c.history.Now(), Note: f.name})
		c.shortOrLong(ctx, random)
	}
}

// long is longer than store.max_staleness.
const long = 2500 * time.Millisecond

func (c *cell) shortOrLong(ctx context.Context, random *rand.Rand) {
	if random.IntN(3) == 0 {
		c.calm(ctx, random, long, 2*long)
	} else {
		c.calm(ctx, random, 0, 600*time.Millisecond)
	}
}

func (c *cell) storeFault(random *rand.Rand) trouble {
	i := random.IntN(len(c.ways))
	way, at := c.ways[i], c.instances[i].name
	var release func()
	all := []trouble{
		{"redis is killed", "", c.redis.Kill, func() { c.redis.Run(c.t) }},
		{"redis is frozen", "", func() { c.redis.Signal(c.t, syscall.SIGSTOP) }, func() { c.redis.Signal(c.t, syscall.SIGCONT) }},
		{"connections are cut", at, way.Cut, way.Mend},
		{"connections are silent", at, way.Swallow, way.Mend},
		{"connections are forgotten", at, way.Forget, way.Mend},
		{"answers are lost", at, way.Mute, way.Mend},
		{"connections are slow", at, func() { release = way.Hold() }, func() { release() }},
	}
	return all[random.IntN(len(all))]
}

// gatewayFaults causes one fault after the other at the gateways.
func (c *cell) gatewayFaults(ctx context.Context, random *rand.Rand) {
	for c.calm(ctx, random, 0, 600*time.Millisecond) {
		g := c.instances[random.IntN(len(c.instances))]
		switch n := random.IntN(5); n {
		case 0, 1:
			c.restart(ctx, random, g, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[n])
		case 2:
			began := c.history.Now()
			g.reload(c.t)
			c.history.Add(Event{Kind: Reload, At: g.name, Begin: began, End: c.history.Now()})
		default:
			c.disable(ctx, random, []string{"alice", "bob"}[random.IntN(2)])
		}
	}
}

// restart ends an instance by a signal and starts it again.
func (c *cell) restart(ctx context.Context, random *rand.Rand, g *instance, s syscall.Signal) {
	began := c.history.Now()
	g.stop(s)
	c.calm(ctx, random, 0, 300*time.Millisecond)
	if err := g.run(); err != nil {
		c.t.Errorf("starting %s again: %v", g.name, err)
	}
	await(c.t, g.name+" to be ready after "+s.String(), g.ready)
	c.history.Add(Event{Kind: Down, At: g.name, Begin: began, End: c.history.Now(), Note: s.String()})
}

// disable disables an account on all instances, which ends its logins, and enables it
// again.
func (c *cell) disable(ctx context.Context, random *rand.Rand, user string) {
	hup := random.IntN(4) > 0 // otherwise the gateways notice that the file has changed
	c.history.Add(c.change(Event{Kind: Disable, User: user}, hup, http.StatusUnauthorized))
	c.calm(ctx, random, 0, 200*time.Millisecond)
	c.history.Add(c.change(Event{Kind: Enable, User: user}, hup, http.StatusOK))
}

// change writes the accounts and waits until a login at each instance has a status.
func (c *cell) change(e Event, hup bool, status int) Event {
	out := func(user string) bool { return e.Kind == Disable && e.User == user }
	content := fmt.Sprintf(accounts, out("alice"), out("bob"))
	e.Begin = c.history.Now()
	for _, g := range c.instances {
		g.write(c.t, "accounts.yaml", content)
		if hup {
			g.reload(c.t)
		}
	}
	for _, g := range c.instances {
		await(c.t, fmt.Sprintf("%s to %s %s", g.name, e.Kind, e.User), func() bool { return c.knocks(g, e.User) == status })
	}
	e.End = c.history.Now()
	return e
}

// knocks signs in without an event in the history, and returns the status.
func (c *cell) knocks(g *instance, user string) int {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", "https://localhost:"+g.port+"/login?mechanism=session", nil)
	request.SetBasicAuth(user, passwords[user])
	response, err := c.prober.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// late is the time that the answer to a trivial request takes on a busy machine.
const late = 200 * time.Millisecond

// watch records late answers of a process until ctx ends. A store without processor
// time is unavailable too.
func (c *cell) watch(ctx context.Context, at string, trivial func() error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		began := c.history.Now()
		_ = trivial() // the clients see failures
		if ended := c.history.Now(); ended-began > late {
			c.history.Add(Event{Kind: Stall, At: at, Begin: began, End: ended})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// calm waits for a random time, and reports whether ctx has not ended.
func (c *cell) calm(ctx context.Context, random *rand.Rand, shortest, longest time.Duration) bool {
	timer := time.NewTimer(shortest + time.Duration(random.Int64N(int64(longest-shortest))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (c *cell) awaitReady() {
	for _, g := range c.instances {
		await(c.t, g.name+" to be ready", g.ready)
	}
}
