package gateway

import (
	"net/url"
	"strings"
	"testing"

	"authgate/gateway/must"
)

// After signing in, nobody is led to an endpoint of the gateway's own that does
// something: a place under its name becomes the start page of its host. The page of
// the account is a place for people.
func TestReturnToOwnEndpoints(t *testing.T) {
	t.Parallel()
	for prefix, config := range map[string]string{"/": fiveHostsConfig, "/auth/": fiveHostsConfig + "endpoints: {prefix: /auth/}\n"} {
		r := newRig(t, config+"providers: [{name: small, issuer: \"https://id.example\", client_id: gateway}]\n")
		for place, want := range map[string]string{
			"logout": "/", "logout?x=y": "/", "logout?": "/", "%6Cogout": "/", "l%6fgou%74?a#b": "", "login?provider=small": "/", "signin": "/", "signin?switch=1": "/",
			"signin/complete?ticket=x": "/", "sign%69n/complete": "/", "callback?state=x": "/", "auth/callback": "/", "me": "/", "refresh": "/",
			"account/tokens": "/", "account/sessions": "/", "verify": "/", "frontchannel-logout/small": "/", "backchannel-logout/small": "/", ".well-known/jwks.json": "/",
			"signin%2Fcomplete": "/", "account%2Ftokens": "/", "./logout": "", "x/../logout": "", "logout/": "=", "Logout": "=", "%256Cogout": "=", "logout;x": "=", "x?logout": "=",
			"account": "=", "account?done=login": "=", "%61ccount": "=",
		} {
			for host, origin := range map[string]string{"": "", "gw.example": "https://gw.example", "wiki.example.org": "https://wiki.example.org"} {
				expected := want
				switch {
				case want == "=":
					expected = prefix + place
				case want == "":
					expected = "/"
				}
				if host == "wiki.example.org" && want != "" {
					expected = origin + expected
				}
				form := "username=alice&password=wonderland&return_to=" + url.QueryEscape(origin+prefix+place)
				w := r.want(303, "POST", prefix+"login", form, formType, browser)
				if got := w.Header().Get("Location"); got != expected {
					t.Errorf("%s%s%s: to %q, want %q", origin, prefix, place, got, expected)
				}
			}
		}
	}
}

// Where the prefix leads, names are the gateway's; elsewhere they are the application's.
func TestReturnToOutsidePrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"endpoints: {prefix: /auth/}\n")
	for place, want := range map[string]string{"/logout": "/logout", "/login?a": "/login?a", "/auth/logout": "/", "/auth/x": "/auth/x", "/auth": "/auth"} {
		w := r.want(303, "POST", "/auth/login", "username=alice&password=wonderland&return_to="+url.QueryEscape(place), formType, browser)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s: to %q, want %q", place, got, want)
		}
	}
}

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
		"X-Requested-With: XMLHttpRequest", "X-Requested-With: xmlhttprequest", "X-Requested-With: XMLHttpRequest, XMLHttpRequest",
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
	several := newRig(t, fiveHostsConfig+"providers: [{name: small, issuer: \"https://id.example\", client_id: gateway}]\n")
	for host, places := range map[string][]string{"gw.example": {"/login", "/login?provider=small"}, "wiki.example.org": {"/login", "/signin", "/x"}} {
		for _, place := range places {
			if w := several.wantAt(host, 401, "GET", place, "", "X-Requested-With: XMLHttpRequest", browser); w.Header()["Location"] != nil || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s%s: %v", host, place, w.Header())
			}
		}
	}
	for _, header := range []string{"X-Requested-With: org.example.app", "X-Requested-With: "} { // Android's web views send their name
		r.want(302, "GET", "/session/x", "", header, browser)
	}
}

// A place of up to 8 KiB survives the way through a provider, and through other hosts.
// A longer one becomes the start page of its host.
func TestLongPlaces(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := p.rig(fiveHostsConfig+"  - {match: docs.example.net/, upstream: app, auth: [oidc]}\n", "")
	paths := map[string]string{"gw.example": "/delegated/", "docs.example.net": "/", "wiki.example.org": "/"}
	for length, kept := range map[int]bool{5000: true, 8 << 10: true, 8<<10 + 1: false} {
		for host, path := range paths {
			for _, filling := range []string{"?x", "?%20&/=", "%20x"} {
				long := path + strings.Repeat(filling, length/len(filling)+1)
				long = long[:length]
				if half := strings.LastIndexByte(long, '%'); half > length-3 { // no half of an escape
					long = long[:half] + strings.Repeat("x", length-half)
				}
				want := "https://" + host + long
				if !kept {
					want = "https://" + host + "/"
				}
				person := r.person()
				person.stop = func(place string) bool { return strings.HasPrefix(place, p.issuer) }
				at, w := person.visit("GET", "https://"+host+long, "")
				person.stop = func(place string) bool { return place == want }
				if host == "wiki.example.org" {
					at, _ = person.post(w, "alice")
				} else {
					response := responseTo(must.Get(url.Parse(at))(t).Query())
					at, _ = person.visit("GET", "https://gw.example/callback?"+response, "")
				}
				if at != want {
					t.Errorf("%s, %d bytes like %q: to %.60q of %d bytes, want %.60q of %d",
						host, length, filling, at, len(at), want, len(want))
				}
			}
		}
	}
}
