package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// delegatedLogin: both users of each kind of provider and client get in, as
// who they are, and not further.
func delegatedLogin(t *testing.T, c *certified) {
	kinds := []struct {
		client
		openIDOptions
	}{
		{client{name: "secret-basic", method: "client_secret_basic"}, openIDOptions{Algorithm: "RS256"}},
		{client{name: "secret-post", method: "client_secret_post", more: ", token_endpoint_auth_method: client_secret_post"}, openIDOptions{Algorithm: "PS256"}},
		{client{name: "public", method: "none", more: ", callback: /auth/callback"}, openIDOptions{Algorithm: "EdDSA"}},
		{client{name: "online", scopes: "openid, profile, email, roles"}, openIDOptions{}},
		{client{name: "id-token"}, openIDOptions{RolesIn: []string{"id_token"}}},
		{client{name: "userinfo"}, openIDOptions{RolesIn: []string{"userinfo"}}},
	}
	up, g := record(t), prepared(t)
	providers := map[string]*openID{}
	config := delegatedRoutes + app(up.url) + "providers:\n"
	for _, kind := range kinds {
		p := c.provider(t, kind.openIDOptions)
		providers[kind.name] = p
		config += p.register(g, kind.client)
	}
	g.configure(config)
	g.run()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			d := &delegated{instance: g, p: providers[kind.name], up: up}
			alice, bob := d.browse(), d.browse()
			alice.signIn(g.base+"/login?provider="+kind.name, d.p, "alice")
			bob.signIn(g.base+"/login?provider="+kind.name, d.p, "bob")
			d.identifies(t, alice, http.StatusOK, map[string]string{
				"X-Auth-User": "alice.example", "X-Auth-Subject": kind.name + ":alice", "X-Auth-Name": "Alice Example", "X-Auth-Email": "alice@example.org",
				"X-Auth-Roles": "user,admin", "X-Auth-Mechanism": "oidc", "X-Auth-Provider": kind.name, "Cookie": "",
			})
			d.identifies(t, bob, http.StatusForbidden, map[string]string{ // his e-mail address is not verified
				"X-Auth-User": "bob.example", "X-Auth-Subject": kind.name + ":bob", "X-Auth-Name": "Bob Example", "X-Auth-Email": "",
				"X-Auth-Roles": "user", "X-Auth-Mechanism": "oidc", "X-Auth-Provider": kind.name, "Cookie": "",
			})
		})
	}
}

// identifies checks whom the upstream takes a browser's user for, and what
// /admin-resource answers.
func (d *delegated) identifies(t *testing.T, b *browser, admin int, want map[string]string) {
	t.Helper()
	if got := d.status(b.c, "GET", "/secure-resource"); got != http.StatusOK {
		t.Fatalf("/secure-resource is %d; the browser shows %s\n%s", got, b.describe(), d.log)
	}
	wantHeaders(t, d.up.one(t), want)
	if got := d.status(b.c, "GET", "/admin-resource"); got != admin {
		t.Errorf("/admin-resource is %d for %s", got, want["X-Auth-Subject"])
	}
	if admin == http.StatusOK {
		wantHeaders(t, d.up.one(t), want)
	}
	d.up.none(t)
}

// wantHeaders checks headers of a message; an empty one must not be there.
func wantHeaders(t *testing.T, m message, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = m.value(t, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the upstream got (-want +got):\n%s", diff)
	}
}

// delegatedCookies: what a login leaves in the browser, what /me says, and
// that the callback is good once.
func delegatedCookies(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b := d.browse()
	b.stopAt = d.base + "/callback?"
	b.signIn(d.base+"/login", d.p, "alice")
	if b.next == "" {
		t.Fatalf("the provider does not send the browser back: %s", b.describe())
	}
	if d.p.asked("POST /token") != 0 {
		t.Error("the code was exchanged before it was there")
	}
	a := d.do(b.c, "GET", strings.TrimPrefix(b.next, d.base), "")
	if a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Fatalf("the callback answers %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
	session := cookieNamed(t, a, "session")
	if len(session.Value) < 22 {
		t.Errorf("the session has the identifier %q", session.Value)
	}
	session.Value, session.Raw = "", ""
	want := &http.Cookie{Name: "session", Path: "/", MaxAge: 3600, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
	if diff := cmp.Diff(want, session); diff != "" {
		t.Errorf("the cookie (-want +got):\n%s", diff)
	}

	d.wantMe(t, b)
	again := d.do(b.c, "GET", strings.TrimPrefix(b.next, d.base), "") // the back button
	if again.status != http.StatusBadRequest || again.header.Get("Set-Cookie") != "" {
		t.Errorf("the callback, used again: %d, %q", again.status, again.header.Get("Set-Cookie"))
	}
	if got := d.p.asked("POST /token"); got != 1 {
		t.Errorf("the token endpoint was asked %d times", got)
	}
	d.lives(t, d.session(b))
}

// wantMe checks what /me says to alice.
func (d *delegated) wantMe(t *testing.T, b *browser) {
	t.Helper()
	var me map[string]any
	a := d.do(b.c, "GET", "/me", "")
	if err := json.Unmarshal([]byte(a.body), &me); err != nil {
		t.Fatalf("/me: %d %v", a.status, err)
	}
	if at, _ := me["expires_at"].(string); !strings.HasSuffix(at, "Z") {
		t.Errorf("expires_at is %v", me["expires_at"])
	}
	delete(me, "expires_at")
	if diff := cmp.Diff(map[string]any{
		"username": "alice.example", "name": "Alice Example", "email": "alice@example.org", "roles": []any{"user", "admin"},
		"mechanism": "oidc", "provider": "certified",
	}, me); diff != "" {
		t.Errorf("/me (-want +got):\n%s", diff)
	}
}

// cookieNamed is the cookie that an answer sets under a name, once.
func cookieNamed(t *testing.T, a answer, name string) *http.Cookie {
	t.Helper()
	var found []*http.Cookie
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == name {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the cookie %s is set %d times: %q", name, len(found), a.header["Set-Cookie"])
	}
	return found[0]
}

// authorizationRequest: every parameter of it, and the cookie that binds it to
// the browser.
func authorizationRequest(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{more: `, authorization_params: {ui_locales: "de en"}`}, "")
	client := d.client()
	first, second := d.do(client, "GET", "/login", ""), d.do(client, "GET", "/login", "")
	queries := map[string]bool{}
	for _, a := range []answer{first, second} {
		to, err := url.Parse(a.header.Get("Location"))
		if err != nil || a.status != http.StatusFound || to.Scheme+"://"+to.Host+to.Path != d.p.issuer+"/auth" {
			t.Fatalf("/login: %d to %q, %v", a.status, a.header.Get("Location"), err)
		}
		query := to.Query()
		for name, length := range map[string]int{"state": 43, "nonce": 43, "code_challenge": 43} {
			value := query.Get(name)
			if len(value) < length || queries[value] {
				t.Errorf("%s is %q", name, value)
			}
			queries[value] = true
			query.Del(name)
		}
		if diff := cmp.Diff(url.Values{
			"response_type": {"code"}, "client_id": {"gateway"}, "redirect_uri": {d.base + "/callback"},
			"scope": {"openid profile email roles offline_access"}, "code_challenge_method": {"S256"},
			"prompt": {"consent"}, "ui_locales": {"de en"},
		}, query); diff != "" {
			t.Errorf("the request (-want +got):\n%s", diff)
		}
	}
	const name = "__Host-authgate_login"
	binding := cookieNamed(t, first, name)
	if binding.MaxAge <= 0 || binding.MaxAge > 3600 || len(binding.Value) < 43 {
		t.Errorf("the cookie of the attempt: %q for %d s", binding.Value, binding.MaxAge)
	}
	value := binding.Value
	binding.Value, binding.Raw, binding.MaxAge = "", "", 0
	if diff := cmp.Diff(&http.Cookie{Name: name, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}, binding); diff != "" {
		t.Errorf("the cookie of the attempt (-want +got):\n%s", diff)
	}
	base, err := url.Parse(d.base)
	if err != nil {
		t.Fatal(err)
	}
	if all := client.Jar.Cookies(base); len(all) != 1 || all[0].Value != value {
		t.Errorf("after two attempts the browser has the cookies %v", all)
	}
}

// returnTo: who came to a page is there after the login; nobody is sent to
// another site.
func returnTo(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	const page = "/secure-resource?x=1&y=a%20b"
	b := d.browse()
	b.open(d.base + page)
	if b.url.Scheme+"://"+b.url.Host == d.base { // the sign-in page names the provider
		b.click(linkTo(t, b, "/login"))
	}
	d.up.none(t)
	b.consent(d.p, "alice")
	if got := d.up.one(t).target(); got != page {
		t.Errorf("after the login the browser asks for %s: %s", got, b.describe())
	}
	for to, want := range map[string]string{
		page: page, "/": "/",
		"https://evil.example/": "/", "//evil.example/": "/", `/\evil.example/`: "/", "/%2f/evil.example": "/", "javascript:alert(1)": "/", "": "/",
	} {
		b.signIn(d.base+"/login?return_to="+url.QueryEscape(to), d.p, "alice")
		if got := b.url.String(); got != d.base+want {
			t.Errorf("return_to %q leads to %s", to, got)
		}
	}
}

// linkTo is the address of the first link of the page that holds a text.
func linkTo(t *testing.T, b *browser, part string) string {
	t.Helper()
	for _, address := range b.links() {
		if strings.Contains(address, part) {
			return address
		}
	}
	t.Fatalf("no link to %s: %s", part, b.describe())
	return ""
}

// ownPrefix: with endpoints.prefix the application's own paths are its own,
// and the provider sends people to the gateway's.
func ownPrefix(t *testing.T, c *certified) {
	for callback, path := range map[string]string{"/callback": "/auth/callback", "/auth/callback": "/auth/auth/callback"} {
		t.Run(callback, func(t *testing.T) {
			t.Parallel()
			d := c.gateway(t, openIDOptions{}, client{prefix: "/auth/", more: ", callback: " + callback},
				"endpoints: {prefix: /auth/}\n"+strings.Replace(delegatedRoutes, "routes:\n", "routes:\n  - {match: /, upstream: app, auth: [none]}\n", 1))
			b := d.browse()
			b.open(d.base + "/login")
			b.open(d.base + "/callback?code=x&state=y")
			if got := d.up.all(); len(got) != 2 {
				t.Errorf("of the application's own two paths %d reached it: %s", len(got), b.describe())
			}
			b.stopAt = d.base + path + "?"
			b.signIn(d.base+"/auth/login", d.p, "alice")
			if b.next == "" {
				t.Fatalf("the provider does not send the browser to %s: %s", path, b.describe())
			}
			back := b.next
			b.stopAt = ""
			b.open(back)
			d.up.all()
			d.lives(t, d.session(b))
		})
	}
}

// refusedAtProvider: who gives up there, or is refused, is not in here.
func refusedAtProvider(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	for _, test := range []struct {
		name   string
		refuse func(*browser)
		page   string // where the person learns of it
	}{
		{"given up", func(b *browser) {
			b.open(d.base + "/login")
			b.click(linkTo(t, b, "/abort"))
		}, d.base + "/callback?"},
		{"consent refused", func(b *browser) {
			b.open(d.base + "/login")
			b.send(map[string]string{"login": "alice", "password": "as good as any"})
			b.click(linkTo(t, b, "/abort"))
		}, d.base + "/callback?"},
		{"unknown user", func(b *browser) {
			b.signIn(d.base+"/login", d.p, "mallory")
		}, d.p.issuer + "/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := d.browse()
			test.refuse(b)
			if !strings.HasPrefix(b.url.String(), test.page) || !strings.HasPrefix(b.page.header.Get("Content-Type"), "text/html") {
				t.Errorf("expected a page of %s: %s", test.page, b.describe())
			}
			if b.url.Path == "/callback" && b.page.status != http.StatusUnauthorized {
				t.Errorf("expected 401: %s", b.describe())
			}
			if b.cookie(d.base, "session") != "" {
				t.Error("there is a session")
			}
			if got := d.status(b.c, "GET", "/secure-resource"); got != http.StatusUnauthorized {
				t.Errorf("/secure-resource is %d", got)
			}
			d.up.none(t)
		})
	}
}

// manyLogins: twenty people at once cost the provider one discovery and one
// look at its keys.
func manyLogins(t *testing.T, c *certified) {
	const people = 20
	d := c.gateway(t, openIDOptions{}, client{}, "")
	browsers := make([]*browser, people)
	for i := range browsers {
		browsers[i] = d.browse()
	}
	location := make([]string, people)
	many(people, func(i int) {
		a, err := d.try(browsers[i].c, "GET", "/login", "")
		if err != nil || a.status != http.StatusFound {
			t.Errorf("/login: %d %v %s", a.status, err, a.body)
		}
		location[i] = a.header.Get("Location")
	})
	if t.Failed() {
		t.FailNow()
	}
	for i, b := range browsers {
		b.stopAt = d.base
		b.open(location[i])
		b.consent(d.p, "alice")
	}
	many(people, func(i int) {
		a, err := d.try(browsers[i].c, "GET", strings.TrimPrefix(browsers[i].next, d.base), "")
		if err != nil || a.status != http.StatusFound {
			t.Errorf("/callback: %d %v %s", a.status, err, a.body)
		}
	})
	sessions := map[string]bool{}
	for _, b := range browsers {
		s := d.session(b)
		sessions[s] = true
		d.lives(t, s)
	}
	if len(sessions) != people {
		t.Errorf("%d people have %d sessions", people, len(sessions))
	}
	requests := d.p.state().Requests
	for what, want := range map[string]int{"GET /.well-known/openid-configuration": 1, "GET /jwks": 1, "POST /token": people} {
		if requests[what] != want {
			t.Errorf("%s came %d times, expected %d", what, requests[what], want)
		}
	}
}
