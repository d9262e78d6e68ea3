package forward

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/wire/headername"
	"authgate/internal/test/headernametest"
	ownrig "authgate/internal/test/rig"
)

// The upstream gets the path and the query byte for byte, and headers as the route
// says.
func TestRewrite(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base+`
  - {match: /api/, name: stripped, upstream: app, auth: [none], strip_prefix: /api}
  - {match: /headers/, upstream: app, auth: [none], `+
		`headers: {set: {X-Added: a, accept: text/plain}, remove: [X-Unwanted, Authorization]}}
  - {match: /open/, upstream: app, auth: [basic, session], forward_credentials: true}
`)
	for target, want := range map[string]string{
		"/public/?": "/public/?",
		"/public/a%20b;c=d/%C3%A9?x=%zz&&;y=a+b&%2F=": "/public/a%20b;c=d/%C3%A9?x=%zz&&;y=a+b&%2F=",
		"/publi%63/%25": "/publi%63/%25",
		"/api/x?y":      "/x?y",
		"/%61pi/%78":    "/%78",
	} {
		r.Want(200, "GET", target, "")
		u := *r.app.Last().URL
		u.Scheme, u.Host = "http", "app.invalid" // as the balancer does
		if got := u.RequestURI(); got != want {
			t.Errorf("%s: the upstream is asked for %s, want %s", target, got, want)
		}
	}
	r.Want(200, "GET", "/headers/", "", "X-Unwanted: x", "Authorization: Negotiate x", "Accept: text/html",
		"X-Other: y")
	got := r.app.Last().Header
	for name, want := range map[string][]string{
		"X-Added": {"a"}, "Accept": {"text/plain"}, "X-Unwanted": nil, "Authorization": nil, "X-Other": {"y"},
		"X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"gw.example"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if agent, there := got["User-Agent"]; !there || agent != nil {
		t.Errorf("Go's own User-Agent would be sent: %q, %t", agent, there)
	}
	for _, header := range [][]string{{serviceBasic, "Cookie: a=b"}, {aliceSession}} {
		r.Want(200, "GET", "/open/", "", header...)
		sent := ownrig.Request("GET", "/open/", "", header...).Header
		if got := r.app.Last().Header; got.Get("Authorization") != sent.Get("Authorization") ||
			got.Get("Cookie") != sent.Get("Cookie") {
			t.Errorf("forward_credentials: %v, want those of %v", got, sent)
		}
	}
}

// A client can neither make headers of the gateway hop-by-hop nor send trailers.
func TestRewriteHopByHop(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base)
	q := ownrig.Request("POST", "/basic/", "x", serviceBasic,
		"Connection: X-Auth-User, X-Forwarded-For, X-Request-Id, X-Mine", "X-Mine: x",
		"Te: trailers", "Keep-Alive: 5", "Trailer: X-Auth-Roles")
	q.Trailer = http.Header{"X-Auth-Roles": {"admin"}}
	r.WantOf(200, q)
	out := r.app.Last()
	for name, want := range map[string]string{
		"X-Auth-User": "service", "X-Forwarded-For": "192.0.2.7", "X-Mine": "",
		"Keep-Alive": "", "Connection": "", "Trailer": "", "Te": "trailers",
	} {
		if got := out.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if out.Header.Get("X-Request-Id") == "" || out.Trailer != nil {
		t.Errorf("X-Request-Id %q, trailer %v", out.Header.Get("X-Request-Id"), out.Trailer)
	}
}

// Shared caches must not give the response for one user to another.
func TestKeepPrivate(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base)
	for _, c := range []struct {
		target     string
		says, want []string
	}{
		{"/session/", nil, []string{"private"}},
		{"/session/", []string{"public, max-age=60"}, []string{"public, max-age=60"}},
		{"/public/", nil, nil},
	} {
		r.app.Answer = func(q *http.Request) (*http.Response, error) {
			answer := ownrig.Response(q, 200, http.Header{}, "")
			if c.says != nil {
				answer.Header["Cache-Control"] = c.says
			}
			return answer, nil
		}
		if got := r.Do("GET", c.target, "", aliceSession).Header()["Cache-Control"]; !slices.Equal(got, c.want) {
			t.Errorf("%s where the upstream says %q: %q, want %q", c.target, c.says, got, c.want)
		}
	}
}

// A body over max_body is 413, whether or not its length is declared.
func TestMaxBody(t *testing.T) {
	t.Parallel()
	r := newApplication(t, ownrig.Base+"  - {match: /small/, upstream: app, auth: [none], max_body: 100000}\n"+
		"  - {match: /tiny/, upstream: app, auth: [none], max_body: 5}\n", func(w http.ResponseWriter,
		r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, " ", err)
	})
	for size, want := range map[int]int{0: 200, 100_000: 200, 100_001: 413, 5_000_000: 413} {
		for _, length := range []int{size, -1} {
			q := ownrig.Request("POST", "/small/", "")
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, size))), int64(length)
			if w := r.WantOf(want, q); want == 200 && w.Body.String() != fmt.Sprintf("%d <nil>", size) {
				t.Errorf("%d bytes, declared %d: the upstream got %s", size, length, w.Body)
			}
		}
	}
	for range 2 { // the second time, there is a connection for the fast path
		r.Want(200, "POST", "/tiny/", "12345")
		r.Want(413, "POST", "/tiny/", "123456")
	}
	r.Want(200, "POST", "/public/", strings.Repeat("x", 200_000))
}

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

// Credentials that the gateway used are removed. Credentials of the application are
// forwarded byte for byte.
func TestStripCredentials(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.CookieDelivery)
	jar := ownrig.Jar{"session_id": "alice", "access_token": "agt_alice", "refresh_token": "agt_refresh"}
	session, access := "session_id="+jar["session_id"], "access_token="+jar["access_token"]
	refresh := "refresh_token=" + jar["refresh_token"]
	basic := serviceBasic
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
		// As Java sends them.
		{"/public/",
			[]string{`Cookie: $Version="1"; session_id="x";$Path="/";$Domain="gw.example"; theme="dark";$Path="/"`},
			nil, []string{`$Version="1"; theme="dark"; $Path="/"`}},
	} {
		r.Want(200, "GET", c.target, "", c.header...)
		if h := r.app.Last().Header; !slices.Equal(h["Authorization"], c.authorization) ||
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
	r := newStub(t, ownrig.Base+
		"  - {match: /changed/, upstream: app, auth: [none], headers: {set: {X-Api-Key: good}, remove: [X-Webauth-User]}}\n")
	for _, name := range []string{"X-Api-Key", "X-Webauth-User"} {
		for _, spelling := range headernametest.Spellings(name) {
			r.Want(200, "GET", "/changed/", "", spelling+": evil")
			if got := readBy(r.app.Last(), "X-Api-Key", "X-Webauth-User"); len(got) != 1 || got["X_API_KEY"] != "good" {
				t.Errorf("the client sends %s, and the upstream reads %v", spelling, got)
			}
		}
	}
}

// untyped is an application that names the type of a response only if it is asked to, and
// writes what looks like a page.
func untyped(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = nil // else net/http guesses one
	if named, ok := r.URL.Query()["type"]; ok {
		w.Header()["Content-Type"] = named
	}
	io.WriteString(w, "<html>a page, or data of a user")
	if r.URL.Query().Has("long") {
		http.NewResponseController(w).Flush()
		w.Write(make([]byte, 100_000))
	}
}

// A response without Content-Type reaches the client without one: the gateway guesses
// none, over HTTP/1.1 and HTTP/2 and on both ways to the upstream.
func TestNoContentTypeIsInvented(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		yaml := ownrig.Edit(t, ownrig.Base, `{url: "http://app.invalid"}`,
			`{url: "http://app.invalid", fast_path: `+fast+`}`)
		r := newApplication(t, yaml, untyped)
		for _, http2 := range []bool{false, true} {
			front := httptest.NewUnstartedServer(r)
			front.EnableHTTP2 = http2
			front.StartTLS()
			t.Cleanup(front.Close)
			for target, want := range map[string][]string{
				"/public/": nil, "/public/?long": nil, "/public/?type=": {""},
				"/public/?type=text/x&long": {"text/x"}, "/public/?type=text/x": {"text/x"},
			} {
				for _, method := range []string{"GET", "HEAD", "POST",
					"GET"} { // the last one may find an idle connection
					q, err := http.NewRequestWithContext(t.Context(), method, front.URL+target, nil)
					if err != nil {
						t.Fatal(err)
					}
					q.Host = "gw.example"
					answer, err := front.Client().Do(q)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, answer.Body); err != nil {
						t.Fatal(err)
					}
					answer.Body.Close()
					got, ok := answer.Header["Content-Type"]
					if answer.StatusCode != 200 || !slices.Equal(got, want) || ok != (want != nil) ||
						(answer.ProtoMajor == 2) != http2 {
						t.Errorf("fast path %s, %s, %s %s: %d, Content-Type %q, want %q",
							fast, answer.Proto, method, target, answer.StatusCode, got, want)
					}
				}
			}
		}
	}
}

// Pragma says nothing about shared caches, so the response is private all the same, on
// both ways and whatever the length of the header. What the application says itself stays.
func TestPragmaSaysNothing(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		yaml := ownrig.Edit(t, ownrig.Base, `{url: "http://app.invalid"}`,
			`{url: "http://app.invalid", fast_path: `+fast+`}`)
		r := newApplication(t, yaml, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Pragma", "no-cache")
			if own := r.URL.Query().Get("own"); own != "" {
				w.Header().Set("Cache-Control", own)
			}
			w.Header().Set("X-Long", strings.Repeat("x", len(r.URL.Query().Get("long"))))
		})
		for target, want := range map[string]string{
			"/session/": "private", "/session/?long=" + strings.Repeat("x", 3000): "private", "/public/": "",
			"/session/?own=no-cache": "no-cache", "/session/?own=no-cache&long=" + strings.Repeat("x",
				3000): "no-cache",
			"/session/?own=public": "public",
		} {
			for range 2 { // the second one may find an idle connection
				w := r.Do("GET", target, "", aliceSession)
				if got := w.Header().Get("Cache-Control"); w.Code != 200 || got != want ||
					w.Header().Get("Pragma") != "no-cache" {
					t.Errorf("fast path %s, %.40s: %d, Cache-Control %q, want %q", fast, target, w.Code, got, want)
				}
			}
		}
	}
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
	r := newStub(t, ownrig.Base+"identity_headers: {user: X-Login}\n")
	local := map[string]string{
		"X_LOGIN": "alice", "X_AUTH_SUBJECT": "local:alice", "X_AUTH_NAME": "Alice Example",
		"X_AUTH_EMAIL": "alice@example.org", "X_AUTH_ROLES": "user,admin", "X_AUTH_PROVIDER": "local",
	}
	for _, c := range []struct {
		mechanism, header string
		identity          map[string]string
	}{
		{"public", aliceToken, nil},
		{"basic", serviceBasic,
			map[string]string{"X_LOGIN": "service", "X_AUTH_SUBJECT": "basic:service", "X_AUTH_PROVIDER": "basic"}},
		{"session", aliceSession, local},
		{"bearer", aliceToken, local},
	} {
		r.Want(200, "GET", "/"+c.mechanism+"/", "", append(spoofs, c.header)...)
		want := map[string]string{
			"X_FORWARDED_FOR": "192.0.2.7", "X_FORWARDED_PROTO": "http", "X_FORWARDED_HOST": "gw.example",
		}
		maps.Copy(want, c.identity)
		if c.identity != nil {
			want["X_AUTH_MECHANISM"] = c.mechanism
		}
		if got := readBy(r.app.Last(), guarded...); !maps.Equal(got, want) {
			t.Errorf("%s: the upstream reads %v, want %v", c.mechanism, got, want)
		}
	}
}

// No header of a client makes the upstream use another method than the one that was
// decided on, or sends the requests of a CGI application through another proxy.
func TestMethodOverride(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base)
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy"} {
		for _, spelling := range headernametest.Spellings(name) {
			r.Want(200, "POST", "/public/", "", spelling+": DELETE")
			for got, values := range r.app.Last().Header {
				if slices.Contains(values, "DELETE") {
					t.Errorf("with %s the upstream gets %s: %q", spelling, got, values)
				}
			}
		}
	}
}

// On a route that lets the header pass, a proxy may have removed a prefix before.
func TestForwardedPrefixOfProxy(t *testing.T) {
	t.Parallel()
	behind := ownrig.Edit(t, ownrig.Base, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")
	stripped := ownrig.Edit(t, behind, "auth: [none]", "auth: [none], strip_prefix: /public")
	for yaml, wants := range map[string]map[string]string{
		stripped: {"/outer": "/public", "/": "/public"},
		ownrig.Edit(t, stripped, "strip_prefix: /public",
			"strip_prefix: /public, headers: {pass: [X-Forwarded-Prefix]}"): {
			"/outer": "/outer/public", "/outer/": "/outer/public", "outer": "/public", "/": "/public",
		},
	} {
		r := newStub(t, yaml)
		for sent, want := range wants {
			r.Want(200, "GET", "/public/x", "", "X-Forwarded-Prefix: "+sent)
			if got := r.app.Last().Header["X-Forwarded-Prefix"]; !slices.Equal(got, []string{want}) {
				t.Errorf("%q becomes %q, want %q", sent, got, want)
			}
		}
	}
}

// From a trusted proxy, too, the upstream gets of the headers about the client and its
// request those alone that the gateway read itself, and others if the route says so.
func TestForwardingHeadersOfProxy(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Edit(t, ownrig.Base, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")+`
  - {match: /passing/, upstream: app, auth: [none], headers: {pass: [X-Real-IP, X-Forwarded-Prefix]}}
`)
	sent := []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: gw.example"}
	for _, name := range headernametest.AboutClients {
		sent = append(sent, name+": evil")
	}
	guarded := slices.Concat(headernametest.AboutClients,
		[]string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"})
	for target, more := range map[string]map[string]string{
		"/public/": nil, "/passing/": {"X_REAL_IP": "evil", "X_FORWARDED_PREFIX": "evil"},
	} {
		want := map[string]string{
			"X_FORWARDED_FOR": "203.0.113.9, 192.0.2.7", "X_FORWARDED_PROTO": "https", "X_FORWARDED_HOST": "gw.example",
		}
		maps.Copy(want, more)
		r.Want(200, "GET", target, "", sent...)
		if got := readBy(r.app.Last(), guarded...); !maps.Equal(got, want) {
			t.Errorf("%s: the upstream reads %v, want %v", target, got, want)
		}
	}
}

// Only a trusted proxy says which certificate its client has. The header reaches an application if
// the route lets it pass, and in no other spelling.
func TestCertificateHeaders(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base+"  - {match: /passes/, upstream: app, auth: [none], "+
		"headers: {pass: [Client-Cert, Client-Cert-Chain]}}\nlisten: {trusted_proxies: [10.0.0.1]}\n")
	for _, c := range []struct {
		target, address string
		want            int
	}{
		{"/passes/", "10.0.0.1:1", 2}, {"/passes/", "192.0.2.7:1", 0}, {"/public/", "10.0.0.1:1", 0},
	} {
		q := ownrig.Request("GET", c.target, "", "Client-Cert: :x:", "Client-Cert-Chain: :y:", "Client_Cert: :z:")
		q.RemoteAddr = c.address
		r.WantOf(200, q)
		got := 0
		for name := range r.app.Last().Header {
			if strings.HasPrefix(strings.ToLower(name), "client") {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s from %s: the application gets %v", c.target, c.address, r.app.Last().Header)
		}
	}
}
