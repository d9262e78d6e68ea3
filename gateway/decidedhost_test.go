package gateway

import (
	"testing"
)

// The host that routes were matched with is the host that the upstream gets,
// also where a trusted proxy tells of it: many proxies pass on a client's
// X-Forwarded-Host or Forwarded as they came, and by those a client must not
// choose a route for one host and a page of another.
func TestDecidedHostIsForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.0/24]}\nstore:")+
		"  - {match: public.example/, upstream: app, auth: [none]}\n  - {match: private.example/, upstream: app, auth: [session]}\n")
	for _, says := range []string{
		"X-Forwarded-Host: public.example", "X-Forwarded-Host: private.example, public.example", "Forwarded: host=public.example",
		"Forwarded: for=198.51.100.7;host=\"public.example\"",
	} {
		before := r.upstream.count()
		q := request("GET", "/page", "", says)
		q.Host = "private.example"
		w := r.serve(q)
		if r.upstream.count() == before {
			continue // refused
		}
		if got := r.upstream.last(); got.Host == "private.example" {
			t.Errorf("%q: %d, decided on for public.example, and the upstream is asked for a page of %s", says, w.Code, got.Host)
		}
	}
}
