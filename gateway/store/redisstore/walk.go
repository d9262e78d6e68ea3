package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"authgate/gateway/store"
)

// Walk implements store.Store. It asks each node that is not a replica for its
// keys (SCAN). While slots move between nodes of a Cluster, it may miss keys.
func (s *Store) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if err := s.usable(ctx); err != nil {
		return s.failed("walk", err)
	}
	state := s.link.state.Load()
	if state.client == nil {
		return s.failed("walk", state.err)
	}
	for address, node := range state.client.Nodes() {
		if s.link.isReplica(address) {
			continue
		}
		if err := s.walkNode(ctx, node, prefix, visit); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) walkNode(
	ctx context.Context, node rueidis.Client, prefix string, visit func(keys []string) error,
) error {
	pattern := literal(s.prefix+prefix) + "*"
	for cursor := uint64(0); ; {
		page, err := s.link.send(ctx, node, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
			return c.Do(ctx, c.B().Scan().Cursor(cursor).Match(pattern).Count(store.WalkSize).Build())
		}).AsScanEntry()
		if err != nil {
			return s.failed("walk", fmt.Errorf("listing keys: %w", err))
		}
		keys := page.Elements
		for i := range keys {
			keys[i] = strings.TrimPrefix(keys[i], s.prefix)
		}
		if len(keys) > 0 {
			if err := visit(keys); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// literal returns a pattern that matches only text.
func literal(text string) string {
	return strings.NewReplacer(
		`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `-`, `\-`,
	).Replace(text)
}
