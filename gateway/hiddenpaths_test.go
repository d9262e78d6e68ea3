package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// An application that leads a signed-in user to a path that the gateway answers itself seems
// broken, so the log says what to do, once.
func TestRedirectToHiddenPath(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		for _, c := range []struct {
			prefix, user, location string
			told                   bool
		}{
			{"/", "alice", "/login", true},
			{"/", "alice", "../login?next=%2F", true},
			{"/", "alice", "https://gw.example/account", true},
			{"/", "alice", "https://GW.example:443/account#x", true},
			{"/", "", "/login", false}, // a user who is not signed in is to sign in there
			{"/", "alice", "https://other.example/login", false},
			{"/", "alice", "/login/", false},
			{"/", "alice", "/app/login", false},
			{"/", "alice", "https://[bad/login", false},
			{"/.authgate/", "alice", "/login", false},
			{"/.authgate/", "alice", "/.authgate/login", false}, // which the application must know of
		} {
			config := edit(t, baseConfig, "app: {", "app: {fast_path: "+fast+", ")
			r := newRig(t, config+"endpoints: {prefix: "+c.prefix+"}\n")
			r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
				return response(q, http.StatusFound, http.Header{"Location": {c.location}}, ""), nil
			}
			path, cookie := "/public/", ""
			if c.user != "" {
				q := request("POST", c.prefix+"login", aliceIn)
				q.Header.Set("Content-Type", "application/json")
				path, cookie = "/session/", jarOf(r.serve(q)).Line()
			}
			for range 2 {
				if w := r.do("GET", path, "", cookie); w.Code != 302 {
					t.Fatalf("%+v: got %d", c, w.Code)
				}
			}
			want := 0
			if c.told {
				want = 1
			}
			if got := strings.Count(r.log.String(), "leads signed-in users to a path"); got != want {
				t.Errorf("%+v, fast_path: %s: told %d times\n%s", c, fast, got, r.log)
			}
		}
	}
}
