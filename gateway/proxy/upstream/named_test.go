package upstream

import (
	"net/url"
	"testing"

	"authgate/internal/test/must"
)

// What a request names has the form that the request's own URL has at the target.
func TestNamedBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, host, want string }{
		{"http://10.0.0.1:3000", "client", "http://gw.example:8443"},
		{"https://app.internal/base", "target", "https://app.internal/base"},
		{"https://app.internal/base", "files.example", "https://files.example/base"},
		{"h2c://10.0.0.1:3000/", "target", "http://10.0.0.1:3000"},
		{"unix:/run/app.sock:/base", "target", "http://localhost/base"},
		{"unix+h2c:/run/app.sock", "client", "http://gw.example:8443"},
	} {
		u := &Upstream{targets: []*target{newTarget(must.Get(url.Parse(c.address))(t), c.host)}}
		if got := u.base("gw.example:8443"); got != c.want {
			t.Errorf("%s with host %s: %s, want %s", c.address, c.host, got, c.want)
		}
	}
}
