package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// delegatedLogin: with each kind of provider and client, both users get what
// their roles allow, and the upstream gets their identity.
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
			for _, person := range []struct {
				user, name, email, roles string
				admin                    int
			}{
				{"alice", "Alice Example", "alice@example.org", "user,admin", http.StatusOK},
				{"bob", "Bob Example", "", "user", http.StatusForbidden}, // his e-mail address is not verified
			} {
				b := d.browse()
				b.signIn(g.base+"/login?provider="+kind.name, d.p, person.user)
				d.identifies(t, b, person.admin, map[string]string{
					"X-Auth-User": person.user + ".example", "X-Auth-Subject": kind.name + ":" + person.user, "X-Auth-Name": person.name, "X-Auth-Email": person.email,
					"X-Auth-Roles": person.roles, "X-Auth-Mechanism": "oidc", "X-Auth-Provider": kind.name, "Cookie": "",
				})
			}
		})
	}
}

// identifies checks the identity that the upstream gets of a browser's user, and
// what /admin-resource answers.
func (d *delegated) identifies(t *testing.T, b *browser, admin int, want map[string]string) {
	t.Helper()
	if got := d.status(b.c, "GET", "/secure-resource"); got != http.StatusOK {
		t.Fatalf("/secure-resource is %d; the browser shows %s\n%s", got, b.describe(), d.log)
	}
	wantHeaders(t, d.up.one(t), want)
	if got := d.status(b.c, "GET", "/admin-resource"); got != admin || len(d.up.all()) != map[int]int{http.StatusOK: 1}[got] {
		t.Errorf("/admin-resource is %d for %s", got, want["X-Auth-Subject"])
	}
}

// wantHeaders checks headers of a message; an empty one must be missing.
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

// delegatedPages: a page leads to the provider and back to it, and the session's
// cookie is as it should be. A sign-in that ends at the provider gives no session.
func delegatedPages(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	const page = "/secure-resource?x=1&y=a%20b"
	b := d.browse()
	b.open(d.base + page)
	d.up.none(t)
	b.stopAt = d.base + "/callback?"
	b.consent(d.p, "alice")
	if b.next == "" || d.p.asked("POST /token") != 0 {
		t.Fatalf("the provider does not send the browser back: %s", b.describe())
	}
	a := d.do(b.c, "GET", strings.TrimPrefix(b.next, d.base), "")
	if a.status != http.StatusFound || a.header.Get("Location") != page || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the callback answers %d to %q, Cache-Control %q: %s", a.status, a.header.Get("Location"), a.header.Get("Cache-Control"), a.body)
	}
	session := cookieNamed(t, a, "session")
	if len(session.Value) < 22 {
		t.Errorf("the session has the identifier %q", session.Value)
	}
	session.Value = ""
	untimed(t, session)
	want := &http.Cookie{Name: "session", Path: "/", MaxAge: 3600, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
	if diff := cmp.Diff(want, session); diff != "" {
		t.Errorf("the cookie (-want +got):\n%s", diff)
	}
	me := d.do(b.c, "GET", "/me", "").body
	for _, part := range []string{`"username":"alice.example"`, `"roles":["user","admin"]`, `"mechanism":"oidc"`, `"provider":"certified"`} {
		if !strings.Contains(me, part) {
			t.Errorf("/me has no %s: %s", part, me)
		}
	}
	d.lives(t, d.session(b))

	for page, refuse := range map[string]func(*browser){
		d.base + "/callback?": func(b *browser) { // the person gives up
			b.open(d.base + "/login")
			b.open(b.links()[0])
		},
		d.p.issuer + "/": func(b *browser) { b.signIn(d.base+"/login", d.p, "mallory") }, // whom the provider does not know
	} {
		b := d.browse()
		refuse(b)
		if !strings.HasPrefix(b.url.String(), page) || b.url.Path == "/callback" && b.page.status != http.StatusUnauthorized {
			t.Errorf("expected a page of %s that refuses: %s", page, b.describe())
		}
		if got := d.status(b.c, "GET", "/secure-resource"); got != http.StatusUnauthorized || b.cookie(d.base, "session") != "" {
			t.Errorf("/secure-resource is %d after a refusal", got)
		}
		d.up.none(t)
	}
}

// cookieNamed returns the one cookie of a name that an answer sets.
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

// ownPrefix: with endpoints.prefix the provider sends people to the gateway's
// paths, and the application keeps its own.
func ownPrefix(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{prefix: "/auth/", more: ", callback: /auth/callback"},
		"endpoints: {prefix: /auth/}\n"+strings.Replace(delegatedRoutes, "routes:\n", "routes:\n  - {match: /, upstream: app, auth: [none]}\n", 1))
	b := d.browse()
	b.open(d.base + "/login")
	b.open(d.base + "/callback?code=x&state=y")
	if got := d.up.all(); len(got) != 2 {
		t.Errorf("%d of two requests reached the application: %s", len(got), b.describe())
	}
	b.stopAt = d.base + "/auth/auth/callback?"
	b.signIn(d.base+"/auth/login", d.p, "alice")
	if b.next == "" {
		t.Fatalf("the provider does not send the browser to %s: %s", b.stopAt, b.describe())
	}
	b.stopAt = ""
	b.open(b.next)
	d.up.all()
	d.lives(t, d.session(b))
}

// sessionGoesOn: changes at the provider show without a new login. A provider that is down ends no session, a restart of
// the gateway ends none, and a grant that the provider ends does.
func sessionGoesOn(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "")
	alice, bob := d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	d.p.account("alice", map[string]any{"roles": []string{"user"}})
	d.p.account("bob", map[string]any{"roles": []string{"user", "admin"}, "email_verified": true})
	client := d.stranger()
	until(t, "alice to lose the role admin", func() bool {
		return d.status(client, "GET", "/admin-resource", "Cookie", alice) == http.StatusForbidden
	})
	until(t, "bob to get the role admin", func() bool {
		return d.status(client, "GET", "/admin-resource", "Cookie", bob) == http.StatusOK
	})
	d.up.all()
	if got := d.status(client, "GET", "/admin-resource", "Cookie", bob); got != http.StatusOK {
		t.Fatalf("/admin-resource is %d", got)
	}
	wantHeaders(t, d.up.one(t), map[string]string{"X-Auth-Roles": "user,admin", "X-Auth-Email": "bob@example.org", "X-Auth-Subject": "certified:bob"})

	d.p.do("down", nil)
	d.p.account("bob", map[string]any{"roles": []string{"user"}})
	until(t, "a refresh that fails", func() bool {
		d.lives(t, bob)
		return strings.Contains(d.log.String(), "connection refused")
	})
	if got := d.status(client, "GET", "/admin-resource", "Cookie", bob); got != http.StatusOK {
		t.Errorf("with the last known roles, /admin-resource is %d", got)
	}
	d.signal(syscall.SIGTERM)
	<-d.done
	d.p.do("up", nil)
	d.run()
	client = d.stranger()
	until(t, "the new roles", func() bool {
		return d.status(client, "GET", "/admin-resource", "Cookie", bob) == http.StatusForbidden
	})
	d.lives(t, bob)

	d.lives(t, alice)
	d.p.do("revoke", "alice")
	until(t, "the end of the session", func() bool {
		return d.status(client, "GET", "/secure-resource", "Cookie", alice) == http.StatusUnauthorized
	})
	d.ended(t, alice)
	d.lives(t, bob)
}

// providerDownAtStart: while a provider is down its own logins fail, and nothing
// else does.
func providerDownAtStart(t *testing.T, c *certified) {
	d := c.prepared(t, openIDOptions{}, client{more: ", timeout: 1s"},
		strings.ReplaceAll(delegatedRoutes, "[oidc]", "[session, bearer, oidc]")+people)
	d.p.do("down", nil)
	d.run()
	local := d.signIn(d.stranger(), "alice")
	d.lives(t, local.session)
	b := d.browse()
	wantPage := func(status int) {
		t.Helper()
		until(t, "another answer of /login", func() bool {
			b.open(d.base + "/login")
			return b.page.status == status
		})
		if !strings.HasPrefix(b.page.header.Get("Content-Type"), "text/html") || b.cookie(d.base, "session") != "" {
			t.Errorf("no page, or a session: %s", b.describe())
		}
	}
	b.open(d.base + "/login")
	if b.page.status != http.StatusBadGateway {
		t.Errorf("with the provider down, expected 502: %s", b.describe())
	}
	d.p.do("hold", true)
	d.p.do("up", nil)
	wantPage(http.StatusGatewayTimeout)
	d.p.do("hold", false)
	wantPage(http.StatusOK) // of the provider
	b.stopAt = d.base + "/callback?"
	b.consent(d.p, "alice")
	d.p.do("down", nil)
	b.stopAt = ""
	b.open(b.next)
	if b.page.status != http.StatusBadGateway || b.cookie(d.base, "session") != "" {
		t.Errorf("with the provider down again, expected 502: %s", b.describe())
	}
	d.p.do("up", nil)
	until(t, "a provider that answers within its timeout", func() bool {
		b = d.signedIn("alice")
		return b.cookie(d.base, "session") != ""
	})
	d.lives(t, d.session(b))
	d.lives(t, local.session)
}
