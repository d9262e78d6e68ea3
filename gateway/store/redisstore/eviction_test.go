package redisstore

import (
	"log/slog"
	"strings"
	"testing"

	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

// A Redis that may evict keys is a warning, once. Without the right to ask, the log says
// what to do.
func TestEviction(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		"noeviction": "", "allkeys-lru": "may evict keys", "volatile-ttl": "may evict keys", "": "+info",
	} {
		redis, log := startFake(t, nil), &logtest.Buffer{}
		redis.policy = policy
		s := openFake(t, redis, Options{Logger: slog.New(slog.NewJSONHandler(log, nil))})
		must.Do(t, s.Close())
		told := log.String()
		if strings.Contains(told, "evict") != (want != "") || !strings.Contains(told, want) ||
			strings.Count(told, "evict keys") > 1 {
			t.Errorf("%q: told %s, want %q", policy, told, want)
		}
	}
}
