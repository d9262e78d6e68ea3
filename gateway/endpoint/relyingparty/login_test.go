package relyingparty_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
	"authgate/internal/test/storetest"
)

// A third party, such as the portal of a provider, begins a sign-in with the issuer, and
// says where it leads and who is expected.
func TestThirdPartyInitiatedLogin(t *testing.T) {
	t.Parallel()
	one, two := rig.NewProvider(t), rig.NewProvider(t)
	r := rig.New(t, rig.FiveHostsConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\nproviders:\n"+
		"  - {name: one, issuer: \""+one.Issuer+"\", client_id: gateway}\n"+
		"  - {name: two, issuer: \""+two.Issuer+"\", client_id: gateway}\n"+
		"  - {name: two-again, issuer: \""+two.Issuer+"\", client_id: other}\n")
	one.Now, two.Now = r.Clock.Now, r.Clock.Now
	iss, escaped := "iss="+url.QueryEscape(one.Issuer), url.QueryEscape("https://gw.example/delegated/x?y=%2F")
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
		w := r.Want(302, "GET", "/login?"+query, "", "Sec-Fetch-Site: cross-site", rig.Browser)
		to, sent := w.Header().Get("Location"), rig.QueryOf(t, w)
		if !strings.HasPrefix(to, one.Issuer+"/authorize?") || sent.Get("login_hint") != want.hint {
			t.Errorf("%.200s: to %.300s", query, to)
			continue
		}
		w = r.Want(302, "GET", "/callback/one?"+rig.ResponseTo(sent), "", rig.JarOf(w).Line(), rig.Browser)
		if got := w.Header().Get("Location"); got != want.place {
			t.Errorf("%.200s: in the end to %q, want %q", query, got, want.place)
		}
	}
	for _, query := range []string{
		"iss=https://evil.example", "iss=", "iss=" + url.QueryEscape(one.Issuer+"/"), "iss=https%3A%2F%2Fgw.example",
		iss + "&" + iss, iss + "&iss=https://evil.example", iss + "&provider=two", iss + "&provider=three",
		iss + "&login_hint=a&login_hint=b", iss + "&target_link_uri=/a&target_link_uri=/b",
		"iss=" + url.QueryEscape(two.Issuer), // which of the two
	} {
		w := r.Want(400, "GET", "/login?"+query+"&return_to=/delegated/b", "", rig.Browser)
		if w.Header()["Set-Cookie"] != nil || !strings.Contains(w.Body.String(), `href="/signin?return_to=`) {
			t.Errorf("%s: %v %s", query, w.Header(), w.Body)
		}
	}
	for _, name := range []string{"two", "two-again"} {
		w := r.Want(302, "GET", "/login?iss="+url.QueryEscape(two.Issuer)+"&provider="+name, "")
		if got := rig.QueryOf(t, w).Get("redirect_uri"); got != "https://gw.example/callback/"+name {
			t.Errorf("%s: back to %s", name, got)
		}
	}
	// At another host the sign-in is begun at the host of public_url.
	link := "/login?" + iss + "&target_link_uri=https://wiki.example.org/x&login_hint=carol"
	w := r.WantAt("wiki.example.org", 302, "GET", link, "", rig.Browser)
	to, at := w.Header().Get("Location"), rig.QueryOf(t, w)
	if !strings.HasPrefix(to, "https://gw.example/login?") || at.Get("iss") != one.Issuer ||
		at.Get("login_hint") != "carol" || at.Get("return_to") != "https://wiki.example.org/x" || at.Get("binding") == "" {
		t.Errorf("at another host: to %s", to)
	}
}

// A link of another site does not replace a session: a user who is signed in is asked
// before the provider can answer from a session of its own. In a browser without a
// session, and on a link of the gateway's own pages, the sign-in begins at once.
func TestLoginByLinkAsks(t *testing.T) {
	t.Parallel()
	r, p := rig.Delegated(t, "")
	carol, alice := r.Carol(), r.Login(rig.Alice)
	thirdParty := "/login?iss=" + url.QueryEscape(p.Issuer) + "&target_link_uri=/session/x&login_hint=bob"
	links := map[string]string{
		"/login?provider=small&return_to=/session/x": "/login?provider=small&amp;return_to=%2Fsession%2Fx",
		"/login?return_to=/session/x":                "/login?provider=small&amp;return_to=%2Fsession%2Fx",
		"/login?provider=small&switch=1":             "/login?provider=small&amp;switch=1",
		thirdParty:                                   "/login?provider=small&amp;login_hint=bob&amp;return_to=%2Fsession%2Fx",
	}
	for link, goesOn := range links {
		for _, session := range []string{alice.Cookie, carol} {
			for _, site := range []string{"cross-site", "same-site"} {
				w := r.Want(200, "GET", link, "", session, "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: navigate", rig.Browser)
				body := w.Body.String()
				asks := strings.Contains(body, "Another site asks") && strings.Contains(body, `href="`+goesOn+`"`)
				if !asks || w.Header()["Set-Cookie"] != nil {
					t.Errorf("%s from %s: %v %s", link, site, w.Header(), body)
				}
			}
			for _, site := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", ""} {
				r.Want(302, "GET", link, "", session, site, rig.Browser)
			}
		}
		r.Want(302, "GET", link, "", "Sec-Fetch-Site: cross-site", rig.Browser)
		r.Want(302, "GET", link, "", "Cookie: session_id=dead", "Sec-Fetch-Site: cross-site", rig.Browser)
	}
	r.Good(alice, true)
	r.Want(200, "GET", "/delegated/", "", carol)
}

// A user has ten minutes at the provider. An older attempt is refused without a
// request to the provider. A younger attempt of the same browser is not affected.
func TestAttemptEnds(t *testing.T) {
	t.Parallel()
	r, p := rig.Delegated(t, "")
	early := r.Leave("")
	r.Clock.Advance(10*time.Minute - time.Second)
	late := r.Leave(early.Cookie)
	if late.Cookie != early.Cookie {
		t.Error("a second attempt is bound to another cookie")
	}
	r.Want(302, "GET", early.Target, "", early.Cookie)
	r.Clock.Advance(10 * time.Minute)
	w := r.Want(400, "GET", late.Target, "", late.Cookie)
	if w.Header()["Set-Cookie"] != nil || !strings.Contains(rig.DetailOf(t, w), "took too long") || p.Asked.Load() != 1 {
		t.Errorf("after ten minutes: %q %s, %d requests to the token endpoint", w.Header()["Set-Cookie"], w.Body,
			p.Asked.Load())
	}
}

// Whichever operation of the store fails, a sign-in at a provider ends in 503 and
// without a session.
func TestDelegatedStoreFails(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, "")
	r.Leave("") // from here on, the provider is known
	for step, least := range map[string]int{"the beginning": 1, "the callback": 3} {
		failed := 0
		rig.EachFailure(r.Client, r.Store, rig.Outages["once"], func(broken func(*http.Request) *httptest.ResponseRecorder) {
			q := rig.Request("GET", "/login", "")
			if step == "the callback" {
				back := r.Leave("")
				q = rig.Request("GET", back.Target, "", back.Cookie)
			}
			switch w := broken(q); w.Code {
			case http.StatusServiceUnavailable:
				failed++
				rig.CheckUnavailable(t, r.Log, w)
			case http.StatusFound:
				if step == "the callback" && rig.JarOf(w).Line("session") == "" {
					t.Error("302 without a session")
				}
			default:
				t.Errorf("%s: %d %s", step, w.Code, w.Body)
			}
		})
		if failed < least {
			t.Errorf("%d operations of %s noticed that the store failed", failed, step)
		}
	}
}

// Anyone can begin to sign in at a provider. What that leaves in the store is bounded
// for each client.
func TestAttemptsOfOneClientAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, "")
	for range 1000 {
		r.Leave("")
	}
	r.Want(429, "GET", "/login", "")
	if kept := len(storetest.Keys(t, r.Store, "attempt:")); kept != 1000 {
		t.Errorf("%d attempts are kept", kept)
	}
}

// A user who types the address alone sees the page with all ways to sign in, if there are accounts
// and no provider comes first. Any other user, and one who names a provider, is led to the provider.
func TestTypedLogin(t *testing.T) {
	t.Parallel()
	typed := []string{
		rig.Browser, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-User: ?1",
	}
	with := func(old, new string) []string {
		header := slices.Clone(typed)
		header[slices.Index(header, old)] = new
		return header
	}
	r, p := rig.Delegated(t, "")
	atProvider := func(r *rig.Rig, target string, header ...string) bool {
		t.Helper()
		to := r.Want(302, "GET", target, "", header...).Header().Get("Location")
		if to != "/signin" && !strings.HasPrefix(to, p.Issuer) {
			t.Errorf("%s leads to %s", target, to)
		}
		return to != "/signin"
	}
	for name, c := range map[string]struct {
		query  string
		header []string
		page   bool
	}{
		"typed":                     {"", typed, true},
		"with a place":              {"?return_to=/session/", typed, false},
		"with a provider":           {"?provider=small", typed, false},
		"a link of this site":       {"", with("Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin"), false},
		"a link of another":         {"", with("Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"), false},
		"a script":                  {"", with("Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: no-cors"), false},
		"a frame":                   {"", with("Sec-Fetch-Dest: document", "Sec-Fetch-Dest: iframe"), false},
		"an old browser, a program": {"", []string{rig.Browser}, false},
	} {
		if atProvider(r, "/login"+c.query, c.header...) == c.page {
			t.Errorf("%s: to the page is to be %t", name, c.page)
		}
	}
	noAccounts, _, _ := strings.Cut(rig.Base, "accounts:")
	noAccounts += "upstreams: {app: {url: \"http://app.invalid\"}}\nroutes:\n"
	if !atProvider(p.Rig(noAccounts, ""), "/login", typed...) {
		t.Error("without accounts, the page has nothing to add to the provider")
	}
	if !atProvider(p.Rig(rig.Base, "delegated: {default_provider: small}\n"), "/login", typed...) {
		t.Error("default_provider does not come first")
	}
}

// A user who wants another account is asked for it by the provider too.
func TestAnotherAccountAtProvider(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, "")
	rig.WantPage(t, r.Want(200, "GET", "/signin?switch=1&return_to=/delegated/", "", rig.Browser),
		`href="/login?provider=small&amp;switch=1&amp;return_to=%2Fdelegated%2F"`)
	for path, want := range map[string]bool{"/login?provider=small&switch=1": true, "/login?switch=1": true,
		"/login?provider=small": false} {
		location := r.Want(302, "GET", path, "", rig.Browser).Header().Get("Location")
		if strings.Contains(location, "prompt=login") != want {
			t.Errorf("%s leads to %s", path, location)
		}
	}
}
