package gateway

import (
	"net/url"
	"strings"
	"testing"
)

// A third party, such as the portal of a provider, begins a sign-in with the issuer, and
// says where it leads and who is expected.
func TestThirdPartyInitiatedLogin(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	r := newRig(t, fiveHostsConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\nproviders:\n"+
		"  - {name: one, issuer: \""+one.issuer+"\", client_id: gateway}\n"+
		"  - {name: two, issuer: \""+two.issuer+"\", client_id: gateway}\n"+
		"  - {name: two-again, issuer: \""+two.issuer+"\", client_id: other}\n")
	one.now, two.now = r.clock.Now, r.clock.Now
	iss, escaped := "iss="+url.QueryEscape(one.issuer), url.QueryEscape("https://gw.example/delegated/x?y=%2F")
	for query, want := range map[string]struct{ place, hint string }{
		iss: {"/", ""},
		iss + "&login_hint=carol%40one.example&target_link_uri=" + escaped: {"/delegated/x?y=%2F", "carol@one.example"},
		iss + "&target_link_uri=/delegated/":                               {"/delegated/", ""},
		iss + "&target_link_uri=https://wiki.example.org/x":                {"https://wiki.example.org/x", ""},
		iss + "&target_link_uri=https://evil.example/x":                    {"/", ""},
		iss + "&target_link_uri=//evil.example/x":                          {"/", ""},
		iss + "&target_link_uri=https://gw.example/logout":                 {"/", ""},
		iss + "&target_link_uri=/delegated/a&return_to=/delegated/b":       {"/delegated/a", ""},
		iss + "&return_to=/delegated/b":                                    {"/delegated/b", ""},
		iss + "&provider=one":                                              {"/", ""},
		"provider=one&login_hint=carol":                                    {"/", "carol"},
		"provider=one&target_link_uri=/delegated/a":                        {"/", ""}, // no third party: there is no issuer
		iss + "&login_hint=a%0Ab":                                          {"/", ""},
		iss + "&login_hint=%FF":                                            {"/", ""},
		iss + "&login_hint=" + strings.Repeat("x", 2<<10):                  {"/", strings.Repeat("x", 2<<10)},
		iss + "&login_hint=" + strings.Repeat("x", 2<<10+1):                {"/", ""},
	} {
		w := r.want(302, "GET", "/login?"+query, "", "Sec-Fetch-Site: cross-site", browser)
		to, sent := w.Header().Get("Location"), queryOf(t, w)
		if !strings.HasPrefix(to, one.issuer+"/authorize?") || sent.Get("login_hint") != want.hint {
			t.Errorf("%.200s: to %.300s", query, to)
			continue
		}
		w = r.want(302, "GET", "/callback/one?"+responseTo(sent), "", jarOf(w).line(), browser)
		if got := w.Header().Get("Location"); got != want.place {
			t.Errorf("%.200s: in the end to %q, want %q", query, got, want.place)
		}
	}
	for _, query := range []string{
		"iss=https://evil.example", "iss=", "iss=" + url.QueryEscape(one.issuer+"/"), "iss=https%3A%2F%2Fgw.example",
		iss + "&" + iss, iss + "&iss=https://evil.example", iss + "&provider=two", iss + "&provider=three",
		iss + "&login_hint=a&login_hint=b", iss + "&target_link_uri=/a&target_link_uri=/b",
		"iss=" + url.QueryEscape(two.issuer), // which of the two
	} {
		w := r.want(400, "GET", "/login?"+query+"&return_to=/delegated/b", "", browser)
		if w.Header()["Set-Cookie"] != nil || !strings.Contains(w.Body.String(), `href="/signin?return_to=`) {
			t.Errorf("%s: %v %s", query, w.Header(), w.Body)
		}
	}
	for _, name := range []string{"two", "two-again"} {
		w := r.want(302, "GET", "/login?iss="+url.QueryEscape(two.issuer)+"&provider="+name, "")
		if got := queryOf(t, w).Get("redirect_uri"); got != "https://gw.example/callback/"+name {
			t.Errorf("%s: back to %s", name, got)
		}
	}
	// At another host the sign-in is begun at the host of public_url.
	link := "/login?" + iss + "&target_link_uri=https://wiki.example.org/x&login_hint=carol"
	w := r.wantAt("wiki.example.org", 302, "GET", link, "", browser)
	to, at := w.Header().Get("Location"), queryOf(t, w)
	if !strings.HasPrefix(to, "https://gw.example/login?") || at.Get("iss") != one.issuer ||
		at.Get("login_hint") != "carol" || at.Get("return_to") != "https://wiki.example.org/x" || at.Get("binding") == "" {
		t.Errorf("at another host: to %s", to)
	}
}

// A link of another site does not replace a session: a user who is signed in is asked
// before the provider can answer from a session of its own. In a browser without a
// session, and on a link of the gateway's own pages, the sign-in begins at once.
func TestLoginByLinkAsks(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	carol, alice := r.carol(), r.login(aliceIn)
	thirdParty := "/login?iss=" + url.QueryEscape(p.issuer) + "&target_link_uri=/session/x&login_hint=bob"
	links := map[string]string{
		"/login?provider=small&return_to=/session/x": "/login?provider=small&amp;return_to=%2Fsession%2Fx",
		"/login?return_to=/session/x":                "/login?provider=small&amp;return_to=%2Fsession%2Fx",
		"/login?provider=small&switch=1":             "/login?provider=small&amp;switch=1",
		thirdParty:                                   "/login?provider=small&amp;login_hint=bob&amp;return_to=%2Fsession%2Fx",
	}
	for link, goesOn := range links {
		for _, session := range []string{alice.cookie, carol} {
			for _, site := range []string{"cross-site", "same-site"} {
				w := r.want(200, "GET", link, "", session, "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: navigate", browser)
				body := w.Body.String()
				asks := strings.Contains(body, "Another site asks") && strings.Contains(body, `href="`+goesOn+`"`)
				if !asks || w.Header()["Set-Cookie"] != nil {
					t.Errorf("%s from %s: %v %s", link, site, w.Header(), body)
				}
			}
			for _, site := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", ""} {
				r.want(302, "GET", link, "", session, site, browser)
			}
		}
		r.want(302, "GET", link, "", "Sec-Fetch-Site: cross-site", browser)
		r.want(302, "GET", link, "", "Cookie: session_id=dead", "Sec-Fetch-Site: cross-site", browser)
	}
	r.good(alice, true)
	r.want(200, "GET", "/delegated/", "", carol)
}
