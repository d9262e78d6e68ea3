package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
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

// Through the whole gateway: whatever names and values a client sends, the
// upstream reads no identity in them.
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
