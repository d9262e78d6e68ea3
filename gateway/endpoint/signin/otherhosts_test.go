package signin_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
	"authgate/internal/test/storetest"
)

// One sign-in opens all hosts: the first page leads to the sign-in page of public_url
// and back, the others show no page on the way. A logout at any host ends all.
func TestOneSignInForAllHosts(t *testing.T) {
	t.Parallel()
	for i, first := range rig.FiveHosts {
		r := rig.New(t, rig.FiveHostsConfig)
		p := r.Person()
		if at, w := p.SignIn(rig.PageOf(first), "alice"); at != rig.PageOf(first) || w.Code != 200 || r.Reached() != 1 {
			t.Fatalf("%s: after the sign-in at %s, %d by %q", first, at, w.Code, p.Trail)
		}
		for _, host := range rig.FiveHosts {
			if p.Sees(rig.PageOf(host), "alice"); len(p.Trail) != map[bool]int{true: 0, false: 3}[host == first ||
				host == "gw.example"] {
				t.Errorf("from %s to %s by %q", first, host, p.Trail)
			}
			p.Sees(rig.PageOf(host), "alice")
		}
		values := map[string]bool{}
		for _, host := range rig.FiveHosts {
			values[p.Jars[host]["session_id"]] = true
		}
		if len(values) != len(rig.FiveHosts) {
			t.Errorf("the hosts have %d sessions, want a value of its own for each", len(values))
		}
		last := rig.FiveHosts[(i+3)%len(rig.FiveHosts)]
		p.Ask("POST", "https://"+last+"/logout", "", "Origin: https://"+last)
		for _, host := range rig.FiveHosts {
			p.IsOut(rig.PageOf(host))
		}
		if left := storetest.Keys(t, r.Store, "session:"); len(left) > 0 {
			t.Errorf("%d sessions are left", len(left))
		}
	}
}

// The session of one host is nothing at another: it opens no page there, and a logout
// there does not end it.
func TestSessionOfAnotherHost(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.FiveHostsConfig, "store:", "session: {csrf_token: true}\nstore:"))
	p := r.Person()
	p.SignIn(rig.PageOf("wiki.example.org"), "alice")
	for _, host := range rig.FiveHosts {
		p.Sees(rig.PageOf(host), "alice")
	}
	tokens := map[string]string{}
	for _, made := range rig.FiveHosts {
		_, tokens[made], _ = strings.Cut(p.Ask("GET", "https://"+made+"/csrf-token", "").Body.String(), `"csrf_token":"`)
		tokens[made] = "X-CSRF-Token: " + strings.TrimSuffix(strings.TrimSpace(tokens[made]), `"}`)
		for _, here := range rig.FiveHosts {
			if made == here {
				continue
			}
			cookie := p.Jars[made].Line("session_id")
			path := strings.TrimPrefix(rig.PageOf(here), "https://"+here)
			r.WantAt(here, 401, "GET", path, "", cookie)
			r.WantAt(here, 302, "GET", path, "", cookie, rig.Browser)
			r.WantAt(here, 401, "GET", path, "", append(rig.WebSocket, cookie)...)
			r.WantAt(here, 401, "GET", "/me", "", cookie)
			r.WantAt(here, 200, "POST", "/logout", "", cookie)
		}
	}
	for _, made := range rig.FiveHosts {
		for _, here := range rig.FiveHosts {
			want := map[bool]int{true: 200, false: 403}[made == here]
			if w := p.Ask("POST", rig.PageOf(here), "", tokens[made]); w.Code != want {
				t.Errorf("the anti-CSRF token of %s at %s: %d, want %d", made, here, w.Code, want)
			}
		}
		p.Sees(rig.PageOf(made), "alice")
	}
}

// A browser that refuses cookies gets an error after a few redirects, at any of the hosts.
func TestBrowserWithoutCookies(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	for _, refuses := range []string{"wiki.example.org", "gw.example", "both"} {
		p := r.Person()
		p.Jars["gw.example"], p.Jars["wiki.example.org"] = rig.Jar{}, rig.Jar{}
		forget := func() {
			for host, jar := range p.Jars {
				if host == refuses || refuses == "both" {
					clear(jar)
				}
			}
		}
		p.Stop = func(string) bool { forget(); return false }
		at, w := p.Visit("GET", rig.PageOf("wiki.example.org"), "")
		if w.Code != 200 || !strings.HasPrefix(at, "https://gw.example/signin?") {
			t.Fatalf("%s: led to %s, %d", refuses, at, w.Code)
		}
		at, w = p.Post(w, "alice")
		want := 400
		if refuses == "gw.example" { // which has issued the ticket with the login
			want = 200
		}
		if w.Code != want || len(p.Trail) > 3 || want == 400 && !strings.Contains(w.Body.String(), "cookies") {
			t.Errorf("%s: led by %q to %s, %d", refuses, p.Trail, at, w.Code)
		}
		p.Visit("GET", rig.PageOf("wiki.example.org"), "") // ends too
	}
}

// Tabs that sign in at once do not disturb each other, and a ticket of the login that a
// host has already opens nothing new.
func TestTabsAtOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	p := r.Person()
	_, first := p.Visit("GET", rig.PageOf("wiki.example.org"), "")
	_, second := p.Visit("GET", rig.PageOf("files.example.org"), "")
	_, third := p.Visit("GET", "https://wiki.example.org/other", "")
	for page, want := range map[*httptest.ResponseRecorder]string{first: rig.PageOf("wiki.example.org"),
		second: rig.PageOf("files.example.org"), third: "https://wiki.example.org/other"} {
		if at, w := p.Post(page, "alice"); at != want || w.Code != 200 {
			t.Errorf("led by %q to %s, %d, want %s", p.Trail, at, w.Code, want)
		}
	}
	for _, host := range rig.FiveHosts {
		p.Sees(rig.PageOf(host), "alice")
	}

	q := r.Person()
	q.SignIn(rig.PageOf("gw.example"), "alice")
	tickets := []string{q.TicketOf("wiki.example.org"), q.TicketOf("wiki.example.org"), q.TicketOf("wiki.example.org")}
	for _, ticket := range tickets {
		if at, w := q.Visit("GET", ticket, ""); at != "https://wiki.example.org/x?y" || w.Code != 200 {
			t.Errorf("led by %q to %s, %d", q.Trail, at, w.Code)
		}
	}
	session := q.Jars["wiki.example.org"]["session_id"]
	q.Sees(rig.PageOf("gw.example"), "alice")
	if q.Sees(rig.PageOf("wiki.example.org"), "alice"); q.Jars["wiki.example.org"]["session_id"] != session {
		t.Error("the session was replaced by one of the same login")
	}
}

// A user who signs in as somebody else at public_url is that user at the other hosts when
// they are led there, and the login before has ended.
func TestAnotherUserAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	p := r.Person()
	p.SignIn(rig.PageOf("wiki.example.org"), "alice")
	old := p.Jars["wiki.example.org"].Line("session_id")
	delete(p.Jars, "gw.example") // so that the new login does not end the old one
	_, page := p.Visit("GET", rig.PageOf("files.example.org"), "")
	p.Post(page, "bob")
	p.Sees(rig.PageOf("files.example.org"), "bob")
	r.WantAt("wiki.example.org", 200, "GET", "/x", "", old)
	// A link to sign in leads there again.
	if at, w := p.Visit("GET", "https://wiki.example.org/signin?return_to=%2Fy", ""); at != "https://wiki.example.org/y" ||
		w.Code != 200 {
		t.Errorf("led by %q to %s, %d", p.Trail, at, w.Code)
	}
	p.Sees(rig.PageOf("wiki.example.org"), "bob")
	r.WantAt("wiki.example.org", 401, "GET", "/x", "", old)
}

// The links and forms for sign-in at another host lead to public_url and back, with what
// they name. A page load that is no GET, or comes from a script, starts nothing.
func TestSignInLinksAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	at := func(target string) (string, url.Values) {
		t.Helper()
		w := r.WantAt("wiki.example.org", 302, "GET", target, "", rig.Browser)
		u, err := url.Parse(w.Header().Get("Location"))
		if err != nil || u.Scheme != "https" || u.Host != "gw.example" {
			t.Fatalf("%s: to %q", target, w.Header().Get("Location"))
		}
		bound := u.Query().Get("binding") != ""
		if _, cookie := rig.JarOf(w)["__Host-authgate_login"]; cookie != bound {
			t.Errorf("%s: to %s with the cookies %q", target, u, w.Header()["Set-Cookie"])
		}
		return u.Path, u.Query()
	}
	for target, want := range map[string]string{
		"/signin":                  "/signin https://wiki.example.org/ true",
		"/signin?return_to=/a%3Fb": "/signin https://wiki.example.org/a?b true",
		"/login":                   "/login https://wiki.example.org/ true",
		"/signin?return_to=//evil": "/signin https://wiki.example.org/ true",
		"/signin?return_to=https://wiki.example.org/a":  "/signin https://wiki.example.org/a true",
		"/signin?return_to=https://gw.example/a":        "/signin /a false",
		"/signin?return_to=https://files.example.org/a": "/signin https://files.example.org/a false",
		"/signin?return_to=https://evil.example/a":      "/signin https://wiki.example.org/ true",
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
	r.WantAt("wiki.example.org", 401, "GET", "/a", "", rig.Browser, "Sec-Fetch-Mode: cors")
	r.WantAt("wiki.example.org", 401, "POST", "/a", "", rig.Browser)
	// The browser keeps its secret, which tabs share.
	first := r.WantAt("wiki.example.org", 302, "GET", "/a", "", rig.Browser)
	second := r.WantAt("wiki.example.org", 302, "GET", "/b", "", rig.Browser, rig.JarOf(first).Line())
	if rig.JarOf(first).Line() != rig.JarOf(second).Line() ||
		strings.Contains(second.Header().Get("Location"), rig.JarOf(first)["__Host-authgate_login"]) {
		t.Errorf("the cookies %q and %q, to %s", rig.JarOf(first), rig.JarOf(second), second.Header().Get("Location"))
	}
	// A wrong password keeps the way back.
	p := r.Person()
	_, page := p.Visit("GET", rig.PageOf("wiki.example.org"), "")
	_, wrong := p.Post(page, "mallory")
	if at, w := p.Post(wrong, "alice"); wrong.Code != 401 || at != rig.PageOf("wiki.example.org") || w.Code != 200 {
		t.Errorf("after a wrong password (%d) led to %s, %d", wrong.Code, at, w.Code)
	}
}

// Forms on the pages of the gateway may lead to its other hosts and to providers.
func TestFormsLeadToOtherHosts(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	r := rig.New(t, rig.Edit(t, rig.FiveHostsConfig, "https://gw.example",
		"https://gw.example:8443")+"tls: {domains: ['*.other.example', '192.0.2.50', '2001:db8::1', localhost]}\n"+
		"providers: [{name: small, issuer: \""+p.Issuer+"\", client_id: gateway}, {name: far, scopes: "+
		"[a], authorization_url: \"https://id.example/a\", token_url: \"https://id.example/t\", userinfo_url: "+
		"\"https://id.example/u\", client_id: x}]\n")
	want := "form-action 'self' https://wiki.example.org:8443 https://files.example.org:8443 " +
		"https://mail.example.net:8443 https://x.apps.example:8443 " +
		"https://*.other.example:8443 https://192.0.2.50:8443 " + p.Issuer + " https://id.example;"
	if got := r.Want(200, "GET", "/signin", "",
		rig.Browser).Header().Get("Content-Security-Policy"); !strings.Contains(got, want) {
		t.Errorf("the policy is %q, want %q", got, want)
	}
	in := rig.JarOf(r.WantAt("wiki.example.org", 200, "POST", "/login", rig.AliceForm, rig.Form)).Line()
	want = strings.Replace(want, " "+p.Issuer, " https://gw.example:8443 "+p.Issuer, 1)
	if got := r.WantAt("wiki.example.org", 200, "GET", "/me", "", in,
		rig.Browser).Header().Get("Content-Security-Policy"); !strings.Contains(got, want) {
		t.Errorf("at another host the policy is %q, want %q", got, want)
	}
}

// A sign-in at a provider leads to the other hosts too. The callback stays at public_url.
func TestProviderForAllHosts(t *testing.T) {
	t.Parallel()
	small := rig.NewProvider(t)
	yaml := strings.NewReplacer("auth: [session]", "auth: [oidc]", "auth: [session, bearer]",
		"auth: [oidc]").Replace(rig.FiveHostsConfig) +
		"  - {match: gw.example/local/, upstream: app, auth: [session]}\n" +
		"providers: [{name: small, issuer: \"" + small.Issuer + "\", client_id: gateway}]\n"
	r := rig.New(t, yaml)
	p := r.Person()
	// A local session does not count where only a provider's does.
	p.Ask("POST", "https://gw.example/login", rig.AliceForm, rig.Form)
	asked := func(place string) url.Values {
		t.Helper()
		p.Stop = func(place string) bool { return strings.HasPrefix(place, small.Issuer+"/authorize?") }
		defer func() { p.Stop = nil }()
		at, w := p.Visit("GET", place, "")
		u, err := url.Parse(at)
		if err != nil || w != nil {
			t.Fatalf("%s: led to %s, not to the provider", place, at)
		}
		return u.Query()
	}
	query := asked(rig.PageOf("wiki.example.org"))
	if got := query.Get("redirect_uri"); got != "https://gw.example/callback" {
		t.Errorf("the callback is %s", got)
	}
	answer := url.Values{"state": {query.Get("state")}, "code": {query.Get("nonce")}}.Encode()
	if w := p.Ask("GET", "https://wiki.example.org/callback?"+answer, ""); w.Code != 400 ||
		w.Header()["Set-Cookie"] != nil {
		t.Errorf("the callback at another host: %d %v", w.Code, w.Header())
	}
	// A browser goes on by itself, as the provider's page may not allow more redirects.
	w := p.Ask("GET", "https://gw.example/callback?"+answer, "", "Sec-Fetch-Mode: navigate")
	_, place, found := strings.Cut(w.Body.String(), `content="0; url=`)
	place, _, _ = strings.Cut(place, `"`)
	if w.Code != 200 || !found {
		t.Fatalf("the callback: %d %s", w.Code, w.Body)
	}
	if at, w := p.Visit("GET", place, ""); at != rig.PageOf("wiki.example.org") || w.Code != 200 ||
		small.Asked.Load() != 1 {
		t.Fatalf("led by %q to %s, %d", p.Trail, at, w.Code)
	}
	for _, host := range rig.FiveHosts {
		p.Sees(rig.PageOf(host), "carol")
		p.Sees(rig.PageOf(host), "carol")
	}
	if small.Asked.Load() != 1 {
		t.Errorf("the provider was asked %d times", small.Asked.Load())
	}
	p.Ask("POST", "https://mail.example.net/logout", "", "Origin: https://mail.example.net")
	for _, host := range rig.FiveHosts {
		asked(rig.PageOf(host))
	}
}

// A host that a wildcard in a route names is a host like the others, with a session that
// is of no use at the next one.
func TestSignInAtWildcardHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig+"  - {match: '*.wild.example/', name: wild, upstream: app, auth: [session]}\n")
	p := r.Person()
	if at, w := p.SignIn("https://a.wild.example/x", "alice"); at != "https://a.wild.example/x" || w.Code != 200 {
		t.Errorf("led by %q to %s, %d", p.Trail, at, w.Code)
	}
	p.Sees("https://b.wild.example/x", "alice")
	r.WantAt("b.wild.example", 401, "GET", "/x", "", p.Jars["a.wild.example"].Line("session_id"))
	r.WantAt("a.b.wild.example", 421, "GET", "/x", "", rig.Browser)
	if got := r.Want(200, "GET", "/signin", "",
		rig.Browser).Header().Get("Content-Security-Policy"); !strings.Contains(got, " https://*.wild.example;") {
		t.Errorf("the policy is %q", got)
	}
}

// With session.domain one cookie serves all hosts, and there are no tickets.
func TestSessionDomain(t *testing.T) {
	t.Parallel()
	yaml := strings.NewReplacer("https://gw.example", "https://gw.apps.example", "wiki.example.org", "wiki.apps.example",
		"files.example.org", "apps.example", "mail.example.net", "a.b.apps.example").
		Replace(rig.FiveHostsConfig) + "session: {domain: Apps.example}\n"
	r := rig.New(t, yaml)
	page := r.WantAt("wiki.apps.example", 302, "GET", "/x", "", rig.Browser)
	want := "https://gw.apps.example/signin?return_to=https%3A%2F%2Fwiki.apps.example%2Fx"
	if got := page.Header().Get("Location"); got != want || page.Header()["Set-Cookie"] != nil {
		t.Errorf("led to %s with %q", got, page.Header()["Set-Cookie"])
	}
	in := r.WantAt("gw.apps.example", 303, "POST", "/login",
		rig.AliceForm+"&return_to=https://wiki.apps.example/x&binding="+strings.Repeat("A", 43), rig.Form, rig.Browser)
	if got := in.Header().Get("Location"); got != "https://wiki.apps.example/x" {
		t.Errorf("after the sign-in to %s", got)
	}
	if got := in.Result().Cookies(); len(got) != 2 || got[0].Domain != "apps.example" ||
		got[1].Domain != "apps.example" {
		t.Errorf("the cookies %v", got)
	}
	cookie := rig.JarOf(in).Line("session_id")
	for _, host := range []string{"gw.apps.example", "wiki.apps.example", "apps.example", "a.b.apps.example",
		"x.apps.example"} {
		r.WantAt(host, 200, "GET", "/session/x", "", cookie)
	}
	r.WantAt("localhost", 401, "GET", "/session/x", "", cookie) // does not get it from a browser
	if got := r.WantAt("localhost", 302, "GET", "/session/x", "",
		rig.Browser).Header().Get("Location"); got != "https://gw.apps.example/signin?return_to=%2Fsession%2Fx" {
		t.Errorf("from a host without the cookie to %s", got)
	}
	r.WantAt("wiki.apps.example", 400, "GET", "/signin/complete?ticket="+strings.Repeat("A", 43), "", cookie)
	out := r.WantAt("a.b.apps.example", 200, "POST", "/logout", "", cookie)
	var domains []string
	for _, c := range out.Result().Cookies() {
		if c.Name == "session_id" && c.MaxAge < 0 {
			domains = append(domains, c.Domain)
		}
	}
	if !slices.Equal(domains, []string{"apps.example", ""}) {
		t.Errorf("cleared for the domains %q", domains)
	}
	r.WantAt("x.apps.example", 401, "GET", "/session/x", "", cookie)

	// A session of one scope is none of another, with any configuration.
	again := rig.JarOf(r.WantAt("gw.apps.example", 200, "POST", "/login", rig.Alice, rig.JSON)).Line("session_id")
	r.Reload(strings.Replace(yaml, "session: {domain: Apps.example}\n", "", 1))
	r.WantAt("gw.apps.example", 401, "GET", "/session/x", "", again)
}

// A host none of whose routes accepts a session gets none: a link to sign in there leads to
// public_url and back, and a binding for it counts for nothing.
func TestHostsWithoutSessions(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig+`
  - {match: open.example/, upstream: app, auth: [none]}
  - {match: api.example/, upstream: app, auth: [bearer, basic]}
  - {match: '*.open.example/', upstream: app, auth: [none]}
  - {match: 'GET part.example/', upstream: app, auth: [none]}
  - {match: a.wild.example/, upstream: app, auth: [none]}
  - {match: '*.wild.example/', upstream: app, auth: [session]}
`)
	p := r.Person()
	p.SignIn(rig.PageOf("gw.example"), "alice")
	for _, host := range []string{"open.example", "api.example", "x.open.example", "a.wild.example"} {
		w := r.WantAt(host, 302, "GET", "/signin?return_to=/x", "", rig.Browser)
		got, want := w.Header().Get("Location"), "https://gw.example/signin?return_to=https%3A%2F%2F"+host+"%2Fx"
		if got != want || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s: to %q with %q, want %q", host, got, w.Header()["Set-Cookie"], want)
		}
		for _, place := range []string{"https://" + host + "/signin",
			"https://gw.example/signin?return_to=https://" + host + "/x&binding=" + strings.Repeat("A", 43)} {
			at, w := p.Visit("GET", place, "")
			if !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 ||
				!strings.Contains(w.Body.String(), "https://"+host+"/") {
				t.Errorf("%s leads by %q to %s, %d", place, p.Trail, at, w.Code)
			}
		}
		w = r.Want(303, "POST", "/login", rig.AliceForm+"&return_to=https://"+host+"/x&binding="+strings.Repeat("A", 43),
			rig.Form, rig.Browser)
		if got := w.Header().Get("Location"); got != "https://"+host+"/x" {
			t.Errorf("after the form to %s", got)
		}
	}
	for _, host := range []string{"wiki.example.org", "part.example",
		"b.wild.example"} { // a route without a host is there too
		if w := r.WantAt(host, 302, "GET", "/signin", "", rig.Browser); !strings.Contains(w.Header().Get("Location"),
			"&binding=") {
			t.Errorf("%s: to %q", host, w.Header().Get("Location"))
		}
	}
}

const crossSite = "Sec-Fetch-Site: cross-site"
