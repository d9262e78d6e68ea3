package forward

import (
	"io"
	"net/http"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// Caches keep the answers to users apart from those to requests without credentials.
func TestCachesOfNobody(t *testing.T) {
	t.Parallel()
	targeted := []string{"CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Surrogate-Control", "Edge-Control",
		"X-Accel-Expires"}
	for _, fast := range []string{"true", "false"} {
		app := func(w http.ResponseWriter, q *http.Request) {
			for _, value := range q.Header["Want-Cache"] {
				w.Header().Add("Cache-Control", value)
			}
			w.Header()["Vary"] = q.Header["Want-Vary"]
			for _, name := range targeted {
				w.Header().Set(name, "60")
			}
			_, _ = io.WriteString(w, "hello")
		}
		r := newApplication(t, ownrig.Edit(t, ownrig.Base+`
  - {match: /open/, name: open, upstream: app, auth: [session, bearer, basic, none]}
  - match: /office/
    upstream: app
    auth: [session, bearer, none]
    policy: {any: [{networks: [192.0.2.0/24]}, {roles: [admin]}]}
  - {match: /reads/, upstream: app, auth: [session, none], policy: {any: [{methods: [GET, HEAD]}, {roles: [admin]}]}}
`, `{url: "http://app.invalid"}`,
			`{url: "http://app.invalid", fast_path: `+fast+`}`), app)
		for _, c := range []struct {
			target, credential, cache, vary string
			wantCache, wantVary             string
		}{
			{"/open/", "", "", "", "", "Cookie, Authorization"},
			{"/open/", "", "public, max-age=60", "Accept-Encoding", "public, max-age=60",
				"Accept-Encoding, Cookie, Authorization"},
			{"/open/", "", "", "cookie", "", "cookie, Authorization"},
			{"/open/", "", "", "*", "", "*"},
			{"/reads/", "", "", "", "", "Cookie, Authorization"},
			{"/open/", aliceSession, "", "", "private", "Cookie, Authorization"},
			{"/open/", aliceToken, "", "", "private", "Cookie, Authorization"},
			{"/open/", serviceBasic, "max-age=60", "", "max-age=60, private",
				"Cookie, Authorization"},
			{"/open/", aliceSession, "Public, S-MaxAge=60, max-age=5", "", "max-age=5, private",
				"Cookie, Authorization"},
			{"/open/", aliceSession, "no-store", "", "no-store", "Cookie, Authorization"},
			{"/open/", aliceSession, `private="Set-Cookie"`, "", `private="Set-Cookie", private`,
				"Cookie, Authorization"},
			{"/office/", "", "", "", "private", "Cookie, Authorization"}, // another address gets another answer
			{"/public/", "", "", "", "", ""},
			{"/session/", aliceSession, "public", "", "public", ""},
		} {
			w := r.Want(200, "GET", c.target, "", c.credential, ownrig.Browser, ownrig.HeaderIf("Want-Cache", c.cache),
				ownrig.HeaderIf("Want-Vary", c.vary))
			cache, vary := strings.Join(w.Header()["Cache-Control"], "|"), strings.Join(w.Header()["Vary"], "|")
			if cache != c.wantCache || vary != c.wantVary {
				t.Errorf("fast_path %s: %+v: Cache-Control %q, Vary %q", fast, c, cache, vary)
			}
			for _, name := range targeted { // which tell a cache of the application's more than Cache-Control does
				personal := c.target == "/office/" || c.target == "/open/" && c.credential != ""
				if passed := w.Header().Get(name) != ""; passed == personal {
					t.Errorf("fast_path %s: %+v: %s passes: %v", fast, c, name, passed)
				}
			}
		}
	}
}
