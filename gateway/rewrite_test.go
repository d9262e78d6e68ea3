package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/headername"
	"authgate/gateway/headername/headernametest"
)

// ownNames are headers that the gateway sets on every request.
var ownNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id"}

// renamedConfig has names of its own for the identity, one of them with
// characters that applications take for a dash.
const renamedConfig = baseConfig + `
identity_headers: {user: X-Login, email: X.Mail_Address, roles: ""}
`

var renamed = []string{"X-Login", "X.Mail_Address"}

// The upstream gets these headers for each mechanism.
func TestIdentityHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	local := func(mechanism string) map[string]string {
		return map[string]string{
			"User": "alice", "Subject": "local:alice", "Name": "Alice Example", "Email": "alice@example.org",
			"Roles": "user,admin", "Mechanism": mechanism, "Provider": "local",
		}
	}
	for _, c := range []struct {
		target, header string
		want           map[string]string
	}{
		{"/public/", "", map[string]string{}},
		{"/public/", alice.bearer, map[string]string{}},
		{"/basic/", basicHeader("service", "s3rvice"), map[string]string{"User": "service", "Subject": "basic:service", "Mechanism": "basic", "Provider": "basic"}},
		{"/session/", alice.cookie, local("session")},
		{"/bearer/", alice.bearer, local("bearer")},
	} {
		r.want(200, "GET", c.target, "", c.header)
		got := map[string]string{}
		for name, values := range r.upstream.last().Header {
			if suffix, ok := strings.CutPrefix(name, "X-Auth-"); ok {
				got[suffix] = strings.Join(values, " AND ")
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: the upstream gets %v, want %v", c.target, got, c.want)
		}
	}
}

// Whatever names and values a client sends, the upstream reads no identity in them.
func FuzzNoClientIdentity(f *testing.F) {
	f.Add("X-Auth-User", "x-auth-user", "close")
	f.Add("X_Auth_Roles", "REMOTE_USER", "X-Auth-User, Remote-User")
	f.Add("X!Login", "X#Auth~Roles", "X-Login")
	f.Add("x.mail.address", "X-Forwarded-For", "X-Forwarded-For")
	f.Add("X-Auth-Provider", "X-Real_IP", "Authorization")
	r := newRig(f, renamedConfig)
	want := map[string]string{
		"X_LOGIN": "service", "X_AUTH_SUBJECT": "basic:service", "X_AUTH_MECHANISM": "basic", "X_AUTH_PROVIDER": "basic",
		"X_FORWARDED_FOR": "192.0.2.7", "X_FORWARDED_PROTO": "http", "X_FORWARDED_HOST": "gw.example",
	}
	guarded := map[string]bool{}
	for _, name := range slices.Concat(headername.DefaultIdentity, renamed, headernametest.AboutClients, headernametest.AboutUsers, ownNames[:3]) {
		guarded[headernametest.CGI(name)] = true
	}
	f.Fuzz(func(t *testing.T, name1, name2, connection string) {
		if !httpguts.ValidHeaderFieldName(name1) || !httpguts.ValidHeaderFieldName(name2) || !httpguts.ValidHeaderFieldValue(connection) {
			return // no server takes such a header
		}
		count := r.upstream.count()
		w := r.do("GET", "/basic/", "", basicHeader("service", "s3rvice"), name1+": evil", name2+": evil", "Connection: "+connection)
		if r.upstream.count() == count {
			if w.Code == 200 {
				t.Error("200, and the upstream was not asked")
			}
			return // a second Authorization, for instance
		}
		got := map[string]string{}
		for name, values := range r.upstream.last().Header {
			if guarded[headernametest.CGI(name)] {
				got[headernametest.CGI(name)] += strings.Join(values, " AND ")
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the upstream reads %v, want %v", got, want)
		}
	})
}

// Credentials that the gateway used are removed. Credentials of the application are
// forwarded byte for byte.
func TestStripCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"token: {delivery: cookie}\n")
	var cookies []string
	for _, c := range r.do("POST", "/login", aliceIn, jsonType).Result().Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	session, access, refresh := cookies[0], cookies[1], cookies[2]
	basic := basicHeader("service", "s3rvice")
	_, basicValue, _ := strings.Cut(basic, ": ")
	for _, c := range []struct {
		name, target  string
		header        []string
		authorization []string
		cookie        []string
	}{
		{"basic consumed", "/basic/", []string{basic, "Cookie: a=b"}, nil, []string{"a=b"}},
		{"basic of the application", "/session/", []string{basic, "Cookie: " + session + "; a=b"}, []string{basicValue}, []string{"a=b"}},
		{"bearer of the application", "/session/", []string{"Authorization: Bearer x", "Cookie: " + session}, []string{"Bearer x"}, nil},
		{"another scheme", "/any/", []string{"Authorization: Negotiate x", "Cookie: " + session}, []string{"Negotiate x"}, nil},
		{"bearer in a cookie", "/bearer/", []string{"Cookie: a=1; " + access + "; b=2; " + refresh}, nil, []string{"a=1; b=2"}},
		{"bearer in a cookie, basic of the application", "/bearer/", []string{basic, "Cookie: " + access}, []string{basicValue}, nil},
		{"public", "/public/", []string{basic, "Cookie: " + session + "; a=b"}, []string{basicValue}, []string{"a=b"}},
		{"no cookie of ours", "/public/", []string{"Cookie: a=b;c = d ;;e", "Cookie: f"}, nil, []string{"a=b;c = d ;;e", "f"}},
		{"an empty cookie of ours", "/public/", []string{"Cookie: session_id=; a=b"}, nil, []string{"a=b"}},
		{"likely names", "/public/", []string{"Cookie: session_id2=x; " + session + "; Session_id=y; session=z"}, nil, []string{"session_id2=x; Session_id=y; session=z"}},
	} {
		r.want(200, "GET", c.target, "", c.header...)
		h := r.upstream.last().Header
		if !slices.Equal(h["Authorization"], c.authorization) || !slices.Equal(h["Cookie"], c.cookie) {
			t.Errorf("%s: the upstream gets Authorization %q and Cookie %q, want %q and %q",
				c.name, h["Authorization"], h["Cookie"], c.authorization, c.cookie)
		}
	}
}

// A header that a route removes or sets is removed in every spelling that an
// application could take for it, such as "_" for "-".
func TestRouteHeadersInAllSpellings(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /changed/, upstream: app, auth: [none], headers: {set: {X-Api-Key: good}, remove: [X-Webauth-User]}}\n")
	for name, want := range map[string][]string{"X-Api-Key": {"good"}, "X-Webauth-User": nil} {
		for _, spelling := range headernametest.Spellings(name) {
			r.want(200, "GET", "/changed/", "", spelling+": evil")
			var got []string
			for each, values := range r.upstream.last().Header {
				if headernametest.CGI(each) == headernametest.CGI(name) {
					got = append(got, values...)
				}
			}
			if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
				t.Errorf("the client sends %s, and the upstream reads %s: %q, want %q", spelling, name, got, want)
			}
		}
	}
}

// overrides are headers that make frameworks use another method than that of the
// request.
var overrides = []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

// No header of a client makes the upstream use another method than the one that was
// decided on.
func TestMethodOverride(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "routes:", "  readers: {methods: [GET, HEAD, POST]}\nroutes:\n  - {match: /read/, upstream: app, auth: [session], policy: readers}"))
	s := r.login(aliceIn)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, name := range overrides {
			for _, spelling := range headernametest.Spellings(name) {
				before := r.upstream.count()
				w := r.do(method, "/read/", "", s.cookie, spelling+": DELETE")
				if r.upstream.count() == before {
					continue // refused
				}
				for got, values := range r.upstream.last().Header {
					if slices.Contains(values, "DELETE") {
						t.Errorf("%s with %s: %d, and the upstream gets %s: %q", method, spelling, w.Code, got, values)
					}
				}
			}
		}
	}
}

// Methods are case-sensitive (RFC 9110, section 9.1), but some applications ignore
// case. A method that is not in upper case is refused, so that it does not bypass a
// route or a policy that names the method.
func TestMethodsInAnotherCase(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: GET /both/, upstream: app, auth: [session]}\n  - {match: /both/, upstream: app, auth: [none]}\n")
	for _, method := range []string{"get", "Get", "gET"} {
		before := r.upstream.count()
		w := r.do(method, "/both/", "")
		if r.upstream.count() != before && strings.EqualFold(r.upstream.last().Method, "GET") {
			t.Errorf("%s /both/ without a session: %d, and the upstream is asked to %s", method, w.Code, r.upstream.last().Method)
		}
	}
}

// A CGI application would send its own requests through the proxy of HTTP_PROXY.
func TestProxyHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, name := range []string{"Proxy", "proxy", "PROXY"} {
		r.do("GET", "/public/", "", name+": http://evil.example")
		if got := r.upstream.last().Header["Proxy"]; got != nil {
			t.Errorf("%s reaches the upstream: %q", name, got)
		}
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
	r.upstream.answer = func(q *http.Request) (*http.Response, error) { // the other form is the right one
		if q.URL.Opaque == "/public/" {
			return response(q, http.StatusMovedPermanently, http.Header{"Location": {"/public"}}, ""), nil
		}
		return response(q, http.StatusOK, http.Header{}, ""), nil
	}
	for _, c := range []struct {
		method, target, header string
		status                 int
		forwarded, query       string
	}{
		{"GET", "/public", "", 200, "/public", ""},
		{"GET", "/public/", "", 301, "/public/", ""},
		{"POST", "/%70ublic?a=b", "", 200, "/%70ublic", "a=b"},
		{"GET", "/stripped?", "", 200, "/", ""},
		{"GET", "/stripped/", "", 200, "/", ""},
		{"GET", "/session", "", 401, "", ""},
		{"GET", "/session;x", "", 400, "", ""},
		{"GET", "/basic", basicHeader("service", "s3rvice"), 200, "/basic", ""},
		{"GET", "/basic", basicHeader("service", "wrong"), 401, "", ""},
		{"GET", "/exact", "", 200, "/exact", ""},
		{"GET", "/exact/", "", 401, "", ""},
	} {
		before := r.upstream.count()
		w := r.do(c.method, c.target, "", c.header)
		if w.Code != c.status || r.upstream.count()-before != min(len(c.forwarded), 1) {
			t.Errorf("%s %s: %d, and %d requests at the upstream; want %d", c.method, c.target, w.Code, r.upstream.count()-before, c.status)
			continue
		}
		if c.forwarded == "" {
			continue
		}
		if got := r.upstream.last().URL; got.Opaque != c.forwarded || got.RawQuery != c.query {
			t.Errorf("%s %s: the upstream is asked for %q with the query %q", c.method, c.target, got.Opaque, got.RawQuery)
		}
	}
}

// Some applications ignore the case of paths, or a slash or a dot at the end. With a
// configuration that closes everything and opens single paths, nothing else is open
// (docs/security.md).
func TestCaseFoldingUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "{match: /public/, name: public, upstream: app, auth: [none]}", "{match: /, upstream: app, auth: [session]}")+
		"  - {match: /assets/, upstream: app, auth: [none]}\n  - {match: \"/{$}\", upstream: app, auth: [none]}\n")
	for _, path := range []string{
		"/admin", "/Admin", "/ADMIN/", "/aDmin/users", "/%41dmin", "/admin.", "/admin%20", "/Admin/", "/\u0130", "/ſession/x", "/\u212aeys", "/ＡＤＭＩＮ", "/assetſ/x", "/ASSETS/../admin", "/Assets/x", "/Assets", "/assets;/x",
	} {
		before := r.upstream.count()
		w := r.do("GET", path, "")
		if r.upstream.count() != before {
			t.Errorf("%s without a session: %d, and the upstream is asked for it", path, w.Code)
		}
	}
	for _, path := range []string{"/", "/assets", "/assets/x", "/assets/Style.CSS"} {
		before := r.upstream.count()
		if w := r.do("GET", path, ""); r.upstream.count() == before || !strings.Contains(w.Body.String(), "hello") {
			t.Errorf("%s: %d, and it is open", path, w.Code)
		}
	}
}
