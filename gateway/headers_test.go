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
	"authgate/gateway/headername"
	"authgate/policy"
)

// cgi is how CGI shows a header's name to an application: every character that
// is neither a letter nor a digit is "_" there.
func cgi(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// separators are the characters of a header's name that are neither letters
// nor digits (RFC 9110, section 5.6.2).
const separators = "!#$%&'*+-.^_`|~"

// aboutClients are headers that only the gateway or a trusted proxy may send,
// beside those of the identity.
var aboutClients = []string{
	"X-Forwarded-Port", "X-Forwarded-Prefix", "Forwarded", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
	"X-Cluster-Client-Ip", "Fastly-Client-Ip", "Client-Ip", "X-Envoy-External-Address", "X-Host", "X-Http-Host-Override",
	"X-Original-Url", "X-Original-Uri", "X-Original-Host", "X-Original-Remote-Addr", "X-Rewrite-Url", "X-Proxyuser-Ip",
	"Wl-Proxy-Client-Ip", "Proxy-Client-Ip",
}

// aboutUsers are headers by which some applications know who somebody is. Not
// even a trusted proxy may send them unless the route says so.
var aboutUsers = []string{
	"Remote-User", "Remote-Groups", "X-Remote-User", "X-Remote-Group", "X-Webauth-User", "X-Forwarded-User", "X-Forwarded-Email",
	"X-Forwarded-Client-Cert", "X-Authentik-Username", "X-Auth-Request-User", "X-Token-User-Email", "X-Appengine-User-Email",
	"X-Ssl-Client-Dn", "Ssl-Client-S-Dn", "X-Client-Cert", "X-Arr-Clientcert", "X-Goog-Authenticated-User-Email", "Oidc-Claim-Sub",
}

// ownNames are headers that the gateway sets on every request.
var ownNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id"}

// renamedConfig has names of its own for the identity, one of them with
// characters that applications take for a dash.
const renamedConfig = baseConfig + `
identity_headers: {user: X-Login, email: X.Mail_Address, roles: ""}
`

var renamed = []string{"X-Login", "X.Mail_Address"}

// spellings are ways of writing one name that some application may read as it.
func spellings(name string) []string {
	all := []string{name, strings.ToLower(name), strings.ToUpper(name)}
	for _, r := range strings.Split(separators, "") {
		all = append(all, strings.NewReplacer("-", r, ".", r, "_", r).Replace(name))
		if first := strings.IndexAny(name, "-._"); first > 0 {
			all = append(all, strings.ToLower(name[:first])+r+name[first+1:])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestNoClientIdentity(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{baseConfig, renamedConfig} {
		r := newRig(t, yaml)
		alice := r.login(aliceIn)
		names := slices.Concat(headername.DefaultIdentity, aboutClients, aboutUsers, ownNames[:3])
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

// What each kind of header does from a client and from a trusted proxy, on a
// route that lets some through and on one that does not.
func TestAdmit(t *testing.T) {
	t.Parallel()
	identity := newIdentityHeaders(config.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"})
	pass := canonicalAll([]string{"X-Real-IP", "Remote-User", "X_WEBAUTH_USER", "X-HTTP-Method-Override"})
	for _, c := range []struct {
		name                                 string
		client, proxy, clientPass, proxyPass bool
	}{
		{"Accept", true, true, true, true},
		{"X-Auth-Token", true, true, true, true},
		{"X-User-Id", true, true, true, true},
		{"X-Login", false, false, false, false},
		{"X-Mail-Address", false, false, false, false},
		{"X-Auth-User", false, false, false, false},
		{"X-Forwarded-For", false, false, false, false}, // set later
		{"X-Request-Id", false, false, false, false},    // likewise
		{"X_request_id", false, false, false, false},
		{"True-Client-Ip", false, true, false, true},
		{"True_client_ip", false, false, false, false},
		{"X-Forwarded-Port", false, true, false, true},
		{"X-Real-Ip", false, true, true, true},
		{"X_real_ip", false, false, false, false},
		{"Remote-User", false, false, true, true},
		{"Remote!user", false, false, false, false},
		{"X_webauth_user", false, false, true, true},
		{"X-Webauth-User", false, false, false, false},
		{"X-Forwarded-User", false, false, false, false},
		{"X-Http-Method-Override", false, false, true, true},
		{"Proxy", false, false, false, false},
		{"Content-Type", true, true, true, true},
		{"Transfer_encoding", false, false, false, false},
		{"Content.length", false, false, false, false},
		{"Proxy_authorization", false, false, false, false},
	} {
		for _, each := range []struct {
			trusted bool
			pass    map[string]bool
			want    bool
		}{{false, nil, c.client}, {true, nil, c.proxy}, {false, pass, c.clientPass}, {true, pass, c.proxyPass}} {
			if _, kept := identity.admit(http.Header{c.name: {"x"}}, each.trusted, each.pass)[c.name]; kept != each.want {
				t.Errorf("%s, trusted proxy %t, on a route that lets it pass %t: kept %t, want %t", c.name, each.trusted, each.pass != nil, kept, each.want)
			}
		}
	}
}

// admit takes away what it must, and leaves everything else as it was.
func FuzzStrip(f *testing.F) {
	f.Add("X-Auth-User", "evil", false)
	f.Add("x_auth.user", "evil", true)
	f.Add("X!Auth!User", "evil", true)
	f.Add("X-Forwarded-For", "6.6.6.6", true)
	f.Add("X_Forwarded_For", "6.6.6.6", true)
	f.Add("X|Real^IP", "6.6.6.6", true)
	f.Add("remote.user", "evil", false)
	f.Add("Accept", "text/html", false)
	f.Add("X-Authority", "x", false)
	names := config.IdentityHeaders{User: "X-Login", Email: "X.Mail_Address"}
	identity := newIdentityHeaders(names)
	forbidden := map[string]bool{}
	for _, name := range slices.Concat(headername.DefaultIdentity, renamed, aboutUsers, ownNames) {
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
		h = identity.admit(h, trusted, nil)
		for each, values := range before {
			kept, seen := slices.Equal(h[each], values), cgi(each)
			proper := http.CanonicalHeaderKey(strings.ReplaceAll(seen, "_", "-")) == each
			switch {
			case forbidden[seen], proxies[seen] && !(trusted && proper):
				if _, there := h[each]; there {
					t.Errorf("%q is kept", each)
				}
			case proxies[seen], headername.Of(headername.Fold(each)) == headername.Free:
				if !kept {
					t.Errorf("%q is %q, was %q", each, h[each], values)
				}
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
	f.Add("X!Login", "X#Auth~Roles", "X-Login")
	f.Add("x.mail.address", "X-Forwarded-For", "X-Forwarded-For")
	f.Add("X-Auth-Provider", "X-Real_IP", "Authorization")
	r := newRig(f, renamedConfig)
	want := map[string]string{
		"X_LOGIN": "service", "X_AUTH_SUBJECT": "basic:service", "X_AUTH_MECHANISM": "basic", "X_AUTH_PROVIDER": "basic",
		"X_FORWARDED_FOR": "192.0.2.7", "X_FORWARDED_PROTO": "http", "X_FORWARDED_HOST": "gw.example",
	}
	guarded := map[string]bool{}
	for _, name := range slices.Concat(headername.DefaultIdentity, renamed, aboutClients, aboutUsers, ownNames[:3]) {
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
		if admitted := identity.admit(h, false, nil); len(admitted) != len(h)-1 { // X-Request-Id is set anew
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
