package config

import (
	"fmt"
	"strings"
	"testing"
)

// manyRoutes is a configuration of n routes of all kinds.
func manyRoutes(n int) string {
	var b strings.Builder
	b.WriteString("accounts:\n  users:\n    - {username: alice, password_hash: \"" + environment["HASH"] + "\"}\n")
	b.WriteString("upstreams:\n  app: {url: \"http://127.0.0.1:9000\"}\npolicies:\n  admin: {roles: [admin]}\nroutes:\n")
	for i := range n {
		match := []string{"/app%d/", "GET /app%d/{id}/edit", "host%d.example.org/{rest...}", "/literal/%d"}[i%4]
		fmt.Fprintf(&b, "  - match: %s\n    upstream: app\n    auth: [session, bearer]\n    policy: [admin, {roles: [user]}]\n", fmt.Sprintf(match, i))
	}
	return b.String()
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{10, 1000} {
		source := []byte(manyRoutes(n))
		b.Run(fmt.Sprintf("%d routes", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse("config.yaml", source, lookup); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
