package config

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse reads n routes of all kinds.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{10, 1000} {
		var source strings.Builder
		source.WriteString("upstreams: {app: {url: \"http://127.0.0.1:9000\"}}\npolicies: {admin: {roles: [admin]}}\n")
		source.WriteString("accounts: {users: [{username: alice, password_hash: \"${HASH}\"}]}\nroutes:\n")
		for i := range n {
			match := []string{"/app%d/", "GET /app%d/{id}/edit", "host%d.example.org/{rest...}", "/literal/%d"}[i%4]
			fmt.Fprintf(&source, "  - match: "+match+"\n    upstream: app\n    auth: [session, bearer]\n    policy: [admin, {roles: [user]}]\n", i)
		}
		b.Run(fmt.Sprintf("%d routes", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustParse(b, source.String())
			}
		})
	}
}
