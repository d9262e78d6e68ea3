package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"authgate/gateway/proxy/web"
	ownrig "authgate/internal/test/rig"
)

// A browser sends cookies on behalf of any site. If a cookie proves the identity,
// another site cannot change anything and cannot open a WebSocket. A credential in a
// header is not sent on behalf of others.
func TestSameOriginOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.CookieDelivery)
	cookies := jarOf(r.want(200, "POST", "/login", aliceIn, jsonType))
	session, access, bearer := cookies.Line("session_id"), cookies.Line("access_token"), "Authorization: "+
		"Bearer "+cookies["access_token"]
	for _, site := range ownrig.Sites {
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
			{"GET", "/session/", append(ownrig.WebSocket, session), true},
			{"POST", "/session/", []string{session, "Authorization: Bearer x"}, true},
			{"GET", "/bearer/", []string{access}, false},
			{"POST", "/bearer/", []string{access}, true},
			{"GET", "/bearer/", append(ownrig.WebSocket, access), true},
			{"POST", "/bearer/", []string{bearer}, false},
			{"GET", "/bearer/", append(ownrig.WebSocket, bearer), false},
			{"POST", "/any/", []string{bearer, session}, false},
			{"POST", "/basic/", []string{basicHeader("service", "s3rvice")}, false},
			{"POST", "/public/", []string{session}, false},
		} {
			headers := append(append([]string{}, c.headers...), site.Headers...)
			if !site.Foreign || !c.guarded {
				r.want(200, c.method, c.target, "", headers...)
				continue
			}
			w := r.want(403, c.method, c.target, "", headers...)
			if got := detailOf(t, w); got != "Another site may not do this on your behalf." {
				t.Errorf("%s %s with %q: detail %q", c.method, c.target, headers, got)
			}
			if line := r.log.Last(t, "request"); line["decision"] != "forbid" || line["subject"] != "local:alice" ||
				line["reason"] == nil {
				t.Errorf("%s %s with %q: logged %v", c.method, c.target, headers, line)
			}
		}
	}
}

// A client that does not tell its site needs the token of its login, in the header or
// in a form. The upstream gets the whole form.
func TestCSRFTokenOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.WithToken)
	var got string
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
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
	token, other := r.client.CSRFToken(alice.cookie), r.client.CSRFToken(bob.cookie)
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
		{"GET", "", ownrig.WebSocket, 403},
		{"GET", "", append(ownrig.WebSocket, "X-CSRF-Token: "+token), 200},
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

// With cross_origin: allow, the application decides.
func TestCrossOriginAllow(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, ownrig.WithToken, "{match: /session/,", "{match: /session/, cross_origin: allow,"))
	alice := r.login(aliceIn)
	for _, site := range ownrig.Sites {
		r.want(200, "POST", "/session/", "", append(site.Headers, alice.cookie)...)
		want := 200
		if site.Foreign || len(site.Headers) == 0 {
			want = 403
		}
		r.want(want, "POST", "/any/", "", append(site.Headers, alice.cookie)...)
	}
}
