package upstream

import (
	"cmp"
	"context"
	"hash/fnv"
	"net/netip"
	"slices"

	"authgate/gateway/config/forwarding"
)

// usualTargets is about how many targets an upstream has.
const usualTargets = 8

// Classes of targets, in the order in which they are tried.
const (
	classReady   = iota
	classWaiting // it takes fewer turns while it starts, or one request at a time tests it
	classResting
	classSick
)

// choice is a target in the order in which the balancer tries them.
type choice struct {
	target *target
	class  int
	score  float64 // of equal classes, the lowest is first
}

// clientKey is the key of a context for the address of a client.
type clientKey struct{}

// ByClient reports whether the balancer wants to know the client of a request.
func (u *Upstream) ByClient() bool {
	return u.config.Balance == forwarding.BalanceClient && len(u.targets) > 1
}

// WithClient returns a context for requests of a client.
func WithClient(ctx context.Context, client netip.Addr) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// order appends all targets to choices, in the order in which a request tries
// them: those that are well first. turn is the number of the request.
func (u *Upstream) order(ctx context.Context, choices []choice, turn uint64) []choice {
	n := uint64(len(u.targets))
	if n == 1 {
		return append(choices, choice{target: u.targets[0]})
	}
	now := int64(u.elapsed())
	var client netip.Addr
	byClient := u.ByClient()
	if byClient {
		client, _ = ctx.Value(clientKey{}).(netip.Addr)
	}
	for _, t := range u.targets {
		c := choice{target: t, class: t.class(now)}
		switch {
		case byClient:
			c.score = -rank(client, t.name)
		case u.config.Balance == forwarding.BalanceLeastRequests:
			c.score = float64(t.inFlight.Load()+1) / t.share(now)
		case c.class == classReady && !takesTurn(turn/n, t.share(now)):
			c.class = classWaiting
		}
		choices = append(choices, c)
	}
	slices.SortStableFunc(choices, choice.compare)
	best := 1 // how many are as good as the first one; they take turns
	for best < len(choices) && choices[best].compare(choices[0]) == 0 {
		best++
	}
	rotate(choices[:best], int(turn%uint64(best)))
	return choices
}

// compare orders choices, without regard to turns.
func (c choice) compare(o choice) int {
	return cmp.Or(cmp.Compare(c.class, o.class), cmp.Compare(c.score, o.score))
}

// rotate moves the first n choices to the end.
func rotate(choices []choice, n int) {
	slices.Reverse(choices[:n])
	slices.Reverse(choices[n:])
	slices.Reverse(choices)
}

// class returns the class of a target, without regard to its share.
func (t *target) class(now int64) int {
	switch {
	case t.sick.Load():
		return classSick
	case t.resting.Load() > now:
		return classResting
	case t.untested.Load() && t.inFlight.Load() > 0:
		return classWaiting
	}
	return classReady
}

// takesTurn reports whether a target with that share takes its turn in a round:
// with a share of 0.5 in every second one.
func takesTurn(round uint64, share float64) bool {
	if share >= 1 {
		return true
	}
	const cycle = 1000 // so that the product is exact enough
	k := float64(round % cycle)
	return int64((k+1)*share) > int64(k*share)
}

// rank returns how a target ranks for a client: a number from 0 to 1 that looks
// random, but is the same in every instance. The clients of a target that is away
// have different second choices (rendezvous hashing).
func rank(client netip.Addr, target string) float64 {
	h := fnv.New64a()
	address := client.As16()
	_, _ = h.Write(address[:]) // cannot fail
	_, _ = h.Write([]byte(target))
	x := h.Sum64() // its high bits hardly depend on the last bytes, so mix them
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}
