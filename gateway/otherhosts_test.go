package gateway

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"authgate/gateway/store/storetest"
)

// fiveHosts are the gateway's: one for sign-in, and four with applications.
var fiveHosts = []string{"gw.example", "wiki.example.org", "files.example.org", "mail.example.net", "x.apps.example"}

// fiveHostsConfig has a page for people at each of fiveHosts.
const fiveHostsConfig = baseConfig + `
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}
  - {match: wiki.example.org/open/, name: open, upstream: app, auth: [none]}
  - {match: files.example.org/, name: files, upstream: app, auth: [session]}
  - {match: mail.example.net/, name: mail, upstream: app, auth: [session, bearer]}
  - {match: x.apps.example/, name: x, upstream: app, auth: [session]}
`

// One sign-in opens all hosts: the first page leads to the sign-in page of public_url
// and back, the others show no page on the way. A logout at any host ends all.
func TestOneSignInForAllHosts(t *testing.T) {
	t.Parallel()
	for i, first := range fiveHosts {
		r := newRig(t, fiveHostsConfig)
		p := r.person()
		if at, w := p.signIn(pageOf(first), "alice"); at != pageOf(first) || w.Code != 200 || r.upstream.count() != 1 {
			t.Fatalf("%s: after the sign-in at %s, %d by %q", first, at, w.Code, p.trail)
		}
		for _, host := range fiveHosts {
			if p.sees(pageOf(host), "alice"); len(p.trail) != map[bool]int{true: 0, false: 3}[host == first || host == "gw.example"] {
				t.Errorf("from %s to %s by %q", first, host, p.trail)
			}
			p.sees(pageOf(host), "alice")
		}
		values := map[string]bool{}
		for _, host := range fiveHosts {
			values[p.jars[host]["session_id"]] = true
		}
		if len(values) != len(fiveHosts) {
			t.Errorf("the hosts have %d sessions, want a value of its own for each", len(values))
		}
		last := fiveHosts[(i+3)%len(fiveHosts)]
		p.ask("POST", "https://"+last+"/logout", "", "Origin: https://"+last)
		for _, host := range fiveHosts {
			p.isOut(pageOf(host))
		}
		if left := storetest.Keys(t, r.store, "session:"); len(left) > 0 {
			t.Errorf("%d sessions are left", len(left))
		}
	}
}

// The session of one host is nothing at another: it opens no page there, and a logout
// there does not end it.
func TestSessionOfAnotherHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, fiveHostsConfig, "store:", "session: {csrf_token: true}\nstore:"))
	p := r.person()
	p.signIn(pageOf("wiki.example.org"), "alice")
	for _, host := range fiveHosts {
		p.sees(pageOf(host), "alice")
	}
	tokens := map[string]string{}
	for _, made := range fiveHosts {
		_, tokens[made], _ = strings.Cut(p.ask("GET", "https://"+made+"/csrf-token", "").Body.String(), `"csrf_token":"`)
		tokens[made] = "X-CSRF-Token: " + strings.TrimSuffix(strings.TrimSpace(tokens[made]), `"}`)
		for _, here := range fiveHosts {
			if made == here {
				continue
			}
			cookie := p.jars[made].line("session_id")
			path := strings.TrimPrefix(pageOf(here), "https://"+here)
			r.wantAt(here, 401, "GET", path, "", cookie)
			r.wantAt(here, 302, "GET", path, "", cookie, browser)
			r.wantAt(here, 401, "GET", path, "", append(webSocket, cookie)...)
			r.wantAt(here, 401, "GET", "/me", "", cookie)
			r.wantAt(here, 200, "POST", "/logout", "", cookie)
		}
	}
	for _, made := range fiveHosts {
		for _, here := range fiveHosts {
			want := map[bool]int{true: 200, false: 403}[made == here]
			if w := p.ask("POST", pageOf(here), "", tokens[made]); w.Code != want {
				t.Errorf("the anti-CSRF token of %s at %s: %d, want %d", made, here, w.Code, want)
			}
		}
		p.sees(pageOf(made), "alice")
	}
}

// A browser that refuses cookies gets an error after a few redirects, at any of the hosts.
func TestBrowserWithoutCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	for _, refuses := range []string{"wiki.example.org", "gw.example", "both"} {
		p := r.person()
		p.jars["gw.example"], p.jars["wiki.example.org"] = browserJar{}, browserJar{}
		forget := func() {
			for host, jar := range p.jars {
				if host == refuses || refuses == "both" {
					clear(jar)
				}
			}
		}
		p.stop = func(string) bool { forget(); return false }
		at, w := p.visit("GET", pageOf("wiki.example.org"), "")
		if w.Code != 200 || !strings.HasPrefix(at, "https://gw.example/signin?") {
			t.Fatalf("%s: led to %s, %d", refuses, at, w.Code)
		}
		at, w = p.post(w, "alice")
		want := 400
		if refuses == "gw.example" { // which has issued the ticket with the login
			want = 200
		}
		if w.Code != want || len(p.trail) > 3 || want == 400 && !strings.Contains(w.Body.String(), "cookies") {
			t.Errorf("%s: led by %q to %s, %d", refuses, p.trail, at, w.Code)
		}
		p.visit("GET", pageOf("wiki.example.org"), "") // ends too
	}
}

// Tabs that sign in at once do not disturb each other, and a ticket of the login that a
// host has already opens nothing new.
func TestTabsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	p := r.person()
	_, first := p.visit("GET", pageOf("wiki.example.org"), "")
	_, second := p.visit("GET", pageOf("files.example.org"), "")
	_, third := p.visit("GET", "https://wiki.example.org/other", "")
	for page, want := range map[*httptest.ResponseRecorder]string{first: pageOf("wiki.example.org"), second: pageOf("files.example.org"), third: "https://wiki.example.org/other"} {
		if at, w := p.post(page, "alice"); at != want || w.Code != 200 {
			t.Errorf("led by %q to %s, %d, want %s", p.trail, at, w.Code, want)
		}
	}
	for _, host := range fiveHosts {
		p.sees(pageOf(host), "alice")
	}

	q := r.person()
	q.signIn(pageOf("gw.example"), "alice")
	tickets := []string{q.ticketOf("wiki.example.org"), q.ticketOf("wiki.example.org"), q.ticketOf("wiki.example.org")}
	for _, ticket := range tickets {
		if at, w := q.visit("GET", ticket, ""); at != "https://wiki.example.org/x?y" || w.Code != 200 {
			t.Errorf("led by %q to %s, %d", q.trail, at, w.Code)
		}
	}
	session := q.jars["wiki.example.org"]["session_id"]
	q.sees(pageOf("gw.example"), "alice")
	if q.sees(pageOf("wiki.example.org"), "alice"); q.jars["wiki.example.org"]["session_id"] != session {
		t.Error("the session was replaced by one of the same login")
	}
}

// A user who signs in as somebody else at public_url is that user at the other hosts when
// they are led there, and the login before has ended.
func TestAnotherUserAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	p := r.person()
	p.signIn(pageOf("wiki.example.org"), "alice")
	old := p.jars["wiki.example.org"].line("session_id")
	delete(p.jars, "gw.example") // so that the new login does not end the old one
	_, page := p.visit("GET", pageOf("files.example.org"), "")
	p.post(page, "bob")
	p.sees(pageOf("files.example.org"), "bob")
	r.wantAt("wiki.example.org", 200, "GET", "/x", "", old)
	// A link to sign in leads there again.
	if at, w := p.visit("GET", "https://wiki.example.org/signin?return_to=%2Fy", ""); at != "https://wiki.example.org/y" || w.Code != 200 {
		t.Errorf("led by %q to %s, %d", p.trail, at, w.Code)
	}
	p.sees(pageOf("wiki.example.org"), "bob")
	r.wantAt("wiki.example.org", 401, "GET", "/x", "", old)
}

// The links and forms for sign-in at another host lead to public_url and back, with what
// they name. A page load that is no GET, or comes from a script, starts nothing.
func TestSignInLinksAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	at := func(target string) (string, url.Values) {
		t.Helper()
		w := r.wantAt("wiki.example.org", 302, "GET", target, "", browser)
		u, err := url.Parse(w.Header().Get("Location"))
		if err != nil || u.Scheme != "https" || u.Host != "gw.example" {
			t.Fatalf("%s: to %q", target, w.Header().Get("Location"))
		}
		bound := u.Query().Get("binding") != ""
		if _, cookie := jarOf(w)["__Host-authgate_login"]; cookie != bound {
			t.Errorf("%s: to %s with the cookies %q", target, u, w.Header()["Set-Cookie"])
		}
		return u.Path, u.Query()
	}
	for target, want := range map[string]string{
		"/signin": "/signin https://wiki.example.org/ true", "/signin?return_to=/a%3Fb": "/signin https://wiki.example.org/a?b true",
		"/login": "/login https://wiki.example.org/ true", "/signin?return_to=//evil": "/signin https://wiki.example.org/ true",
		"/signin?return_to=https://wiki.example.org/a": "/signin https://wiki.example.org/a true", "/signin?return_to=https://gw.example/a": "/signin /a false",
		"/signin?return_to=https://files.example.org/a": "/signin https://files.example.org/a false", "/signin?return_to=https://evil.example/a": "/signin https://wiki.example.org/ true",
		"/a?return_to=b": "/signin https://wiki.example.org/a?return_to=b true",
	} {
		path, query := at(target)
		if got := fmt.Sprint(path, " ", query.Get("return_to"), " ", query.Get("binding") != ""); got != want {
			t.Errorf("%s: to %s, want %s", target, got, want)
		}
	}
	if _, query := at("/signin?mechanism=session"); query.Get("mechanism") != "session" {
		t.Errorf("the mechanism is lost: %v", query)
	}
	if _, query := at("/login?provider=small"); query.Get("provider") != "small" {
		t.Errorf("the provider is lost: %v", query)
	}
	r.wantAt("wiki.example.org", 401, "GET", "/a", "", browser, "Sec-Fetch-Mode: cors")
	r.wantAt("wiki.example.org", 401, "POST", "/a", "", browser)
	// The browser keeps its secret, which tabs share.
	first := r.wantAt("wiki.example.org", 302, "GET", "/a", "", browser)
	second := r.wantAt("wiki.example.org", 302, "GET", "/b", "", browser, jarOf(first).line())
	if jarOf(first).line() != jarOf(second).line() || strings.Contains(second.Header().Get("Location"), jarOf(first)["__Host-authgate_login"]) {
		t.Errorf("the cookies %q and %q, to %s", jarOf(first), jarOf(second), second.Header().Get("Location"))
	}
	// A wrong password keeps the way back.
	p := r.person()
	_, page := p.visit("GET", pageOf("wiki.example.org"), "")
	_, wrong := p.post(page, "mallory")
	if at, w := p.post(wrong, "alice"); wrong.Code != 401 || at != pageOf("wiki.example.org") || w.Code != 200 {
		t.Errorf("after a wrong password (%d) led to %s, %d", wrong.Code, at, w.Code)
	}
}

// Forms on the pages of the gateway may lead to its other hosts and to providers.
func TestFormsLeadToOtherHosts(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := newRig(t, edit(t, fiveHostsConfig, "https://gw.example", "https://gw.example:8443")+"tls: {domains: ['*.other.example', '192.0.2.50', '2001:db8::1', localhost]}\n"+
		"providers: [{name: small, issuer: \""+p.issuer+"\", client_id: gateway}, {name: far, scopes: [a], authorization_url: \"https://id.example/a\", token_url: \"https://id.example/t\", userinfo_url: \"https://id.example/u\", client_id: x}]\n")
	want := "form-action 'self' https://wiki.example.org:8443 https://files.example.org:8443 https://mail.example.net:8443 https://x.apps.example:8443 " +
		"https://*.other.example:8443 https://192.0.2.50:8443 " + p.issuer + " https://id.example;"
	if got := r.want(200, "GET", "/signin", "", browser).Header().Get("Content-Security-Policy"); !strings.Contains(got, want) {
		t.Errorf("the policy is %q, want %q", got, want)
	}
	in := jarOf(r.wantAt("wiki.example.org", 200, "POST", "/login", aliceForm, formType)).line()
	want = strings.Replace(want, " "+p.issuer, " https://gw.example:8443 "+p.issuer, 1)
	if got := r.wantAt("wiki.example.org", 200, "GET", "/me", "", in, browser).Header().Get("Content-Security-Policy"); !strings.Contains(got, want) {
		t.Errorf("at another host the policy is %q, want %q", got, want)
	}
}

// With same_site: strict a browser sends no session on the way from another site. Pages
// of the gateway lead on from its own sites instead.
func TestStrictSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, strictConfig(t))
	p := r.person()
	onward := func(w *httptest.ResponseRecorder, to string) {
		t.Helper()
		if want := `content="0; url=` + html.EscapeString(to) + `"`; w.Code != 200 || !strings.Contains(w.Body.String(), want) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d, want a page that leads to %s: %s", w.Code, to, w.Body)
		}
	}
	at, w := p.signIn(pageOf("wiki.example.org"), "alice")
	if onward(w, "/x?y=%2F&z"); !strings.HasPrefix(at, "https://wiki.example.org/signin/complete?") || r.upstream.count() != 0 {
		t.Errorf("led to %s", at)
	}
	p.sees(pageOf("wiki.example.org"), "alice")

	home := p.jars["gw.example"]
	p.jars["gw.example"] = browserJar{} // as the browser has it
	begun := p.ask("GET", pageOf("mail.example.net"), "", "Sec-Fetch-Site: same-origin")
	p.extra = []string{crossSite}
	at, w = p.visit("GET", begun.Header().Get("Location"), "")
	onward(w, strings.TrimPrefix(at, "https://gw.example"))
	p.jars["gw.example"], p.extra = home, []string{"Sec-Fetch-Site: same-origin"}
	at, w = p.visit("GET", at, "")
	if onward(w, "/x?y=%2F&z"); !strings.HasPrefix(at, "https://mail.example.net/signin/complete?") {
		t.Errorf("led to %s", at)
	}
	p.sees(pageOf("mail.example.net"), "alice")
	p.jars["gw.example"] = browserJar{}
	if at, w = p.visit("GET", pageOf("files.example.org"), ""); w.Code != 200 || !strings.HasPrefix(at, "https://gw.example/signin?") || strings.Contains(w.Body.String(), "refresh") {
		t.Errorf("without a session: led to %s, %d", at, w.Code)
	}
}

// A sign-in at a provider leads to the other hosts too. The callback stays at public_url.
func TestProviderForAllHosts(t *testing.T) {
	t.Parallel()
	small := newSmallProvider(t)
	yaml := strings.NewReplacer("auth: [session]", "auth: [oidc]", "auth: [session, bearer]", "auth: [oidc]").Replace(fiveHostsConfig) +
		"  - {match: gw.example/local/, upstream: app, auth: [session]}\n" +
		"providers: [{name: small, issuer: \"" + small.issuer + "\", client_id: gateway}]\n"
	r := newRig(t, yaml)
	p := r.person()
	// A local session does not count where only a provider's does.
	p.ask("POST", "https://gw.example/login", aliceForm, formType)
	asked := func(place string) url.Values {
		t.Helper()
		p.stop = func(place string) bool { return strings.HasPrefix(place, small.issuer+"/authorize?") }
		defer func() { p.stop = nil }()
		at, w := p.visit("GET", place, "")
		u, err := url.Parse(at)
		if err != nil || w != nil {
			t.Fatalf("%s: led to %s, not to the provider", place, at)
		}
		return u.Query()
	}
	query := asked(pageOf("wiki.example.org"))
	if got := query.Get("redirect_uri"); got != "https://gw.example/callback" {
		t.Errorf("the callback is %s", got)
	}
	answer := url.Values{"state": {query.Get("state")}, "code": {query.Get("nonce")}}.Encode()
	if w := p.ask("GET", "https://wiki.example.org/callback?"+answer, ""); w.Code != 400 || w.Header()["Set-Cookie"] != nil {
		t.Errorf("the callback at another host: %d %v", w.Code, w.Header())
	}
	// A browser goes on by itself, as the provider's page may not allow more redirects.
	w := p.ask("GET", "https://gw.example/callback?"+answer, "", "Sec-Fetch-Mode: navigate")
	_, place, found := strings.Cut(w.Body.String(), `content="0; url=`)
	place, _, _ = strings.Cut(place, `"`)
	if w.Code != 200 || !found {
		t.Fatalf("the callback: %d %s", w.Code, w.Body)
	}
	if at, w := p.visit("GET", place, ""); at != pageOf("wiki.example.org") || w.Code != 200 || small.asked.Load() != 1 {
		t.Fatalf("led by %q to %s, %d", p.trail, at, w.Code)
	}
	for _, host := range fiveHosts {
		p.sees(pageOf(host), "carol")
		p.sees(pageOf(host), "carol")
	}
	if small.asked.Load() != 1 {
		t.Errorf("the provider was asked %d times", small.asked.Load())
	}
	p.ask("POST", "https://mail.example.net/logout", "", "Origin: https://mail.example.net")
	for _, host := range fiveHosts {
		asked(pageOf(host))
	}
}

// A host that a wildcard in a route names is a host like the others, with a session that
// is of no use at the next one.
func TestSignInAtWildcardHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig+"  - {match: '*.wild.example/', name: wild, upstream: app, auth: [session]}\n")
	p := r.person()
	if at, w := p.signIn("https://a.wild.example/x", "alice"); at != "https://a.wild.example/x" || w.Code != 200 {
		t.Errorf("led by %q to %s, %d", p.trail, at, w.Code)
	}
	p.sees("https://b.wild.example/x", "alice")
	r.wantAt("b.wild.example", 401, "GET", "/x", "", p.jars["a.wild.example"].line("session_id"))
	r.wantAt("a.b.wild.example", 421, "GET", "/x", "", browser)
	if got := r.want(200, "GET", "/signin", "", browser).Header().Get("Content-Security-Policy"); !strings.Contains(got, " https://*.wild.example;") {
		t.Errorf("the policy is %q", got)
	}
}

// With session.domain one cookie serves all hosts, and there are no tickets.
func TestSessionDomain(t *testing.T) {
	t.Parallel()
	yaml := strings.NewReplacer("https://gw.example", "https://gw.apps.example", "wiki.example.org", "wiki.apps.example", "files.example.org", "apps.example", "mail.example.net", "a.b.apps.example").
		Replace(fiveHostsConfig) + "session: {domain: Apps.example}\n"
	r := newRig(t, yaml)
	page := r.wantAt("wiki.apps.example", 302, "GET", "/x", "", browser)
	if got := page.Header().Get("Location"); got != "https://gw.apps.example/signin?return_to=https%3A%2F%2Fwiki.apps.example%2Fx" || page.Header()["Set-Cookie"] != nil {
		t.Errorf("led to %s with %q", got, page.Header()["Set-Cookie"])
	}
	in := r.wantAt("gw.apps.example", 303, "POST", "/login", aliceForm+"&return_to=https://wiki.apps.example/x&binding="+strings.Repeat("A", 43), formType, browser)
	if got := in.Header().Get("Location"); got != "https://wiki.apps.example/x" {
		t.Errorf("after the sign-in to %s", got)
	}
	if got := in.Result().Cookies(); len(got) != 1 || got[0].Domain != "apps.example" {
		t.Errorf("the cookies %v", got)
	}
	cookie := jarOf(in).line("session_id")
	for _, host := range []string{"gw.apps.example", "wiki.apps.example", "apps.example", "a.b.apps.example", "x.apps.example"} {
		r.wantAt(host, 200, "GET", "/session/x", "", cookie)
	}
	r.wantAt("localhost", 401, "GET", "/session/x", "", cookie) // does not get it from a browser
	if got := r.wantAt("localhost", 302, "GET", "/session/x", "", browser).Header().Get("Location"); got != "https://gw.apps.example/signin?return_to=%2Fsession%2Fx" {
		t.Errorf("from a host without the cookie to %s", got)
	}
	r.wantAt("wiki.apps.example", 400, "GET", "/signin/complete?ticket="+strings.Repeat("A", 43), "", cookie)
	out := r.wantAt("a.b.apps.example", 200, "POST", "/logout", "", cookie)
	var domains []string
	for _, c := range out.Result().Cookies() {
		if c.Name == "session_id" && c.MaxAge < 0 {
			domains = append(domains, c.Domain)
		}
	}
	if !slices.Equal(domains, []string{"apps.example", ""}) {
		t.Errorf("cleared for the domains %q", domains)
	}
	r.wantAt("x.apps.example", 401, "GET", "/session/x", "", cookie)

	// A session of one scope is none of another, whatever the configuration was.
	again := jarOf(r.wantAt("gw.apps.example", 200, "POST", "/login", aliceIn, jsonType)).line("session_id")
	r.mustReload(strings.Replace(yaml, "session: {domain: Apps.example}\n", "", 1))
	r.wantAt("gw.apps.example", 401, "GET", "/session/x", "", again)
}

// A host none of whose routes accepts a session gets none: a link to sign in there leads to
// public_url and back, and a binding for it counts for nothing.
func TestHostsWithoutSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig+`
  - {match: open.example/, upstream: app, auth: [none]}
  - {match: api.example/, upstream: app, auth: [bearer, basic]}
  - {match: '*.open.example/', upstream: app, auth: [none]}
  - {match: 'GET part.example/', upstream: app, auth: [none]}
  - {match: a.wild.example/, upstream: app, auth: [none]}
  - {match: '*.wild.example/', upstream: app, auth: [session]}
`)
	p := r.person()
	p.signIn(pageOf("gw.example"), "alice")
	for _, host := range []string{"open.example", "api.example", "x.open.example", "a.wild.example"} {
		w := r.wantAt(host, 302, "GET", "/signin?return_to=/x", "", browser)
		if got, want := w.Header().Get("Location"), "https://gw.example/signin?return_to=https%3A%2F%2F"+host+"%2Fx"; got != want || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s: to %q with %q, want %q", host, got, w.Header()["Set-Cookie"], want)
		}
		for _, place := range []string{"https://" + host + "/signin", "https://gw.example/signin?return_to=https://" + host + "/x&binding=" + strings.Repeat("A", 43)} {
			at, w := p.visit("GET", place, "")
			if !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 || !strings.Contains(w.Body.String(), "https://"+host+"/") {
				t.Errorf("%s leads by %q to %s, %d", place, p.trail, at, w.Code)
			}
		}
		w = r.want(303, "POST", "/login", aliceForm+"&return_to=https://"+host+"/x&binding="+strings.Repeat("A", 43), formType, browser)
		if got := w.Header().Get("Location"); got != "https://"+host+"/x" {
			t.Errorf("after the form to %s", got)
		}
	}
	for _, host := range []string{"wiki.example.org", "part.example", "b.wild.example"} { // a route without a host is there too
		if w := r.wantAt(host, 302, "GET", "/signin", "", browser); !strings.Contains(w.Header().Get("Location"), "&binding=") {
			t.Errorf("%s: to %q", host, w.Header().Get("Location"))
		}
	}
}

// strictConfig is fiveHostsConfig with strict sessions.
func strictConfig(t testing.TB) string {
	return edit(t, fiveHostsConfig, "store:", "session: {same_site: strict}\nstore:")
}

const crossSite = "Sec-Fetch-Site: cross-site"

// asks fails the test unless the answer is a page that leads to a place by a link alone.
func asks(t *testing.T, at string, w *httptest.ResponseRecorder, place string) {
	t.Helper()
	if w == nil {
		t.Errorf("led to %s, want a page that asks before %s", at, place)
		return
	}
	body := w.Body.String()
	if want := `href="` + html.EscapeString(place) + `"`; w.Code != 200 || !strings.Contains(body, want) || strings.Contains(body, `http-equiv="refresh"`) {
		t.Errorf("at %s: %d, want a page that asks before %s: %s", at, w.Code, place, body)
	}
}

// A sign-in that another site begins does not end in a request of the gateway's own site, which
// takes a strict session along. It ends at a page that asks, however the user signs in, and
// through whatever host the link leads.
func TestStrictSessionsAndOtherSites(t *testing.T) {
	t.Parallel()
	const danger = "/delete?id=1"
	for _, link := range []string{
		"https://wiki.example.org/signin?return_to=/delete?id%3D1", "https://wiki.example.org/delete?id=1",
		"https://wiki.example.org/login?return_to=/delete?id%3D1",
	} {
		r := newRig(t, strictConfig(t))
		p := r.person()
		// Without a session anywhere, by the form.
		p.extra = []string{crossSite}
		_, page := p.goesOn(link)
		p.extra = []string{"Sec-Fetch-Site: same-origin"} // of the form; what follows is not looked at
		at, w := p.post(page, "alice")
		asks(t, at, w, danger)
		if !strings.HasPrefix(at, "https://wiki.example.org/signin/complete?") {
			t.Errorf("led by %q to %s", p.trail, at)
		}
		// With a session at public_url, which the browser sends only from there, and with one at both.
		for range 2 {
			home, wiki := p.jars["gw.example"], p.jars["wiki.example.org"]
			p.jars["gw.example"], p.jars["wiki.example.org"], p.extra = browserJar{}, browserJar{"__Host-authgate_login": wiki["__Host-authgate_login"]}, []string{crossSite}
			at, w = p.visit("GET", link, "")
			wiki = p.jars["wiki.example.org"]
			if !strings.HasPrefix(at, "https://gw.example/") || !strings.Contains(w.Body.String(), `http-equiv="refresh"`) {
				t.Fatalf("%s leads by %q to %s, %d", link, p.trail, at, w.Code)
			}
			p.jars["gw.example"], p.jars["wiki.example.org"], p.extra = home, wiki, []string{"Sec-Fetch-Site: same-origin"}
			at, w = p.visit("GET", at, "")
			asks(t, at, w, danger)
		}
		if r.upstream.count() != 0 {
			t.Errorf("%s: %d requests reached the upstream", link, r.upstream.count())
		}
		p.extra = []string{"Sec-Fetch-Site: same-origin"}
		p.sees("https://wiki.example.org"+danger, "alice") // by the link on the page
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
		for site, elsewhere := range map[string]bool{crossSite: true, "Sec-Fetch-Site: none": false, "Sec-Fetch-Site: same-origin": false, "": false} {
			r := newRig(t, strictConfig(t))
			p := r.person()
			p.extra = []string{site}
			_, page := p.visit("GET", link, "")
			p.extra = []string{"Sec-Fetch-Site: same-origin"}
			_, wrong := p.post(page, "mallory") // keeps it
			p.stop = func(at string) bool { return !strings.HasSuffix(at, "/login") }
			if at, w := p.post(wrong, "alice"); elsewhere {
				asks(t, at, w, place)
			} else if w != nil {
				t.Errorf("%s from %q ends at %s, %d", link, site, at, w.Code)
			}
		}
	}
	// A user who is signed in is asked in any case.
	r := newRig(t, strictConfig(t))
	p := r.person()
	p.signIn(pageOf("gw.example"), "alice")
	p.extra = []string{crossSite}
	at, w := p.visit("GET", "https://gw.example/signin?return_to=/session/x", "")
	asks(t, at, w, "/session/x")
	// The link on the page of an error keeps it.
	for link, keeps := range map[string]bool{crossSite: true, "Sec-Fetch-Site: none": false} {
		w := r.want(401, "POST", "/session/x", "", "Accept: text/html", link, "Origin: https://gw.example")
		if strings.Contains(w.Body.String(), "elsewhere=1") != keeps {
			t.Errorf("%s: %s", link, w.Body)
		}
	}
	// Lax sessions come along from other sites, so there is nothing to ask.
	lax := newRig(t, fiveHostsConfig).person()
	lax.extra = []string{crossSite}
	if at, w := lax.signIn(pageOf("wiki.example.org"), "alice"); at != pageOf("wiki.example.org") || w.Code != 200 {
		t.Errorf("lax: led by %q to %s, %d", lax.trail, at, w.Code)
	}
}

// A sign-in at a provider ends in the same way, at home and at another host.
func TestStrictSessionsAtAProvider(t *testing.T) {
	t.Parallel()
	small := newSmallProvider(t)
	yaml := strings.NewReplacer("auth: [session]", "auth: [oidc]", "auth: [session, bearer]", "auth: [oidc]").Replace(strictConfig(t)) +
		"  - {match: gw.example/local/, upstream: app, auth: [session]}\n" +
		"providers: [{name: small, issuer: \"" + small.issuer + "\", client_id: gateway}]\n"
	asked := func(w *httptest.ResponseRecorder) bool {
		body := w.Body.String()
		return w.Code == 200 && strings.Contains(body, `href="`) && !strings.Contains(body, `http-equiv`)
	}
	for link, elsewhere := range map[string]bool{
		pageOf("gw.example"): true, pageOf("wiki.example.org"): true, "https://gw.example/login?return_to=/session/x%3Fy%3D%252F%26z": true,
	} {
		for _, site := range []string{crossSite, "Sec-Fetch-Site: none"} {
			r := newRig(t, yaml)
			p := r.person()
			p.extra = []string{site}
			p.stop = func(place string) bool { return strings.HasPrefix(place, small.issuer) }
			at, _ := p.goesOn(link)
			p.extra = []string{crossSite} // the provider's page
			answer := small.answerTo(t, at)
			at, w := p.visit("GET", answer, "")
			if strings.Contains(w.Body.String(), "/signin/complete?ticket=") { // browsers go there by a page
				_, place, _ := strings.Cut(w.Body.String(), `content="0; url=`)
				place, _, _ = strings.Cut(place, `"`)
				at, w = p.visit("GET", place, "")
			}
			want := elsewhere && site == crossSite
			if asked(w) != want {
				t.Errorf("%s from %s ends by %q at %s, %d: %s", link, site, p.trail, at, w.Code, w.Body)
			}
			// The user goes back, and the browser sends the response again.
			p.extra = []string{"Sec-Fetch-Site: same-origin"}
			if at, w = p.visit("GET", answer, ""); asked(w) != want || w.Code != 200 {
				t.Errorf("%s from %s, again, ends by %q at %s, %d: %s", link, site, p.trail, at, w.Code, w.Body)
			}
		}
	}
}
