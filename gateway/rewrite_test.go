package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/wire/headername"
	"authgate/internal/test/headernametest"
	ownrig "authgate/internal/test/rig"
)

// readBy returns the headers that a CGI application reads under the guarded names.
func readBy(q *http.Request, guarded ...string) map[string]string {
	got := map[string]string{}
	for name, values := range q.Header {
		cgi := headernametest.CGI(name)
		if slices.ContainsFunc(guarded, func(g string) bool { return headernametest.CGI(g) == cgi }) {
			got[cgi] += strings.Join(values, " AND ")
		}
	}
	return got
}

// The upstream gets these headers for each mechanism, and none that a client sends for
// them. Package upstream has each spelling.
func TestIdentityHeaders(t *testing.T) {
	t.Parallel()
	guarded := slices.Concat(headername.DefaultIdentity, headernametest.AboutClients, headernametest.AboutUsers,
		[]string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Login"})
	var spoofs []string
	for _, name := range guarded {
		spoofs = append(spoofs, name+": evil", strings.ReplaceAll(name, "-", "_")+": evil")
	}
	r := newRig(t, baseConfig+"identity_headers: {user: X-Login}\n")
	alice := r.login(aliceIn)
	local := map[string]string{
		"X_LOGIN": "alice", "X_AUTH_SUBJECT": "local:alice", "X_AUTH_NAME": "Alice Example",
		"X_AUTH_EMAIL": "alice@example.org", "X_AUTH_ROLES": "user,admin", "X_AUTH_PROVIDER": "local",
	}
	for _, c := range []struct {
		mechanism, header string
		identity          map[string]string
	}{
		{"public", alice.bearer, nil},
		{"basic", basicHeader("service", "s3rvice"),
			map[string]string{"X_LOGIN": "service", "X_AUTH_SUBJECT": "basic:service", "X_AUTH_PROVIDER": "basic"}},
		{"session", alice.cookie, local},
		{"bearer", alice.bearer, local},
	} {
		r.want(200, "GET", "/"+c.mechanism+"/", "", append(spoofs, c.header)...)
		want := map[string]string{
			"X_FORWARDED_FOR": "192.0.2.7", "X_FORWARDED_PROTO": "http", "X_FORWARDED_HOST": "gw.example",
		}
		maps.Copy(want, c.identity)
		if c.identity != nil {
			want["X_AUTH_MECHANISM"] = c.mechanism
		}
		if got := readBy(r.upstream.Last(), guarded...); !maps.Equal(got, want) {
			t.Errorf("%s: the upstream reads %v, want %v", c.mechanism, got, want)
		}
	}
}

// Credentials that the gateway used are removed. Credentials of the application are
// forwarded byte for byte.
func TestStripCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.CookieDelivery)
	jar := jarOf(r.want(200, "POST", "/login", aliceIn, jsonType))
	session, access := "session_id="+jar["session_id"], "access_token="+jar["access_token"]
	refresh := "refresh_token=" + jar["refresh_token"]
	basic := basicHeader("service", "s3rvice")
	_, basicValue, _ := strings.Cut(basic, ": ")
	for _, c := range []struct {
		target                string
		header                []string
		authorization, cookie []string
	}{
		{"/basic/", []string{basic, "Cookie: a=b"}, nil, []string{"a=b"}},
		{"/session/", []string{basic, "Cookie: " + session + "; a=b"}, []string{basicValue}, []string{"a=b"}},
		{"/session/", []string{"Authorization: Bearer x", "Cookie: " + session}, []string{"Bearer x"}, nil},
		{"/any/", []string{"Authorization: Negotiate x", "Cookie: " + session}, []string{"Negotiate x"}, nil},
		{"/bearer/", []string{"Cookie: a=1; " + access + "; b=2; " + refresh}, nil, []string{"a=1; b=2"}},
		{"/bearer/", []string{"Authorization: Bearer " + jar["access_token"], "Cookie: a=b"}, nil, []string{"a=b"}},
		{"/bearer/", []string{basic, "Cookie: " + access}, []string{basicValue}, nil},
		{"/public/", []string{basic, "Cookie: " + session + "; a=b"}, []string{basicValue}, []string{"a=b"}},
		{"/public/", []string{"Cookie: a=b;c = d ;;e", "Cookie: f"}, nil, []string{"a=b;c = d ;;e", "f"}},
		{"/public/", []string{"Cookie: a=b; __Host-authgate_language=de; c=d"}, nil, []string{"a=b; c=d"}},
		{"/public/", []string{"Cookie: __Host-authgate_language=de"}, nil, nil},
	} {
		r.want(200, "GET", c.target, "", c.header...)
		if h := r.upstream.Last().Header; !slices.Equal(h["Authorization"], c.authorization) ||
			!slices.Equal(h["Cookie"], c.cookie) {
			t.Errorf("%s with %q: the upstream gets Authorization %q and Cookie %q, want %q and %q",
				c.target, c.header, h["Authorization"], h["Cookie"], c.authorization, c.cookie)
		}
	}
}

// A header that a route removes or sets is removed in every spelling that an
// application could take for it, such as "_" for "-".
func TestRouteHeadersInAllSpellings(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+
		"  - {match: /changed/, upstream: app, auth: [none], headers: {set: {X-Api-Key: good}, remove: [X-Webauth-User]}}\n")
	for _, name := range []string{"X-Api-Key", "X-Webauth-User"} {
		for _, spelling := range headernametest.Spellings(name) {
			r.want(200, "GET", "/changed/", "", spelling+": evil")
			if got := readBy(r.upstream.Last(), "X-Api-Key", "X-Webauth-User"); len(got) != 1 || got["X_API_KEY"] != "good" {
				t.Errorf("the client sends %s, and the upstream reads %v", spelling, got)
			}
		}
	}
}

// No header of a client makes the upstream use another method than the one that was
// decided on, or sends the requests of a CGI application through another proxy. Methods
// are case-sensitive (RFC 9110, section 9.1), but not to every application: one that is
// not in upper case is refused.
func TestMethodOverride(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy"} {
		for _, spelling := range headernametest.Spellings(name) {
			r.want(200, "POST", "/public/", "", spelling+": DELETE")
			for got, values := range r.upstream.Last().Header {
				if slices.Contains(values, "DELETE") {
					t.Errorf("with %s the upstream gets %s: %q", spelling, got, values)
				}
			}
		}
	}
	for _, method := range []string{"get", "Get", "gET"} {
		r.want(400, method, "/public/", "")
	}
}

// The route of a path that ends in a slash also decides on the path without it. The
// application answers, and may redirect from one to the other.
func TestPathWithoutItsSlash(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+`
  - {match: /, upstream: app, auth: [none]}
  - {match: /stripped/, upstream: app, auth: [none], strip_prefix: /stripped}
  - {match: /exact/, upstream: app, auth: [session]}
  - {match: /exact, upstream: app, auth: [none]}
`)
	for _, c := range []struct {
		target, header   string
		status           int
		forwarded, query string
	}{
		{"/%70ublic?a=b", "", 200, "/%70ublic", "a=b"},
		{"/stripped?", "", 308, "", ""},
		{"/stripped/", "", 200, "/", ""},
		{"/session", "", 401, "", ""},
		{"/session;x", "", 400, "", ""},
		{"/basic", basicHeader("service", "s3rvice"), 200, "/basic", ""},
		{"/exact", "", 200, "/exact", ""},
		{"/exact/", "", 401, "", ""},
	} {
		if r.want(c.status, "GET", c.target, "", c.header); c.status != 200 {
			continue
		}
		if got := r.upstream.Last().URL; got.Opaque != c.forwarded || got.RawQuery != c.query {
			t.Errorf("%s: the upstream is asked for %q with the query %q", c.target, got.Opaque, got.RawQuery)
		}
	}
}

// Some applications ignore the case of paths, or a slash or a dot at the end. With a
// configuration that closes everything and opens single paths, nothing else is open
// (docs/security.md).
func TestCaseFoldingUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig,
		"{match: /public/, name: public, upstream: app, auth: [none]}", "{match: /, upstream: app, auth: [session]}")+
		"  - {match: /assets/, upstream: app, auth: [none]}\n  - {match: \"/{$}\", upstream: app, auth: [none]}\n")
	for _, path := range []string{
		"/admin", "/Admin", "/ADMIN/", "/%41dmin", "/admin.", "/admin%20", "/\u0130", "/ſession/x", "/\u212aeys",
		"/ＡＤＭＩＮ", "/assetſ/x", "/ASSETS/../admin", "/Assets/x", "/Assets", "/assets;/x",
	} {
		before := r.upstream.Reached()
		if w := r.do("GET", path, ""); r.upstream.Reached() != before {
			t.Errorf("%s without a session: %d, and the upstream is asked for it", path, w.Code)
		}
	}
	for _, path := range []string{"/", "/assets", "/assets/x", "/assets/Style.CSS"} {
		r.want(200, "GET", path, "")
	}
}
