package gateway

import "testing"

// A request that a script makes is answered as one, whatever media types it accepts:
// with 401, and never with a redirect that the script would follow.
func TestScriptIsNotRedirected(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+`
  - {match: /always/, upstream: app, auth: [session], unauthenticated: redirect}
listen: {trusted_proxies: [192.0.2.7]}
`)
	const dead = "Cookie: session_id=00000000-0000-4000-8000-000000000000"
	for _, script := range []string{
		"X-Requested-With: XMLHttpRequest", "X-Requested-With: xmlhttprequest",
		"X-Requested-With: XMLHttpRequest, XMLHttpRequest",
	} {
		for _, accept := range []string{browser, "Accept: text/html, */*; q=0.01", "Accept: */*"} {
			for _, cookie := range []string{"", dead} {
				for _, place := range []string{"/session/x", "/always/x"} {
					w := r.want(401, "GET", place, "", script, accept, cookie)
					if w.Header()["Location"] != nil {
						t.Errorf("%s with %q, %q, %q: %v", place, script, accept, cookie, w.Header())
					}
					w = r.want(401, "GET", "/verify", "", script, accept, cookie,
						"X-Forwarded-Method: GET", "X-Forwarded-Proto: https", "X-Forwarded-Host: gw.example", "X-Forwarded-Uri: "+place)
					if w.Header()["Location"] != nil {
						t.Errorf("verify of %s with %q, %q, %q: %v", place, script, accept, cookie, w.Header())
					}
				}
			}
		}
	}
	several := newRig(t, fiveHostsConfig+"providers: [{name: small, issuer: \"https://id.example\", client_id: "+
		"gateway}]\n")
	for host, places := range map[string][]string{"gw.example": {"/login", "/login?provider=small"},
		"wiki.example.org": {"/login", "/signin", "/x"}} {
		for _, place := range places {
			if w := several.client.WantAt(host, 401, "GET", place, "", "X-Requested-With: XMLHttpRequest",
				browser); w.Header()["Location"] != nil || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s%s: %v", host, place, w.Header())
			}
		}
	}
	for _, header := range []string{"X-Requested-With: org.example.app",
		"X-Requested-With: "} { // Android's web views send their name
		r.want(302, "GET", "/session/x", "", header, browser)
	}
}
