package oidc

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"

	"github.com/google/go-cmp/cmp"
)

// delegatedLogin: with each kind of provider and client, both users get what
// their roles allow, and the upstream gets their identity.
func delegatedLogin(t *testing.T, c *world.Certified) {
	kinds := []struct {
		world.ProviderClient
		world.ProviderOptions
	}{
		{world.ProviderClient{Name: "secret-basic", Method: "client_secret_basic"},
			world.ProviderOptions{Algorithm: "RS256"}},
		{world.ProviderClient{Name: "secret-post", Method: "client_secret_post",
			More: ", token_endpoint_auth_method: client_secret_post"}, world.ProviderOptions{Algorithm: "PS256"}},
		{world.ProviderClient{Name: "public", Method: "none", More: ", callback: /auth/callback"},
			world.ProviderOptions{Algorithm: "EdDSA"}},
		{world.ProviderClient{Name: "online", Scopes: "openid, profile, email, roles"}, world.ProviderOptions{}},
		{world.ProviderClient{Name: "id-token"}, world.ProviderOptions{RolesIn: []string{"id_token"}}},
		{world.ProviderClient{Name: "userinfo"}, world.ProviderOptions{RolesIn: []string{"userinfo"}}},
	}
	up, g := world.Record(t), world.Prepare(t)
	providers := map[string]*world.Provider{}
	config := world.DelegatedRoutes + world.App(up.URL) + "providers:\n"
	for _, kind := range kinds {
		p := c.Provider(t, kind.ProviderOptions)
		providers[kind.Name] = p
		config += p.Register(g, kind.ProviderClient)
	}
	g.Configure(config)
	g.Run()
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) {
			d := &world.Delegated{Instance: g, Provider: providers[kind.Name], Up: up}
			for _, person := range []struct {
				user, name, email, roles string
				admin                    int
			}{
				{"alice", "Alice Example", "alice@example.org", "user,admin", http.StatusOK},
				{"bob", "Bob Example", "", "user", http.StatusForbidden}, // his e-mail address is not verified
			} {
				b := browse(d.Instance)
				b.signIn(g.Base+"/login?provider="+kind.Name, d.Provider, person.user)
				identifies(t, d, b, person.admin, map[string]string{
					"X-Auth-User": person.user + ".example", "X-Auth-Subject": kind.Name + ":" + person.user,
					"X-Auth-Name": person.name, "X-Auth-Email": person.email,
					"X-Auth-Roles": person.roles, "X-Auth-Mechanism": "oidc", "X-Auth-Provider": kind.Name, "Cookie": "",
				})
			}
		})
	}
}

// identifies checks the identity that the upstream gets of a browser's user, and
// what /admin-resource answers.
func identifies(t *testing.T, d *world.Delegated, b *browser, admin int, want map[string]string) {
	t.Helper()
	if got := d.Status(b.Client, "GET", "/secure-resource"); got != http.StatusOK {
		t.Fatalf("/secure-resource is %d; the browser shows %s\n%s", got, b.Describe(), d.Log)
	}
	wantHeaders(t, d.Up.One(t), want)
	if got := d.Status(b.Client, "GET", "/admin-resource"); got != admin ||
		len(d.Up.All()) != map[int]int{http.StatusOK: 1}[got] {
		t.Errorf("/admin-resource is %d for %s", got, want["X-Auth-Subject"])
	}
}

// wantHeaders checks headers of a message; an empty one must be missing.
func wantHeaders(t *testing.T, m world.Message, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = m.Value(t, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the upstream got (-want +got):\n%s", diff)
	}
}

// delegatedPages: a page leads to the provider and back to it, and the session's
// cookie is as it should be. A sign-in that ends at the provider gives no session.
func delegatedPages(t *testing.T, c *world.Certified) {
	d := c.Start(t, world.ProviderOptions{}, world.ProviderClient{}, "")
	const page = "/secure-resource?x=1&y=a%20b"
	b := browse(d.Instance)
	b.Open(d.Base + page)
	d.Up.None(t)
	b.StopAt = d.Base + "/callback?"
	b.consent(d.Provider, "alice")
	if b.Next == "" || d.Provider.Asked("POST /token") != 0 {
		t.Fatalf("the provider does not send the browser back: %s", b.Describe())
	}
	a := d.Do(b.Client, "GET", strings.TrimPrefix(b.Next, d.Base), "")
	if a.Status != http.StatusFound || a.Header.Get("Location") != page || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the callback answers %d to %q, Cache-Control %q: %s", a.Status, a.Header.Get("Location"),
			a.Header.Get("Cache-Control"), a.Body)
	}
	session := world.CookieNamed(t, a, "session")
	if len(session.Value) < 22 {
		t.Errorf("the session has the identifier %q", session.Value)
	}
	session.Value = ""
	untimed(t, session)
	want := &http.Cookie{Name: "session", Path: "/", MaxAge: 3600, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteLaxMode}
	if diff := cmp.Diff(want, session); diff != "" {
		t.Errorf("the cookie (-want +got):\n%s", diff)
	}
	me := d.Do(b.Client, "GET", "/me", "").Body
	for _, part := range []string{`"username":"alice.example"`, `"roles":["user","admin"]`, `"mechanism":"oidc"`,
		`"provider":"certified"`} {
		if !strings.Contains(me, part) {
			t.Errorf("/me has no %s: %s", part, me)
		}
	}
	wantIn(t, d, sessionOf(d, b))

	for page, refuse := range map[string]func(*browser){
		d.Base + "/callback?": func(b *browser) { // the person gives up
			b.Open(d.Base + "/login")
			b.Open(b.Links()[0])
		},
		d.Provider.Issuer + "/": func(b *browser) {
			b.signIn(d.Base+"/login", d.Provider,
				"mallory")
		}, // whom the provider does not know
	} {
		b := browse(d.Instance)
		refuse(b)
		if !strings.HasPrefix(b.URL.String(), page) || b.URL.Path == "/callback" && b.Page.Status != http.StatusUnauthorized {
			t.Errorf("expected a page of %s that refuses: %s", page, b.Describe())
		}
		if got := d.Status(b.Client, "GET", "/secure-resource"); got != http.StatusUnauthorized ||
			b.Cookie(d.Base, "session") != "" {
			t.Errorf("/secure-resource is %d after a refusal", got)
		}
		d.Up.None(t)
	}
}

// ownPrefix: with endpoints.prefix the provider sends people to the gateway's
// paths, and the application keeps its own.
func ownPrefix(t *testing.T, c *world.Certified) {
	d := c.Start(t, world.ProviderOptions{}, world.ProviderClient{Prefix: "/auth/", More: ", callback: /auth/callback"},
		"endpoints: {prefix: /auth/}\n"+strings.Replace(world.DelegatedRoutes, "routes:\n",
			"routes:\n  - {match: /, upstream: app, auth: [none]}\n", 1))
	b := browse(d.Instance)
	b.Open(d.Base + "/login")
	b.Open(d.Base + "/callback?code=x&state=y")
	if got := d.Up.All(); len(got) != 2 {
		t.Errorf("%d of two requests reached the application: %s", len(got), b.Describe())
	}
	b.StopAt = d.Base + "/auth/auth/callback?"
	b.signIn(d.Base+"/auth/login", d.Provider, "alice")
	if b.Next == "" {
		t.Fatalf("the provider does not send the browser to %s: %s", b.StopAt, b.Describe())
	}
	b.StopAt = ""
	b.Open(b.Next)
	d.Up.All()
	wantIn(t, d, sessionOf(d, b))
}

// sessionGoesOn: changes at the provider show without a new login. A provider that is down ends no session, a restart
// of the gateway ends none, and a grant that the provider ends does.
func sessionGoesOn(t *testing.T, c *world.Certified) {
	d := c.Start(t, world.ProviderOptions{AccessTokenLifetime: 2}, world.ProviderClient{}, "")
	alice, bob := sessionOf(d, signedIn(d, "alice")), sessionOf(d, signedIn(d, "bob"))
	d.Provider.Account("alice", map[string]any{"roles": []string{"user"}})
	d.Provider.Account("bob", map[string]any{"roles": []string{"user", "admin"}, "email_verified": true})
	client := d.Stranger()
	world.Until(t, "alice to lose the role admin", func() bool {
		return d.Status(client, "GET", "/admin-resource", "Cookie", alice) == http.StatusForbidden
	})
	world.Until(t, "bob to get the role admin", func() bool {
		return d.Status(client, "GET", "/admin-resource", "Cookie", bob) == http.StatusOK
	})
	d.Up.All()
	if got := d.Status(client, "GET", "/admin-resource", "Cookie", bob); got != http.StatusOK {
		t.Fatalf("/admin-resource is %d", got)
	}
	wantHeaders(t, d.Up.One(t), map[string]string{"X-Auth-Roles": "user,admin", "X-Auth-Email": "bob@example.org",
		"X-Auth-Subject": "certified:bob"})

	d.Provider.Do("down", nil)
	d.Provider.Account("bob", map[string]any{"roles": []string{"user"}})
	world.Until(t, "a refresh that fails", func() bool {
		wantIn(t, d, bob)
		return strings.Contains(d.Log.String(), "connection refused")
	})
	if got := d.Status(client, "GET", "/admin-resource", "Cookie", bob); got != http.StatusOK {
		t.Errorf("with the last known roles, /admin-resource is %d", got)
	}
	d.Signal(syscall.SIGTERM)
	<-d.Done
	d.Provider.Do("up", nil)
	d.Run()
	client = d.Stranger()
	world.Until(t, "the new roles", func() bool {
		return d.Status(client, "GET", "/admin-resource", "Cookie", bob) == http.StatusForbidden
	})
	wantIn(t, d, bob)

	wantIn(t, d, alice)
	d.Provider.Do("revoke", "alice")
	world.Until(t, "the end of the session", func() bool {
		return d.Status(client, "GET", "/secure-resource", "Cookie", alice) == http.StatusUnauthorized
	})
	wantOut(t, d, alice)
	wantIn(t, d, bob)
}

// providerDownAtStart: while a provider is down its own logins fail, and nothing
// else does.
func providerDownAtStart(t *testing.T, c *world.Certified) {
	d := c.Prepare(t, world.ProviderOptions{}, world.ProviderClient{More: ", timeout: 1s"},
		strings.ReplaceAll(world.DelegatedRoutes, "[oidc]", "[session, bearer, oidc]")+world.People)
	d.Provider.Do("down", nil)
	d.Run()
	local := d.SignIn(d.Stranger(), "alice")
	wantIn(t, d, local.Session)
	b := browse(d.Instance)
	wantPage := func(status int) {
		t.Helper()
		world.Until(t, "another answer of /login", func() bool {
			b.Open(d.Base + "/login")
			return b.Page.Status == status
		})
		if !strings.HasPrefix(b.Page.Header.Get("Content-Type"), "text/html") || b.Cookie(d.Base, "session") != "" {
			t.Errorf("no page, or a session: %s", b.Describe())
		}
	}
	b.Open(d.Base + "/login")
	if b.Page.Status != http.StatusBadGateway {
		t.Errorf("with the provider down, expected 502: %s", b.Describe())
	}
	d.Provider.Do("hold", true)
	d.Provider.Do("up", nil)
	wantPage(http.StatusGatewayTimeout)
	d.Provider.Do("hold", false)
	wantPage(http.StatusOK) // of the provider
	b.StopAt = d.Base + "/callback?"
	b.consent(d.Provider, "alice")
	d.Provider.Do("down", nil)
	b.StopAt = ""
	b.Open(b.Next)
	if b.Page.Status != http.StatusBadGateway || b.Cookie(d.Base, "session") != "" {
		t.Errorf("with the provider down again, expected 502: %s", b.Describe())
	}
	d.Provider.Do("up", nil)
	world.Until(t, "a provider that answers within its timeout", func() bool {
		b = signedIn(d, "alice")
		return b.Cookie(d.Base, "session") != ""
	})
	wantIn(t, d, sessionOf(d, b))
	wantIn(t, d, local.Session)
}
