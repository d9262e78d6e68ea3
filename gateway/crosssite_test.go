package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"authgate/gateway/web"
)

// sites are what browsers tell about the site that makes a request. The origin of
// the rig is https://gw.example.
var sites = []struct {
	headers []string
	foreign bool
}{
	{nil, false}, // no browser
	{[]string{"Sec-Fetch-Site: same-origin", "Origin: https://gw.example"}, false},
	{[]string{"Sec-Fetch-Site: none"}, false}, // typed in
	{[]string{"Sec-Fetch-Site: same-site", "Origin: https://other.gw.example"}, true},
	{[]string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, true},
	{[]string{"Sec-Fetch-Site: cross-site"}, true},
	{[]string{"Sec-Fetch-Site: neighbour"}, true},
	{[]string{"Origin: https://gw.example"}, false}, // an old browser
	{[]string{"Origin: http://gw.example"}, true},
	{[]string{"Origin: https://gw.example:8443"}, true},
	{[]string{"Origin: https://gw.example.evil.example"}, true},
	{[]string{"Origin: null"}, true},
	{[]string{"Origin: ://"}, true},
}

// webSocket are the header lines that ask for a WebSocket.
var webSocket = []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket"}

// A browser sends cookies on behalf of any site. If a cookie proves the identity,
// another site cannot change anything and cannot open a WebSocket. A credential in a
// header is not sent on behalf of others.
func TestSameOriginOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, cookieDelivery)
	cookies := jarOf(r.want(200, "POST", "/login", aliceIn, jsonType))
	session, access, bearer := cookies.line("session_id"), cookies.line("access_token"), "Authorization: Bearer "+cookies["access_token"]
	for _, site := range sites {
		for _, c := range []struct {
			method, target string
			headers        []string
			guarded        bool
		}{
			{"GET", "/session/", []string{session}, false},
			{"HEAD", "/session/", []string{session}, false},
			{"OPTIONS", "/session/", []string{session}, false},
			{"GET", "/session/", []string{session, "Upgrade: websocket"}, false}, // asks for no upgrade
			{"POST", "/session/", []string{session}, true},
			{"BREW", "/session/", []string{session}, true},
			{"GET", "/session/", append(webSocket, session), true},
			{"POST", "/session/", []string{session, "Authorization: Bearer x"}, true},
			{"GET", "/bearer/", []string{access}, false},
			{"POST", "/bearer/", []string{access}, true},
			{"GET", "/bearer/", append(webSocket, access), true},
			{"POST", "/bearer/", []string{bearer}, false},
			{"GET", "/bearer/", append(webSocket, bearer), false},
			{"POST", "/any/", []string{bearer, session}, false},
			{"POST", "/basic/", []string{basicHeader("service", "s3rvice")}, false},
			{"POST", "/public/", []string{session}, false},
		} {
			headers := append(append([]string{}, c.headers...), site.headers...)
			if !site.foreign || !c.guarded {
				r.want(200, c.method, c.target, "", headers...)
				continue
			}
			w := r.want(403, c.method, c.target, "", headers...)
			if got := detailOf(t, w); got != "Another site may not do this on your behalf." {
				t.Errorf("%s %s with %q: detail %q", c.method, c.target, headers, got)
			}
			if line := r.log.Last(t, "request"); line["decision"] != "forbid" || line["subject"] != "local:alice" || line["reason"] == nil {
				t.Errorf("%s %s with %q: logged %v", c.method, c.target, headers, line)
			}
		}
	}
}

// Own endpoints that change something are protected whatever the credentials are.
func TestSameOriginOnOwnEndpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, site := range sites {
		for _, c := range []struct {
			method, target, body, media string
			want                        int
		}{
			{"POST", "/login", aliceIn, jsonType, 200},
			{"POST", "/login", "username=alice&password=wonderland", formType, 200},
			{"POST", "/logout", "", "", 200},
			{"POST", "/refresh", refreshBody("x"), jsonType, 401},
			{"GET", "/signin", "", "", 200},
			{"GET", "/login", "", "", 302},
		} {
			if site.foreign && c.method == "POST" {
				c.want = 403
			}
			if w := r.want(c.want, c.method, c.target, c.body, append(site.headers, c.media)...); c.want == 403 && w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s %s, %q: a cookie comes with it", c.method, c.target, site.headers)
			}
		}
	}
}

// The expected origin is that of the host that the client used, and no other: another
// host of the gateway is another site, that of public_url too. Behind a trusted proxy,
// the proxy tells the host.
func TestSameOriginOfOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "https://gw.example", "https://gw.example:8443")+"listen: {trusted_proxies: [192.0.2.7]}\ntls: {domains: [app.example]}\n")
	sessions := map[string]string{}
	for _, host := range []string{"gw.example", "app.example"} {
		sessions[host] = readLogin(t, r.wantAt(host, 200, "POST", "/login", aliceIn, jsonType)).cookie
	}
	post := func(host string, want int, header ...string) {
		t.Helper()
		session := sessions["app.example"]
		if strings.HasPrefix(host, "gw.") {
			session = sessions["gw.example"]
		}
		r.wantAt(host, want, "POST", "/session/", "", append(header, session)...)
		r.wantAt(host, want, "GET", "/session/", "", append(append(header, session), webSocket...)...)
	}
	post("app.example:8443", 200, "Origin: https://app.example:8443")
	post("app.example:8443", 403, "Origin: https://gw.example:8443")
	post("app.example:8443", 403, "Origin: https://gw.example:8443", "Sec-Fetch-Site: same-site")
	post("app.example:8443", 403, "Origin: https://other.example:8443")
	post("gw.example:8443", 200, "Origin: https://gw.example:8443")
	post("gw.example", 200, "Origin: https://gw.example:8443") // a proxy has left the port out
	post("gw.example:8443", 403, "Origin: https://app.example:8443")
	post("gw.example:8443", 403, "Origin: https://app.example:8443", "Sec-Fetch-Site: same-site")
	post("10.0.0.9:8080", 200, "Origin: https://app.example", "X-Forwarded-Host: app.example")
	post("10.0.0.9:8080", 403, "Origin: https://gw.example:8443", "X-Forwarded-Host: app.example")
	post("10.0.0.9:8080", 403, "Origin: https://other.example", "X-Forwarded-Host: app.example")
	post("10.0.0.9:8080", 403, "Origin: https://10.0.0.9:8080", "X-Forwarded-Host: app.example")
	for _, target := range []string{"/logout", "/login"} {
		r.wantAt("app.example", 403, "POST", target, "", "Origin: https://gw.example:8443")
		r.wantAt("gw.example", 403, "POST", target, "", "Origin: https://app.example")
	}
}

// A link of another site does not sign users out: it leads to a confirmation page.
func TestLogoutByLink(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for site, ends := range map[string]bool{"": true, "same-origin": true, "none": true, "same-site": false, "cross-site": false, "x": false} {
		s := r.login(aliceIn)
		header := []string{s.cookie}
		if site != "" {
			header = append(header, "Sec-Fetch-Site: "+site)
		}
		w := r.do("GET", "/logout", "", header...)
		if ends && (w.Code != 302 || w.Header().Get("Location") != "/") || !ends && (w.Code != 200 || w.Header()["Set-Cookie"] != nil) {
			t.Errorf("%q: %d to %q, cookies %q", site, w.Code, w.Header().Get("Location"), w.Header()["Set-Cookie"])
		}
		r.good(s, !ends)
	}
}

// GET /logout signs out a person who goes there, and nobody else: not what a browser
// loads ahead of a click, nor what a script or a part of a page asks for.
func TestLogoutByNavigation(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const navigates = "Sec-Fetch-Mode: navigate"
	for _, c := range []struct {
		method string
		header []string
	}{
		{"GET", []string{"Sec-Fetch-Site: same-origin", navigates, "Sec-Purpose: prefetch;prerender"}},
		{"GET", []string{"Sec-Fetch-Site: none", navigates, "Sec-Purpose: prefetch"}},
		{"GET", []string{"Sec-Fetch-Site: cross-site", navigates, "Sec-Purpose: prefetch;anonymous-client-ip"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", navigates, "Sec-Purpose: "}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: "}},
		{"GET", []string{navigates, "Purpose: prefetch"}},
		{"GET", []string{"Purpose: Prefetch"}},
		{"GET", []string{"Purpose: preview"}},
		{"GET", []string{"X-Purpose: preview"}},
		{"GET", []string{"X-Moz: prefetch"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: same-origin"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
		{"GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
		{"GET", []string{"Sec-Fetch-Mode: websocket"}},
		{"GET", []string{"X-Requested-With: XMLHttpRequest"}},
		{"GET", []string{"User-Agent: Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X)", "Accept: image/png,image/*;q=0.8"}},
		{"HEAD", nil},
		{"HEAD", []string{"Sec-Fetch-Site: same-origin", navigates}},
		{"HEAD", []string{"Sec-Fetch-Site: cross-site"}},
	} {
		s := r.login(aliceIn)
		w := r.want(403, c.method, "/logout", "", append(c.header, s.cookie)...)
		if w.Header()["Set-Cookie"] != nil || w.Header()["Location"] != nil {
			t.Errorf("%s with %q: %v", c.method, c.header, w.Header())
		}
		r.good(s, true)
	}
	for _, header := range [][]string{{navigates, browser, "Sec-Fetch-Site: same-origin"}, {navigates, browser, "Purpose: "}, {browser}, {}} {
		s := r.login(aliceIn)
		if w := r.want(302, "GET", "/logout", "", append(header, s.cookie)...); w.Header().Get("Location") != "/" {
			t.Errorf("%q: to %q", header, w.Header().Get("Location"))
		}
		r.good(s, false)
	}
}

// withToken demands a token from clients that do not tell their site.
var withToken = strings.Replace(baseConfig, "store:", "session: {csrf_token: true}\nstore:", 1)

func (r *rig) csrfToken(cookie string) string {
	r.t.Helper()
	w := r.want(200, "GET", "/csrf-token", "", cookie)
	var answer map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer["csrf_token"]) != 43 {
		r.t.Fatalf("GET /csrf-token: %s", w.Body)
	}
	return answer["csrf_token"]
}

// A client that does not tell its site needs the token of its login, in the header or
// in a form. The upstream gets the whole form.
func TestCSRFTokenOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	var got string
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		got = ""
		if q.Body != nil {
			all, err := io.ReadAll(q.Body)
			if got = string(all); err != nil {
				return nil, err
			}
		}
		return response(q, 200, http.Header{}, ""), nil
	}
	alice, bob := r.login(aliceIn), r.login(bobIn)
	token, other := r.csrfToken(alice.cookie), r.csrfToken(bob.cookie)
	const form = "a=b&csrf_token="
	for _, c := range []struct {
		method, body string
		headers      []string
		want         int
	}{
		{"GET", "", nil, 200},
		{"POST", "", nil, 403},
		{"POST", "", []string{"X-CSRF-Token: "}, 403},
		{"POST", "", []string{"X-CSRF-Token: " + token}, 200},
		{"PUT", "", []string{"X-CSRF-Token: " + token}, 200},
		{"POST", "", []string{"X-CSRF-Token: " + other}, 403},
		{"POST", "", []string{"X-CSRF-Token: " + token + "A"}, 403},
		{"POST", form + token, []string{formType}, 200},
		{"POST", form + other, []string{formType}, 403},
		{"POST", form + token + "&csrf_token=" + token, []string{formType}, 403},
		{"POST", form + token, []string{"Content-Type: text/plain"}, 403},
		{"POST", form + token + "&pad=" + strings.Repeat("x", web.MaxBody), []string{formType}, 403},
		{"GET", "", webSocket, 403},
		{"GET", "", append(webSocket, "X-CSRF-Token: "+token), 200},
		{"POST", "", []string{"Sec-Fetch-Site: same-origin"}, 200},
		{"POST", "", []string{"Origin: https://gw.example"}, 200},
		{"POST", "", []string{"Sec-Fetch-Site: cross-site", "X-CSRF-Token: " + token}, 403},
	} {
		if r.want(c.want, c.method, "/session/", c.body, append(c.headers, alice.cookie)...); c.want == 200 && got != c.body {
			t.Errorf("the upstream gets %q, want %q", got, c.body)
		}
	}
	r.want(200, "POST", "/public/", "", alice.cookie)
	r.want(200, "POST", "/bearer/", "", alice.bearer)
}

// A logout by a cookie needs the token, which the pages that lead to it have. A logout
// that ends nothing needs none. The token belongs to the login: it is the same after a
// restart, and at all instances with the key.
func TestCSRFTokenAtLogout(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	alice := r.login(aliceIn)
	token := r.csrfToken(alice.cookie)
	if r.mustReload(withToken); r.csrfToken(alice.cookie) != token || r.csrfToken(r.login(aliceIn).cookie) == token {
		t.Error("another state has another token, or a new login has the old one")
	}
	r.want(401, "GET", "/csrf-token", "")
	newRig(t, baseConfig).want(404, "GET", "/csrf-token", "")
	r.want(403, "POST", "/logout", "", alice.cookie)
	r.want(200, "GET", "/session/", "", alice.cookie)
	for target, header := range map[string]string{"/me": browser, "/logout": "Sec-Fetch-Site: cross-site"} {
		if page := r.want(200, "GET", target, "", alice.cookie, header).Body.String(); !strings.Contains(page, `name="csrf_token" value="`+token+`"`) {
			t.Errorf("the form of %s has no token:\n%s", target, page)
		}
	}
	r.want(200, "POST", "/logout", "csrf_token="+token, formType, alice.cookie)
	r.want(200, "POST", "/logout", "", alice.cookie)
	r.want(200, "POST", "/logout", "")
}

// Tokens in cookies need the protection too: another site could make a browser refresh
// or revoke them.
func TestCSRFTokenForTokenCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, cookieDelivery, "store:", "session: {csrf_token: true}\nstore:"))
	cookies := jarOf(r.do("POST", "/login?mechanism=bearer", aliceIn, jsonType))
	access, refresh := cookies.line("access_token"), cookies.line("refresh_token")
	token := "X-CSRF-Token: " + r.csrfToken(access)
	for _, c := range []struct{ target, cookie string }{{"/refresh", refresh}, {"/logout", refresh}, {"/logout", access}, {"/bearer/", access}} {
		r.want(403, "POST", c.target, "", c.cookie)
	}
	r.want(200, "POST", "/bearer/", "", access, token)
	r.want(200, "POST", "/refresh", "", refresh, token)
	r.want(200, "POST", "/logout", "", access, token)
	r.want(401, "GET", "/bearer/", "", access)
}

// With cross_origin: allow, the application decides.
func TestCrossOriginAllow(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, withToken, "{match: /session/,", "{match: /session/, cross_origin: allow,"))
	alice := r.login(aliceIn)
	for _, site := range sites {
		r.want(200, "POST", "/session/", "", append(site.headers, alice.cookie)...)
		want := 200
		if site.foreign || len(site.headers) == 0 {
			want = 403
		}
		r.want(want, "POST", "/any/", "", append(site.headers, alice.cookie)...)
	}
}

// tls.hsts replaces what the upstream says (RFC 6797, section 8.1).
func TestHSTS(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "tls: {hsts: 48h}\nstore:"))
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Strict-Transport-Security": {"max-age=1"}}, ""), nil
	}
	for target, status := range map[string]int{"/public/": 200, "/session/": 401, "/nothing": 404, "/signin": 200} {
		if got := r.want(status, "GET", target, "").Header()["Strict-Transport-Security"]; len(got) != 1 || got[0] != "max-age=172800" {
			t.Errorf("%s: %q", target, got)
		}
	}
	off := newRig(t, baseConfig)
	off.upstream.answer = r.upstream.answer
	if got := off.want(200, "GET", "/public/", "").Header().Get("Strict-Transport-Security"); got != "max-age=1" {
		t.Errorf("off: %q, want what the upstream says", got)
	}
}

// With listen.http3, every response leads to HTTP/3, whatever the upstream says of its
// own ports (RFC 7838).
func TestAltSvc(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {https: ':8443', http3: ':444'}\nstore:"))
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Alt-Svc": {`h3=":1"`}}, ""), nil
	}
	for target, status := range map[string]int{"/public/": 200, "/session/": 401, "/nothing": 404, "/signin": 200} {
		if got := r.want(status, "GET", target, "").Header()["Alt-Svc"]; len(got) != 1 || got[0] != `h3=":444"; ma=86400` {
			t.Errorf("%s: %q", target, got)
		}
	}
	off := newRig(t, baseConfig)
	off.upstream.answer = r.upstream.answer
	if got := off.want(200, "GET", "/public/", "").Header().Get("Alt-Svc"); got != `h3=":1"` {
		t.Errorf("off: %q, want what the upstream says", got)
	}
}
