package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/policy"
)

// cgi is how a careless application sees a header's name: the way of CGI and
// WSGI, and of frameworks that take dots for underscores.
func cgi(name string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))
}

// aboutClients are the headers that only the gateway or a trusted proxy may
// send, beside those of the identity.
var aboutClients = []string{
	"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix", "Forwarded",
	"X-Real-Ip", "X-Client-Ip", "X-Original-Url", "X-Original-Uri", "X-Original-Host", "X-Rewrite-Url",
}

// renamedConfig has names of its own for the identity, one of them with the
// characters that applications take for a dash.
const renamedConfig = baseConfig + `
identity_headers: {user: Remote-User, email: X.Mail_Address, roles: ""}
`

var renamed = []string{"Remote-User", "X.Mail_Address"}

// spellings are ways of writing one name that some application may read as it.
func spellings(name string) []string {
	all := []string{name, strings.ToLower(name), strings.ToUpper(name)}
	for _, r := range []string{"_", "."} {
		s := strings.ReplaceAll(name, "-", r)
		all = append(all, s, strings.ToLower(s), strings.ToUpper(s), strings.Replace(name, "-", r, 1))
	}
	return all
}

func TestNoClientIdentity(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{baseConfig, renamedConfig} {
		r := newRig(t, yaml)
		alice := r.login(aliceIn)
		names := slices.Concat(defaultIdentityHeaders, aboutClients)
		if yaml == renamedConfig {
			names = append(names, renamed...)
		}
		for _, name := range names {
			for _, spelling := range spellings(name) {
				for target, header := range map[string]string{
					"/public/": "", "/basic/": basicHeader("service", "s3rvice"), "/session/": alice.cookie, "/bearer/": alice.bearer,
				} {
					w := r.do("GET", target, "", header, spelling+": evil", "Connection: "+spelling+", X-Auth-User")
					if w.Code != 200 {
						t.Fatalf("GET %s with %s: %d", target, spelling, w.Code)
					}
					noEvil(t, r.upstream.last().Header)
				}
			}
		}
	}
}

func noEvil(t *testing.T, h http.Header) {
	t.Helper()
	for name, values := range h {
		for _, v := range values {
			if strings.Contains(v, "evil") {
				t.Errorf("the upstream gets %s: %s", name, v)
			}
		}
	}
}

// What the gateway says of an identity, for each mechanism.
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
		if w := r.do("GET", c.target, "", c.header); w.Code != 200 {
			t.Fatalf("GET %s: %d", c.target, w.Code)
		}
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

// A value that no header can carry is not sent, and not cut to fit either.
func TestIdentityHeaderValues(t *testing.T) {
	t.Parallel()
	names := config.IdentityHeaders{User: "X-Auth-User", Name: "X-Auth-Name", Email: "X-Auth-Email", Roles: "X-Auth-Roles"}
	h := http.Header{}
	newIdentityHeaders(names).set(h, &policy.Identity{
		Username: "alice\r\nX-Auth-Roles: admin", Name: "Zoë", Email: "a\x00@example.org", Subject: "local:alice",
	})
	want := http.Header{"X-Auth-Name": {"Zoë"}}
	if !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("got %q, want %q", h, want)
	}
}

// strip takes away what it must, and leaves everything else as it was.
func FuzzStrip(f *testing.F) {
	f.Add("X-Auth-User", "evil", false)
	f.Add("x_auth.user", "evil", true)
	f.Add("X-Forwarded-For", "6.6.6.6", true)
	f.Add("X_Forwarded_For", "6.6.6.6", true)
	f.Add("remote.user", "evil", false)
	f.Add("Accept", "text/html", false)
	f.Add("X-Authority", "x", false)
	names := config.IdentityHeaders{User: "Remote-User", Email: "X.Mail_Address"}
	identity := newIdentityHeaders(names)
	forbidden := map[string]bool{}
	for _, name := range slices.Concat(defaultIdentityHeaders, renamed) {
		forbidden[cgi(name)] = true
	}
	proxies := map[string]bool{}
	for _, name := range aboutClients {
		proxies[cgi(name)] = true
	}
	f.Fuzz(func(t *testing.T, name, value string, trusted bool) {
		if !httpguts.ValidHeaderFieldName(name) {
			return // no server takes such a name
		}
		h := http.Header{"Accept": {"text/html", "*/*"}, "X-Auth-Roles": {"evil"}, "Cookie": {"a=b"}}
		h.Add(name, value)
		before := h.Clone()
		h = identity.admit(h, trusted)
		seen := cgi(name)
		proxy := proxies[seen] || strings.HasPrefix(seen, "X_FORWARDED_")
		for each, values := range before {
			kept := slices.Equal(h[each], values)
			switch folded := cgi(each); {
			case forbidden[folded], proxy && !trusted && folded == seen:
				if _, there := h[each]; there {
					t.Errorf("%q is kept", each)
				}
			case proxy && folded == seen:
				// A trusted proxy writes the name as it is written; another spelling comes from behind it.
				if proper := http.CanonicalHeaderKey(strings.ReplaceAll(folded, "_", "-")) == each; kept != proper {
					t.Errorf("%q of a trusted proxy is kept: %t", each, kept)
				}
			case !kept:
				t.Errorf("%q is %q, was %q", each, h[each], values)
			}
		}
		if len(h) > len(before) {
			t.Errorf("headers appear: %v", h)
		}
	})
}

// Through the whole gateway: whatever names and values a client sends, the
// upstream reads no identity in them.
func FuzzNoClientIdentity(f *testing.F) {
	f.Add("X-Auth-User", "x-auth-user", "close")
	f.Add("X_Auth_Roles", "REMOTE_USER", "X-Auth-User, Remote-User")
	f.Add("x.mail.address", "X-Forwarded-For", "X-Forwarded-For")
	f.Add("X-Auth-Provider", "X-Real_IP", "Authorization")
	r := newRig(f, renamedConfig)
	want := map[string]string{
		"REMOTE_USER": "service", "X_AUTH_SUBJECT": "basic:service", "X_AUTH_MECHANISM": "basic", "X_AUTH_PROVIDER": "basic",
		"X_FORWARDED_FOR": "192.0.2.7", "X_FORWARDED_PROTO": "http", "X_FORWARDED_HOST": "gw.example",
	}
	guarded := map[string]bool{}
	for _, name := range slices.Concat(defaultIdentityHeaders, renamed, aboutClients) {
		guarded[cgi(name)] = true
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
			if guarded[cgi(name)] {
				got[cgi(name)] += strings.Join(values, " AND ")
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the upstream reads %v, want %v", got, want)
		}
	})
}

// Credentials that the gateway consumed stay with it; what belongs to the
// application goes on byte for byte.
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
		if w := r.do("GET", c.target, "", c.header...); w.Code != 200 {
			t.Fatalf("%s: %d %s", c.name, w.Code, w.Body)
		}
		h := r.upstream.last().Header
		if !slices.Equal(h["Authorization"], c.authorization) || !slices.Equal(h["Cookie"], c.cookie) {
			t.Errorf("%s: the upstream gets Authorization %q and Cookie %q, want %q and %q",
				c.name, h["Authorization"], h["Cookie"], c.authorization, c.cookie)
		}
	}
}

// browserHeaders are those of a browser's page load.
func browserHeaders() http.Header {
	return http.Header{
		"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, "Accept-Encoding": {"gzip, deflate, br, zstd"},
		"Accept-Language": {"en-GB,en;q=0.5"}, "Cookie": {"session_id=x; theme=dark"}, "User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"},
		"Sec-Fetch-Dest": {"document"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Site": {"none"}, "Sec-Fetch-User": {"?1"},
		"Upgrade-Insecure-Requests": {"1"}, "Te": {"trailers"}, "Priority": {"u=0, i"}, "X-Request-Id": {"abc"},
	}
}

func BenchmarkAdmit(b *testing.B) {
	h, identity := browserHeaders(), newIdentityHeaders(config.IdentityHeaders{})
	b.ReportAllocs()
	for b.Loop() {
		if admitted := identity.admit(h, false); len(admitted) != len(h) {
			b.Fatal(admitted)
		}
	}
}

func BenchmarkStripCredentials(b *testing.B) {
	names := &auth.CookieNames{Session: "session_id"}
	b.ReportAllocs()
	for b.Loop() {
		h := http.Header{"Cookie": {"session_id=x; theme=dark"}}
		stripCredentials(h, &auth.Credentials{Cookies: true}, names, false)
		if len(h["Cookie"]) != 1 {
			b.Fatal(h)
		}
	}
}
