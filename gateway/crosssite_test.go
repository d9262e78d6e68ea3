package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"authgate/gateway/web"
)

// sites are what browsers tell about the site that makes a request. The origin of
// the rig is https://gw.example.
var sites = []struct {
	name    string
	headers []string
	foreign bool
}{
	{"no browser", nil, false},
	{"same origin", []string{"Sec-Fetch-Site: same-origin", "Origin: https://gw.example"}, false},
	{"typed in", []string{"Sec-Fetch-Site: none"}, false},
	{"same site", []string{"Sec-Fetch-Site: same-site", "Origin: https://other.gw.example"}, true},
	{"cross site", []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, true},
	{"cross site without origin", []string{"Sec-Fetch-Site: cross-site"}, true},
	{"cross site from nowhere", []string{"Sec-Fetch-Site: cross-site", "Origin: null"}, true},
	{"an unknown site", []string{"Sec-Fetch-Site: neighbour"}, true},
	{"old browser, same origin", []string{"Origin: https://gw.example"}, false},
	{"old browser, another origin", []string{"Origin: https://evil.example"}, true},
	{"old browser, another port", []string{"Origin: https://gw.example:8443"}, true},
	{"old browser, a name that begins alike", []string{"Origin: https://gw.example.evil.example"}, true},
	{"old browser, from nowhere", []string{"Origin: null"}, true},
	{"old browser, garbage", []string{"Origin: ://"}, true},
}

const webSocket = "Connection: keep-alive, Upgrade"

// A browser sends cookies on behalf of any site. If a cookie proves the identity,
// another site cannot change anything and cannot open a WebSocket. A credential in a
// header is not sent on behalf of others.
func TestSameOriginOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, cookieDelivery)
	cookies := cookieLines(r.do("POST", "/login", aliceIn, jsonType))
	session, access := cookies["session_id"], cookies["access_token"]
	bearer := "Authorization: Bearer " + strings.TrimPrefix(access, "Cookie: access_token=")
	basic := basicHeader("service", "s3rvice")
	for _, site := range sites {
		for _, c := range []struct {
			name, method, target string
			headers              []string
			guarded              bool
		}{
			{"GET by session", "GET", "/session/", []string{session}, false},
			{"HEAD by session", "HEAD", "/session/", []string{session}, false},
			{"OPTIONS by session", "OPTIONS", "/session/", []string{session}, false},
			{"POST by session", "POST", "/session/", []string{session}, true},
			{"PUT by session", "PUT", "/session/", []string{session}, true},
			{"DELETE by session", "DELETE", "/session/", []string{session}, true},
			{"an unknown method by session", "BREW", "/session/", []string{session}, true},
			{"WebSocket by session", "GET", "/session/", []string{session, webSocket, "Upgrade: websocket"}, true},
			{"GET that names a protocol, but asks for none", "GET", "/session/", []string{session, "Upgrade: websocket"}, false},
			{"POST by token in a cookie", "POST", "/bearer/", []string{access}, true},
			{"GET by token in a cookie", "GET", "/bearer/", []string{access}, false},
			{"WebSocket by token in a cookie", "GET", "/bearer/", []string{access, webSocket, "Upgrade: websocket"}, true},
			{"POST by token in the header", "POST", "/bearer/", []string{bearer}, false},
			{"POST by token in the header, with cookies", "POST", "/any/", []string{bearer, session}, false},
			{"WebSocket by token in the header", "GET", "/bearer/", []string{bearer, webSocket, "Upgrade: websocket"}, false},
			{"POST by Basic", "POST", "/basic/", []string{basic}, false},
			{"POST to a public route", "POST", "/public/", []string{session}, false},
			{"POST by session, with an Authorization that is not valid", "POST", "/session/", []string{session, "Authorization: Bearer x"}, true},
		} {
			want := 200
			if site.foreign && c.guarded {
				want = 403
			}
			asked := r.upstream.count()
			w := r.do(c.method, c.target, "", append(append([]string{}, c.headers...), site.headers...)...)
			if w.Code != want || (r.upstream.count() > asked) != (want == 200) {
				t.Errorf("%s, %s: %d, want %d; the upstream was asked %d times", c.name, site.name, w.Code, want, r.upstream.count()-asked)
			}
			if want != 403 {
				continue
			}
			if got := problemOf(t, w).Detail; got != "Another site may not do this on your behalf." {
				t.Errorf("%s, %s: detail %q", c.name, site.name, got)
			}
			if line := r.log.Last(t, "request"); line["decision"] != "forbid" || line["subject"] != "local:alice" || line["reason"] == nil {
				t.Errorf("%s, %s: logged %v", c.name, site.name, line)
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
			{"GET", "/me", "", "", 401},
		} {
			want := c.want
			if site.foreign && c.method == "POST" {
				want = 403
			}
			w := r.do(c.method, c.target, c.body, append([]string{c.media}, site.headers...)...)
			if w.Code != want {
				t.Errorf("%s %s, %s: %d, want %d", c.method, c.target, site.name, w.Code, want)
			}
			if want == 403 && w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s %s, %s: a cookie comes with it", c.method, c.target, site.name)
			}
		}
	}
}

// The expected origin is that of the host that the client used. Behind a trusted
// proxy, the proxy tells that host.
func TestSameOriginOfOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"listen: {trusted_proxies: [192.0.2.7]}\ntls: {domains: [app.example]}\n")
	session := r.login(aliceIn).cookie
	for _, c := range []struct {
		host, forwarded, origin string
		want                    int
	}{
		{"gw.example", "", "https://gw.example", 200},
		{"app.example", "", "https://app.example", 200},
		{"app.example", "", "https://gw.example", 200}, // public_url is always trusted
		{"app.example", "", "https://other.example", 403},
		{"10.0.0.9:8080", "app.example", "https://app.example", 200},
		{"10.0.0.9:8080", "app.example", "https://other.example", 403},
		{"10.0.0.9:8080", "app.example", "https://10.0.0.9:8080", 403},
	} {
		q := request("POST", "/session/", "", session, "Origin: "+c.origin)
		q.Host = c.host
		if c.forwarded != "" {
			q.Header.Set("X-Forwarded-Host", c.forwarded)
		}
		if w := r.serve(q); w.Code != c.want {
			t.Errorf("%s: %d, want %d", fmt.Sprint(c), w.Code, c.want)
		}
	}
}

// A link of another site does not sign users out: it leads to a confirmation page.
func TestLogoutByLink(t *testing.T) {
	t.Parallel()
	for site, ends := range map[string]bool{"": true, "same-origin": true, "none": true, "same-site": false, "cross-site": false, "x": false} {
		r := newRig(t, baseConfig)
		s := r.login(aliceIn)
		header := []string{s.cookie}
		if site != "" {
			header = append(header, "Sec-Fetch-Site: "+site)
		}
		w := r.do("GET", "/logout", "", header...)
		switch {
		case ends && (w.Code != 302 || w.Header().Get("Location") != "/"):
			t.Errorf("%q: %d to %q", site, w.Code, w.Header().Get("Location"))
		case !ends && (w.Code != 200 || w.Header()["Set-Cookie"] != nil):
			t.Errorf("%q: %d, cookies %q", site, w.Code, w.Header()["Set-Cookie"])
		}
		r.good(t, s, !ends)
	}
}

// withToken demands a token from clients that do not tell their site.
var withToken = strings.Replace(baseConfig, "store:", "session: {csrf_token: true}\nstore:", 1)

func (r *rig) csrfToken(s signedIn) string {
	r.t.Helper()
	w := r.do("GET", "/csrf-token", "", s.cookie)
	var answer map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || len(answer["csrf_token"]) != 43 {
		r.t.Fatalf("GET /csrf-token: %d %s", w.Code, w.Body)
	}
	return answer["csrf_token"]
}

func TestCSRFTokenOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	token, other := r.csrfToken(alice), r.csrfToken(bob)
	if token == other {
		t.Error("two logins have the same token")
	}
	const form = "a=b&csrf_token="
	for _, c := range []struct {
		name, method, target, body string
		headers                    []string
		want                       int
	}{
		{"nothing", "POST", "/session/", "", nil, 403},
		{"an empty header", "POST", "/session/", "", []string{"X-CSRF-Token: "}, 403},
		{"the header", "POST", "/session/", "", []string{"X-CSRF-Token: " + token}, 200},
		{"the header, PUT", "PUT", "/session/", "", []string{"X-CSRF-Token: " + token}, 200},
		{"the header of another login", "POST", "/session/", "", []string{"X-CSRF-Token: " + other}, 403},
		{"a byte more", "POST", "/session/", "", []string{"X-CSRF-Token: " + token + "A"}, 403},
		{"the field", "POST", "/session/", form + token, []string{formType}, 200},
		{"the field of another login", "POST", "/session/", form + other, []string{formType}, 403},
		{"the field twice", "POST", "/session/", form + token + "&csrf_token=" + token, []string{formType}, 403},
		{"the field, but no form", "POST", "/session/", form + token, []string{"Content-Type: text/plain"}, 403},
		{"the field of a form that is too large", "POST", "/session/", form + token + "&pad=" + strings.Repeat("x", web.MaxBody), []string{formType}, 403},
		{"a WebSocket", "GET", "/session/", "", []string{webSocket, "Upgrade: websocket"}, 403},
		{"a WebSocket with the header", "GET", "/session/", "", []string{webSocket, "Upgrade: websocket", "X-CSRF-Token: " + token}, 200},
		{"GET", "GET", "/session/", "", nil, 200},
		{"a browser", "POST", "/session/", "", []string{"Sec-Fetch-Site: same-origin"}, 200},
		{"an old browser", "POST", "/session/", "", []string{"Origin: https://gw.example"}, 200},
		{"another site that knows the token", "POST", "/session/", "", []string{"Sec-Fetch-Site: cross-site", "X-CSRF-Token: " + token}, 403},
		{"a public route", "POST", "/public/", "", nil, 200},
	} {
		asked := r.upstream.count()
		w := r.do(c.method, c.target, c.body, append(c.headers, alice.cookie)...)
		if reached := r.upstream.count() > asked; w.Code != c.want || reached != (c.want == 200) {
			t.Errorf("%s: %d, want %d; reached the upstream: %v", c.name, w.Code, c.want, reached)
		}
	}
	if w := r.do("POST", "/bearer/", "", alice.bearer); w.Code != 200 {
		t.Errorf("a bearer token is asked for a token: %d", w.Code)
	}
}

// The upstream gets the whole form that has the token.
func TestCSRFTokenLeavesTheForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	alice := r.login(aliceIn)
	body := "a=b&csrf_token=" + r.csrfToken(alice)
	var got string
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		all, err := io.ReadAll(q.Body)
		got = string(all)
		return response(q, 200, http.Header{}, ""), err
	}
	if w := r.do("POST", "/session/", body, formType, alice.cookie); w.Code != 200 || got != body {
		t.Errorf("%d, the upstream got %q", w.Code, got)
	}
}

func TestCSRFTokenAtLogout(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	alice := r.login(aliceIn)
	token := r.csrfToken(alice)
	if w := r.do("POST", "/logout", "", alice.cookie); w.Code != 403 {
		t.Errorf("without a token: %d", w.Code)
	}
	if w := r.do("GET", "/session/", "", alice.cookie); w.Code != 200 {
		t.Fatalf("the session has ended: %d", w.Code)
	}
	page := r.do("GET", "/me", "", browser, alice.cookie).Body.String()
	if !strings.Contains(page, `name="csrf_token" value="`+token+`"`) {
		t.Errorf("the form to sign out has no token:\n%s", page)
	}
	question := r.do("GET", "/logout", "", alice.cookie, "Sec-Fetch-Site: cross-site").Body.String()
	if !strings.Contains(question, `name="csrf_token" value="`+token+`"`) {
		t.Errorf("the question has no token:\n%s", question)
	}
	if w := r.do("POST", "/logout", "csrf_token="+token, formType, alice.cookie); w.Code != 200 {
		t.Errorf("with the token: %d", w.Code)
	}
	if w := r.do("POST", "/logout", "", alice.cookie); w.Code != 200 {
		t.Errorf("a session that has ended: %d", w.Code)
	}
	if w := r.do("POST", "/logout", ""); w.Code != 200 {
		t.Errorf("without credentials: %d", w.Code)
	}
}

// The token belongs to the login: it is the same after restarts, and at all instances with
// the key.
func TestCSRFTokenBelongsToTheLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	alice := r.login(aliceIn)
	token := r.csrfToken(alice)
	if err := r.reload(withToken + "log: {level: info}\n"); err != nil {
		t.Fatal(err)
	}
	if again := r.csrfToken(alice); again != token {
		t.Error("after a reload it is another one")
	}
	if next := r.csrfToken(r.login(aliceIn)); next == token {
		t.Error("a new login has the old token")
	}
	if w := r.do("GET", "/csrf-token", ""); w.Code != 401 {
		t.Errorf("without credentials: %d", w.Code)
	}
	if w := newRig(t, baseConfig).do("GET", "/csrf-token", ""); w.Code != 404 {
		t.Errorf("where it is off: %d", w.Code)
	}
}

// With cross_origin: allow, the application decides.
func TestCrossOriginAllow(t *testing.T) {
	t.Parallel()
	allowing := strings.Replace(withToken, "{match: /session/,", "{match: /session/, cross_origin: allow,", 1)
	r := newRig(t, allowing)
	alice := r.login(aliceIn)
	for _, site := range sites {
		if w := r.do("POST", "/session/", "", append(site.headers, alice.cookie)...); w.Code != 200 {
			t.Errorf("%s: %d", site.name, w.Code)
		}
		want := 200
		if site.foreign || len(site.headers) == 0 {
			want = 403
		}
		if w := r.do("POST", "/any/", "", append(site.headers, alice.cookie)...); w.Code != want {
			t.Errorf("%s, on another route: %d, want %d", site.name, w.Code, want)
		}
	}
}

func TestHSTS(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(baseConfig, "store:", "tls: {hsts: 48h}\nstore:", 1))
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Strict-Transport-Security": {"max-age=1"}}, ""), nil
	}
	for _, target := range []string{"/public/", "/session/", "/nothing", "/signin"} {
		got := r.do("GET", target, "").Header()["Strict-Transport-Security"]
		if len(got) != 1 || got[0] != "max-age=172800" {
			t.Errorf("%s: %q", target, got)
		}
	}
	off := newRig(t, baseConfig)
	off.upstream.answer = r.upstream.answer
	if got := off.do("GET", "/public/", "").Header()["Strict-Transport-Security"]; len(got) != 1 || got[0] != "max-age=1" {
		t.Errorf("off: %q, want what the upstream says", got)
	}
}

// Tokens in cookies need the protection too: another site could make a browser refresh
// or revoke them.
func TestCSRFTokenForTokenCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(cookieDelivery, "store:", "session: {csrf_token: true}\nstore:", 1))
	cookies := cookieLines(r.do("POST", "/login?mechanism=bearer", aliceIn, jsonType))
	access, refresh := cookies["access_token"], cookies["refresh_token"]
	var given map[string]string
	if err := json.Unmarshal(r.do("GET", "/csrf-token", "", access).Body.Bytes(), &given); err != nil {
		t.Fatal(err)
	}
	token := "X-CSRF-Token: " + given["csrf_token"]
	for _, c := range []struct{ target, cookie string }{{"/refresh", refresh}, {"/logout", refresh}, {"/logout", access}, {"/bearer/", access}} {
		if w := r.do("POST", c.target, "", c.cookie); w.Code != http.StatusForbidden {
			t.Errorf("POST %s by %.14s… without a token: %d", c.target, c.cookie[8:], w.Code)
		}
	}
	if w := r.do("POST", "/bearer/", "", access, token); w.Code != http.StatusOK {
		t.Errorf("the login is dead, or its token not good: %d", w.Code)
	}
	if w := r.do("POST", "/refresh", "", refresh, token); w.Code != http.StatusOK {
		t.Errorf("POST /refresh with it: %d %s", w.Code, w.Body)
	}
	if w := r.do("POST", "/logout", "", access, token); w.Code != http.StatusOK {
		t.Errorf("POST /logout with it: %d", w.Code)
	}
	if w := r.do("GET", "/bearer/", "", access); w.Code != http.StatusUnauthorized {
		t.Errorf("after it: %d", w.Code)
	}
}
