package gateway

import (
	"fmt"
	"testing"
)

// sites are what browsers say of where a request comes from. The origin of the
// rig is https://gw.example.
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

// A browser sends cookies by itself, so what a cookie opens is guarded from
// other sites where it changes something or opens a WebSocket. Whoever sends a
// header of their own means it.
func TestSameOriginOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, cookieDelivery)
	cookies := map[string]string{}
	for _, c := range r.do("POST", "/login", aliceIn, jsonType).Result().Cookies() {
		cookies[c.Name] = c.Name + "=" + c.Value
	}
	session, access := "Cookie: "+cookies["session_id"], "Cookie: "+cookies["access_token"]
	bearer := "Authorization: Bearer " + cookies["access_token"][len("access_token")+1:]
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
			{"POST by session, with somebody else's header", "POST", "/session/", []string{session, "Authorization: Bearer x"}, true},
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
			if line := r.log.last(t, "request"); line["decision"] != "forbid" || line["subject"] != "local:alice" || line["reason"] == nil {
				t.Errorf("%s, %s: logged %v", c.name, site.name, line)
			}
		}
	}
}

// Own endpoints that change something are guarded whatever is presented.
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

// The origin that counts is the one of the address that the client used: of
// several hosts each its own, and behind a trusted proxy the one it tells.
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

// A link of another site does not sign anybody out: it leads to a question.
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
