package signin_test

import (
	"html"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// With same_site: strict a browser sends no session on the way from another site. Pages
// of the gateway lead on from its own sites instead.
func TestStrictSessions(t *testing.T) {
	t.Parallel()
	r := rig.New(t, strictConfig(t))
	p := r.Person()
	onward := func(w *httptest.ResponseRecorder, to string) {
		t.Helper()
		if want := `content="0; url=` + html.EscapeString(to) + `"`; w.Code != 200 ||
			!strings.Contains(w.Body.String(), want) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d, want a page that leads to %s: %s", w.Code, to, w.Body)
		}
	}
	at, w := p.SignIn(rig.PageOf("wiki.example.org"), "alice")
	if onward(w, "/x?y=%2F&z"); !strings.HasPrefix(at, "https://wiki.example.org/signin/complete?") || r.Reached() != 0 {
		t.Errorf("led to %s", at)
	}
	p.Sees(rig.PageOf("wiki.example.org"), "alice")

	home := p.Jars["gw.example"]
	p.Jars["gw.example"] = rig.Jar{} // as the browser has it
	begun := p.Ask("GET", rig.PageOf("mail.example.net"), "", "Sec-Fetch-Site: same-origin")
	p.Extra = []string{crossSite}
	at, w = p.Visit("GET", begun.Header().Get("Location"), "")
	onward(w, strings.TrimPrefix(at, "https://gw.example"))
	p.Jars["gw.example"], p.Extra = home, []string{"Sec-Fetch-Site: same-origin"}
	at, w = p.Visit("GET", at, "")
	if onward(w, "/x?y=%2F&z"); !strings.HasPrefix(at, "https://mail.example.net/signin/complete?") {
		t.Errorf("led to %s", at)
	}
	p.Sees(rig.PageOf("mail.example.net"), "alice")
	p.Jars["gw.example"] = rig.Jar{}
	if at, w = p.Visit("GET", rig.PageOf("files.example.org"), ""); w.Code != 200 ||
		!strings.HasPrefix(at, "https://gw.example/signin?") || strings.Contains(w.Body.String(), "refresh") {
		t.Errorf("without a session: led to %s, %d", at, w.Code)
	}
}

// strictConfig is rig.FiveHostsConfig with strict sessions.
func strictConfig(t testing.TB) string {
	return rig.Edit(t, rig.FiveHostsConfig, "store:", "session: {same_site: strict}\nstore:")
}

// asks fails the test unless the answer is a page that leads to a place by a link alone.
func asks(t *testing.T, at string, w *httptest.ResponseRecorder, place string) {
	t.Helper()
	if w == nil {
		t.Errorf("led to %s, want a page that asks before %s", at, place)
		return
	}
	body := w.Body.String()
	if want := `href="` + html.EscapeString(place) + `"`; w.Code != 200 || !strings.Contains(body, want) ||
		strings.Contains(body, `http-equiv="refresh"`) {
		t.Errorf("at %s: %d, want a page that asks before %s: %s", at, w.Code, place, body)
	}
}

// A sign-in that another site begins does not end in a request of the gateway's own site, which
// takes a strict session along. It ends at a page that asks, however the user signs in, and
// through any host that the link leads to.
func TestStrictSessionsAndOtherSites(t *testing.T) {
	t.Parallel()
	const danger = "/delete?id=1"
	for _, link := range []string{
		"https://wiki.example.org/signin?return_to=/delete?id%3D1", "https://wiki.example.org/delete?id=1",
		"https://wiki.example.org/login?return_to=/delete?id%3D1",
	} {
		r := rig.New(t, strictConfig(t))
		p := r.Person()
		// Without a session anywhere, by the form.
		p.Extra = []string{crossSite}
		_, page := p.GoesOn(link)
		p.Extra = []string{"Sec-Fetch-Site: same-origin"} // of the form; what follows is not looked at
		at, w := p.Post(page, "alice")
		asks(t, at, w, danger)
		if !strings.HasPrefix(at, "https://wiki.example.org/signin/complete?") {
			t.Errorf("led by %q to %s", p.Trail, at)
		}
		// With a session at public_url, which the browser sends only from there, and with one at both.
		for range 2 {
			home, wiki := p.Jars["gw.example"], p.Jars["wiki.example.org"]
			p.Jars["gw.example"] = rig.Jar{}
			p.Jars["wiki.example.org"] = rig.Jar{"__Host-authgate_login": wiki["__Host-authgate_login"]}
			p.Extra = []string{crossSite}
			at, w = p.Visit("GET", link, "")
			wiki = p.Jars["wiki.example.org"]
			if !strings.HasPrefix(at, "https://gw.example/") || !strings.Contains(w.Body.String(), `http-equiv="refresh"`) {
				t.Fatalf("%s leads by %q to %s, %d", link, p.Trail, at, w.Code)
			}
			p.Jars["gw.example"], p.Jars["wiki.example.org"], p.Extra = home, wiki, []string{"Sec-Fetch-Site: same-origin"}
			at, w = p.Visit("GET", at, "")
			asks(t, at, w, danger)
		}
		if r.Reached() != 0 {
			t.Errorf("%s: %d requests reached the upstream", link, r.Reached())
		}
		p.Extra = []string{"Sec-Fetch-Site: same-origin"}
		p.Sees("https://wiki.example.org"+danger, "alice") // by the link on the page
	}
}

// The same holds at the host of public_url, and for a place at another host that no browser
// waits for: after the form a page asks. A link within the gateway's own site leads on.
func TestStrictSessionsAtHome(t *testing.T) {
	t.Parallel()
	for link, place := range map[string]string{
		"https://gw.example/session/delete?id=1":                                        "/session/delete?id=1",
		"https://gw.example/signin?return_to=/session/x":                                "/session/x",
		"https://gw.example/signin":                                                     "/",
		"https://gw.example/signin?return_to=https://wiki.example.org/delete":           "https://wiki.example.org/delete",
		"https://wiki.example.org/signin?return_to=https://gw.example/session/delete":   "/session/delete",
		"https://wiki.example.org/signin?return_to=https://files.example.org/delete":    "https://files.example.org/delete",
		"https://gw.example/signin?mechanism=session&return_to=%2Fsession%2Fx&reason=x": "/session/x",
	} {
		for site, elsewhere := range map[string]bool{crossSite: true, "Sec-Fetch-Site: none": false,
			"Sec-Fetch-Site: same-origin": false, "": false} {
			r := rig.New(t, strictConfig(t))
			p := r.Person()
			p.Extra = []string{site}
			_, page := p.Visit("GET", link, "")
			p.Extra = []string{"Sec-Fetch-Site: same-origin"}
			_, wrong := p.Post(page, "mallory") // keeps it
			p.Stop = func(at string) bool { return !strings.HasSuffix(at, "/login") }
			if at, w := p.Post(wrong, "alice"); elsewhere {
				asks(t, at, w, place)
			} else if w != nil {
				t.Errorf("%s from %q ends at %s, %d", link, site, at, w.Code)
			}
		}
	}
	// A user who is signed in is asked in any case.
	r := rig.New(t, strictConfig(t))
	p := r.Person()
	p.SignIn(rig.PageOf("gw.example"), "alice")
	p.Extra = []string{crossSite}
	at, w := p.Visit("GET", "https://gw.example/signin?return_to=/session/x", "")
	asks(t, at, w, "/session/x")
	// The link on the page of an error keeps it.
	for link, keeps := range map[string]bool{crossSite: true, "Sec-Fetch-Site: none": false} {
		w := r.Want(401, "POST", "/session/x", "", "Accept: text/html", link, "Origin: https://gw.example")
		if strings.Contains(w.Body.String(), "elsewhere=1") != keeps {
			t.Errorf("%s: %s", link, w.Body)
		}
	}
	// Lax sessions come along from other sites, so there is nothing to ask.
	lax := rig.New(t, rig.FiveHostsConfig).Person()
	lax.Extra = []string{crossSite}
	if at, w := lax.SignIn(rig.PageOf("wiki.example.org"), "alice"); at != rig.PageOf("wiki.example.org") ||
		w.Code != 200 {
		t.Errorf("lax: led by %q to %s, %d", lax.Trail, at, w.Code)
	}
}

// A sign-in at a provider ends in the same way, at home and at another host.
func TestStrictSessionsAtAProvider(t *testing.T) {
	t.Parallel()
	small := rig.NewProvider(t)
	yaml := strings.NewReplacer("auth: [session]", "auth: [oidc]", "auth: [session, bearer]",
		"auth: [oidc]").Replace(strictConfig(t)) +
		"  - {match: gw.example/local/, upstream: app, auth: [session]}\n" +
		"providers: [{name: small, issuer: \"" + small.Issuer + "\", client_id: gateway}]\n"
	asked := func(w *httptest.ResponseRecorder) bool {
		body := w.Body.String()
		return w.Code == 200 && strings.Contains(body, `href="`) && !strings.Contains(body, `http-equiv`)
	}
	for link, elsewhere := range map[string]bool{
		rig.PageOf("gw.example"): true, rig.PageOf("wiki.example.org"): true,
		"https://gw.example/login?return_to=/session/x%3Fy%3D%252F%26z": true,
	} {
		for _, site := range []string{crossSite, "Sec-Fetch-Site: none"} {
			r := rig.New(t, yaml)
			p := r.Person()
			p.Extra = []string{site}
			p.Stop = func(place string) bool { return strings.HasPrefix(place, small.Issuer) }
			at, _ := p.GoesOn(link)
			p.Extra = []string{crossSite} // the provider's page
			answer := small.AnswerTo(t, at)
			at, w := p.Visit("GET", answer, "")
			if strings.Contains(w.Body.String(), "/signin/complete?ticket=") { // browsers go there by a page
				_, place, _ := strings.Cut(w.Body.String(), `content="0; url=`)
				place, _, _ = strings.Cut(place, `"`)
				at, w = p.Visit("GET", place, "")
			}
			want := elsewhere && site == crossSite
			if asked(w) != want {
				t.Errorf("%s from %s ends by %q at %s, %d: %s", link, site, p.Trail, at, w.Code, w.Body)
			}
			// The user goes back, and the browser sends the response again.
			p.Extra = []string{"Sec-Fetch-Site: same-origin"}
			if at, w = p.Visit("GET", answer, ""); asked(w) != want || w.Code != 200 {
				t.Errorf("%s from %s, again, ends by %q at %s, %d: %s", link, site, p.Trail, at, w.Code, w.Body)
			}
		}
	}
}
