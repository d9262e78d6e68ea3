package signin_test

import (
	"net/url"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// After a sign-in, the browser is redirected to return_to if that is a path, or a URL
// of one of the gateway's hosts, and otherwise to "/". The link to the sign-in page and
// its form keep what is accepted.
func TestReturnTo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.HostsConfig, "https://gw.example", "https://gw.example:8443"))
	kept := map[string]string{ // as what
		"/": "/", "/a/b%20c?d=e&f=%2F": "/a/b%20c?d=e&f=%2F", "/é": "/é",
		"https://gw.example:8443": "/", "https://gw.example:8443/a?b": "/a?b", "https://GW.example:8443/": "/",
	}
	for _, place := range []string{"https://wiki.example.org:8443/a/b%20c?d=%2F&e", "https://files.example:8443/",
		"https://x.apps.example:8443/", "https://[2001:db8::1]:8443/a"} {
		kept[place] = place
	}
	kept["https://WIKI.example.org:8443"] = "https://wiki.example.org:8443/"
	for _, dropped := range []string{
		"", "//evil.example", `/\evil.example`, "/a#b", "https://evil.example:8443/", "https://wiki.example.org/",
		"https://wiki.example.org:443/", "https://wiki.example.org:84430/",
		"https://wiki.example.org:8443:8443/", "http://wiki.example.org:8443/", "//wiki.example.org:8443/",
		"HTTPS:wiki.example.org:8443/", "https:/wiki.example.org:8443/", "https:///wiki.example.org:8443/",
		"https://wiki.example.org:8443.evil.example/", "https://wiki.example.org:8443@evil.example/",
		"https://user@wiki.example.org:8443/", "https://wiki.example.org.:8443/",
		`https://wiki.example.org:8443\@evil.example/`, `https:\\wiki.example.org:8443/`,
		"https://evil.example/https://wiki.example.org:8443/", "https://evil.example?wiki.example.org:8443/",
		"https://evil.example#wiki.example.org:8443/", "https://wiki.example.org:8443?a", "https://wiki.example.org:8443#a",
		"https://wiki.example.org:8443//evil.example", "https://wiki.example.org:8443/..//evil.example",
		"https://wiki.example.org:8443/\nx", " https://wiki.example.org:8443/", "https://a.b.apps.example:8443/",
		"https://apps.example:8443/", "https://*.apps.example:8443/", "javascript:alert(1)",
		"https://localhost:8443/", "https://127.0.0.1:8443/", "https://[::1]:8443/", // where another program may listen
	} {
		kept[dropped] = ""
	}
	for target, kept := range kept {
		want, query := kept, ""
		if kept == "" {
			want = "/"
		} else {
			query = "?return_to=" + url.QueryEscape(kept)
		}
		escaped := url.QueryEscape(target)
		if got := r.Want(303, "POST", "/login", rig.AliceForm+"&return_to="+escaped, rig.Form,
			rig.Browser).Header().Get("Location"); got != want {
			t.Errorf("%q: after the login to %q, want %q", target, got, want)
		}
		if got := r.Want(302, "GET", "/login?return_to="+escaped, "").Header().Get("Location"); got != "/signin"+query {
			t.Errorf("%q: GET /login leads to %q, want %q", target, got, "/signin"+query)
		}
		if page := r.Want(200, "GET", "/signin?return_to="+escaped, "", rig.Browser).Body.String(); strings.Contains(page,
			`name="return_to"`) != (kept != "") {
			t.Errorf("%q: the form keeps it: %t", target, kept == "")
		}
	}
	if got := r.Want(302, "GET", "/login?return_to=/a&return_to=/b", "").Header().Get("Location"); got != "/signin" {
		t.Errorf("one of two targets is used: %q", got)
	}
	// The default port may be there or not, as browsers read both as the same.
	r = rig.New(t, rig.HostsConfig)
	for target, want := range map[string]string{
		"https://wiki.example.org/a":     "https://wiki.example.org/a",
		"https://wiki.example.org:443/a": "https://wiki.example.org/a",
		"https://wiki.example.org:/a":    "/", "https://wiki.example.org:8443/a": "/", "https://wiki.example.org:0443/a": "/",
	} {
		if got := r.Want(303, "POST", "/login", rig.AliceForm+"&return_to="+url.QueryEscape(target), rig.Form,
			rig.Browser).Header().Get("Location"); got != want {
			t.Errorf("%q: after the login to %q, want %q", target, got, want)
		}
	}
}

// After signing in, no user is led to an endpoint of the gateway's own that does
// something: a place under its name becomes the start page of its host. The page of
// the account is a place for people.
func TestReturnToOwnEndpoints(t *testing.T) {
	t.Parallel()
	for prefix, config := range map[string]string{"/": rig.FiveHostsConfig,
		"/auth/": rig.FiveHostsConfig + "endpoints: {prefix: /auth/}\n"} {
		r := rig.New(t, config+"providers: [{name: small, issuer: \"https://id.example\", client_id: gateway}]\n")
		for place, want := range map[string]string{
			"logout": "/", "logout?x=y": "/", "logout?": "/", "%6Cogout": "/", "l%6fgou%74?a#b": "",
			"login?provider=small": "/", "signin": "/", "signin?switch=1": "/",
			"signin/complete?ticket=x": "/", "sign%69n/complete": "/", "callback?state=x": "/", "auth/callback": "/", "me": "/",
			"refresh":        "/",
			"account/tokens": "/", "account/sessions": "/", "verify": "/", "frontchannel-logout/small": "/",
			"backchannel-logout/small": "/", ".well-known/jwks.json": "/",
			"signin%2Fcomplete": "/", "account%2Ftokens": "/", "./logout": "", "x/../logout": "", "logout/": "=", "Logout": "=",
			"%256Cogout": "=", "logout;x": "=", "x?logout": "=",
			"account": "=", "account?done=login": "=", "%61ccount": "=",
		} {
			for host, origin := range map[string]string{"": "", "gw.example": "https://gw.example",
				"wiki.example.org": "https://wiki.example.org"} {
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
				w := r.Want(303, "POST", prefix+"login", form, rig.Form, rig.Browser)
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
	r := rig.New(t, rig.Base+"endpoints: {prefix: /auth/}\n")
	for place, want := range map[string]string{"/logout": "/logout", "/login?a": "/login?a", "/auth/logout": "/",
		"/auth/x": "/auth/x", "/auth": "/auth"} {
		w := r.Want(303, "POST", "/auth/login",
			"username=alice&password=wonderland&return_to="+url.QueryEscape(place), rig.Form, rig.Browser)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s: to %q, want %q", place, got, want)
		}
	}
}

// A place of up to 8 KiB survives the way through a provider, and through other hosts.
// A longer one becomes the start page of its host.
func TestLongPlaces(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	r := p.Rig(rig.FiveHostsConfig+"  - {match: docs.example.net/, upstream: app, auth: [oidc]}\n", "")
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
				person := r.Person()
				person.Stop = func(place string) bool { return strings.HasPrefix(place, p.Issuer) }
				at, w := person.Visit("GET", "https://"+host+long, "")
				person.Stop = func(place string) bool { return place == want }
				if host == "wiki.example.org" {
					at, _ = person.Post(w, "alice")
				} else {
					response := rig.ResponseTo(must.Get(url.Parse(at))(t).Query())
					at, _ = person.Visit("GET", "https://gw.example/callback?"+response, "")
				}
				if at != want {
					t.Errorf("%s, %d bytes like %q: to %.60q of %d bytes, want %.60q of %d",
						host, length, filling, at, len(at), want, len(want))
				}
			}
		}
	}
}
