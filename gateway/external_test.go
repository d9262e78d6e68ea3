package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// newExternalRig is a gateway that gateways of the Gateway API ask, if on.
func newExternalRig(t *testing.T, on string) (r *rig, alice signedIn) {
	t.Helper()
	r = newRig(t, namedUpstream(t, edit(t, verifyConfig, "listen:",
		"  - {match: /encoded/, upstream: app, auth: [session], encoded_slashes: keep}\n"+
			"  - {match: open.example.org/, upstream: app, auth: [none]}\n"+
			"endpoints: {prefix: /.authgate/, external_auth: "+on+"}\nlisten:")))
	return r, readLogin(t, r.want(200, "POST", "/.authgate/login", aliceIn, jsonType))
}

// external is a question in the form of ExternalAuth of a trusted proxy, as one of its client.
func external(method, host, target string, header ...string) *http.Request {
	q := request(method, "/.authgate/verify"+target, "", header...)
	q.Host, q.RemoteAddr = host, "10.0.0.1:4711"
	q.Header.Set("X-Forwarded-For", "192.0.2.7")
	q.Header.Set("X-Forwarded-Proto", "https")
	return q
}

// asksExternal sends a question. The answer must have the status, and nothing reaches the
// upstream.
func (r *rig) asksExternal(status int, method, host, target string, header ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	w := r.serve(external(method, host, target, header...))
	if w.Code != status || r.upstream.Reached() != 0 {
		r.t.Errorf("%s %s%s with %.200q: %d %.300s, want %d; %d requests reached the upstream", method, host, target, header,
			w.Code, w.Body, status, r.upstream.Reached())
	}
	return w
}

// A question below verify repeats the request: its method, its host, its path and its query
// decide, and the answer has the identity.
func TestExternalAuth(t *testing.T) {
	t.Parallel()
	r, alice := newExternalRig(t, "true")
	w := r.asksExternal(200, "GET", "gw.example:8443", "/session/x?y=/z", alice.cookie, "X-Auth-User: root")
	wantIdentity(t, w, map[string]string{
		"X-Auth-User": "alice", "X-Auth-Subject": "local:alice", "X-Auth-Mechanism": "session",
	})
	w = r.asksExternal(200, "GET", "gw.example", "/public/", "X-Auth-User: root")
	wantIdentity(t, w, map[string]string{"X-Auth-User": "", "X-Auth-Roles": ""})
	r.asksExternal(200, "PUT", "gw.example", "/bearer/", alice.bearer)
	r.asksExternal(200, "GET", "wiki.example.org", "/", alice.bearer)
	r.asksExternal(401, "GET", "wiki.example.org", "/", alice.cookie) // of another host
	r.asksExternal(421, "GET", "evil.example", "/session/", alice.cookie)
	r.asksExternal(404, "GET", "gw.example", "/nowhere", alice.cookie)
	r.asksExternal(404, "GET", "gw.example", "/", alice.cookie)
	r.asksExternal(200, "GET", "gw.example", "/encoded/a%2fb", alice.cookie)
	w = r.asksExternal(302, "GET", "gw.example", "/session/a?b=c", browser)
	if got := w.Header().Get("Location"); got != "https://gw.example/.authgate/signin?return_to=%2Fsession%2Fa%3Fb%3Dc" {
		t.Errorf("a page leads to %s", got)
	}
	r.asksExternal(403, "POST", "gw.example", "/session/", alice.cookie, "Origin: https://evil.example")
	r.asksExternal(403, "GET", "gw.example", "/session/", alice.cookie, "Origin: https://evil.example",
		"Sec-WebSocket-Version: 13")
	r.asksExternal(400, "GET", "gw.example", "/session/", alice.cookie, "X_Auth_User: root")
	for _, target := range []string{
		"/session/../public/", "/session/%2e%2e/public/", "//session/", "/session//x", "/session%2fx", "/../public/",
		"/..%2fpublic/", `/session\x`, "/session/%zz",
	} {
		r.asksExternal(400, "GET", "gw.example", target, alice.cookie)
	}
	// The other forms are answered as ever.
	q := question("192.0.2.7", append(asTraefik("GET", "gw.example", "/session/"), alice.cookie)...)
	q.RequestURI = "/.authgate/verify"
	r.wantOf(200, q)
}

// A question about an own endpoint is 404: the gateway of the Gateway API must not ask about
// these.
func TestExternalAuthOwnEndpoints(t *testing.T) {
	t.Parallel()
	r, _ := newExternalRig(t, "true")
	for path := range r.state.Load().own.ByPath {
		r.asksExternal(404, "POST", "open.example.org", path)
	}
	r.asksExternal(404, "GET", "open.example.org", "/.authgate/verify")
	r.asksExternal(404, "GET", "open.example.org", "/.authgate/verify/session/")
	r.asksExternal(200, "GET", "open.example.org", "/.authgate/verifies")
}

// Only trusted proxies may ask, about requests over https, in one meaning, and only where the
// configuration says so.
func TestExternalAuthRefused(t *testing.T) {
	t.Parallel()
	r, alice := newExternalRig(t, "true")
	stranger := external("GET", "gw.example", "/public/", alice.cookie)
	stranger.RemoteAddr = "192.0.2.7:4711"
	r.wantOf(403, stranger)
	for proto, status := range map[string]int{"http": 403, "ftp": 400, "": 400, "https, https": 400} {
		q := external("GET", "gw.example", "/session/", alice.cookie)
		q.Header.Set("X-Forwarded-Proto", proto)
		r.wantOf(status, q)
	}
	q := external("GET", "gw.example", "/session/", alice.cookie)
	q.Header.Del("X-Forwarded-Proto")
	r.wantOf(400, q)
	for header, status := range map[string]int{
		"X-Forwarded-Host: gw.example:443": 200, "X-Forwarded-Host: wiki.example.org": 400,
		"X-Forwarded-Uri: /session/": 200, "X-Forwarded-Uri: /.authgate/verify/session/": 400,
		"X-Forwarded-Uri: /public/": 400,
		"X-Forwarded-Method: GET":   200, "X-Forwarded-Method: POST": 400, "X_Forwarded_Proto: https": 400,
		"X-Original-URL: https://gw.example/session/": 400, "X-Original-Method: GET": 400,
	} {
		r.asksExternal(status, "GET", "gw.example", "/session/", alice.cookie, header)
	}
	r.asksExternal(400, "GET", "gw.example, gw.example", "/session/", alice.cookie)
	for _, other := range []string{
		"/.authgate/%76erify/session/", "/.authgate/verifyx/session/", "/.authgate//verify/session/",
	} {
		q := external("GET", "gw.example", "/session/", alice.cookie)
		q.RequestURI = other
		if w := r.serve(q); w.Code == 200 {
			t.Errorf("%s is answered as a question", other)
		}
	}

	off, alice := newExternalRig(t, "false")
	off.asksExternal(404, "GET", "gw.example", "/session/", alice.cookie)
	if x, ok := off.serve(external("GET", "gw.example", "/session/", alice.cookie)).Header()["X-Auth-User"]; ok {
		t.Errorf("without the key, the answer names %q", x)
	}
}
