package redisstore

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

// safePolicy is the value of maxmemory-policy with which Redis evicts nothing.
const safePolicy = "noeviction"

// eviction remembers which policies of nodes that may evict keys were logged.
type eviction struct {
	told  map[string]string // policies, by address
	known bool              // all nodes have answered
}

// look warns of each node that may evict keys: a login could be lost, and an ended one
// could count again. It tells the same once.
func (e *eviction) look(ctx context.Context, l *link, client rueidis.Client) {
	if e.told == nil {
		e.told = map[string]string{}
	}
	e.known = true
	for address, node := range client.Nodes() {
		policy, refused, err := l.policyOf(ctx, node)
		if err != nil {
			e.known = false
			continue
		}
		if policy == e.told[address] {
			continue
		}
		e.told[address] = policy
		switch {
		case refused:
			l.logger.Info("redis does not permit the command INFO, "+
				"so the gateway cannot tell whether it may evict keys; give the user of store.username the right +info",
				"node", address)
		case policy != safePolicy && policy != "":
			l.logger.Warn("redis may evict keys when its memory is full: then logins are lost, "+
				"and ended ones can count again; set maxmemory-policy to noeviction",
				"node", address, "maxmemory_policy", policy)
		}
	}
}

// policyOf returns the maxmemory-policy of a node, empty if it has none. If Redis does
// not permit the question, refused is true, and the policy is a text that says so.
func (l *link) policyOf(ctx context.Context, node rueidis.Client) (policy string, refused bool, err error) {
	info, err := l.send(ctx, node, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().Info().Section("memory").Build())
	}).ToString()
	if refusal, answered := rueidis.IsRedisErr(err); answered && isForbidden(refusal.Error()) {
		return "unknown", true, nil
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return policy, false, nil
		}
	}
	return "", false, err
}
