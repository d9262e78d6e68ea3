package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

// sessionGoesOn: changes at the provider show without a new login. A provider that is down ends no session, a restart of
// the gateway ends none, and a grant that the provider ends does. The log has no
// secret, also at level debug.
func sessionGoesOn(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "log: {level: debug}\n")
	browser := d.signedIn("alice")
	alice, bob := d.session(browser), d.session(d.signedIn("bob"))
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
	d.logsNo(t, browser, alice, bob)
}

// restartMeanwhile: the gateway learns of new keys when it sees one used. When
// the provider restarts while people sign in, one that keeps its records goes on;
// with one that does not, people see an error and can try again.
func restartMeanwhile(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	before := d.session(d.signedIn("alice"))
	b := d.browse()
	b.open(d.base + "/login") // the provider's page is open
	d.p.do("down", nil)
	d.p.do("rotate", nil)
	d.p.do("up", nil)
	b.consent(d.p, "alice")
	d.lives(t, d.session(b))
	d.lives(t, d.session(d.signedIn("bob")))
	d.lives(t, before)
	if got := d.p.asked("GET /jwks"); got != 2 {
		t.Errorf("the gateway requested the keys %d times, expected once for each set", got)
	}

	b = d.browse()
	b.stopAt = d.base + "/callback?"
	b.signIn(d.base+"/login", d.p, "alice")
	d.p.do("down", nil)
	d.p.do("forget", nil) // the code among other things
	d.p.do("rotate", nil)
	d.p.do("up", nil)
	b.stopAt = ""
	d.up.all()
	b.open(b.next)
	if b.page.status != http.StatusUnauthorized || b.cookie(d.base, "session") != "" {
		t.Errorf("a code that the provider does not know: %s", b.describe())
	}
	if got := d.status(b.c, "GET", "/secure-resource"); got != http.StatusUnauthorized {
		t.Errorf("/secure-resource is %d", got)
	}
	d.up.none(t)
	b.signIn(d.base+"/login", d.p, "alice")
	d.lives(t, d.session(b))
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
	d.lives(t, d.session(d.signedIn("alice")))
	d.lives(t, local.session)
}

// logsNo fails the test if the log of the gateway has a secret: a token of the
// provider, a session, or what a browser carried between the two.
func (d *delegated) logsNo(t *testing.T, b *browser, sessions ...string) {
	t.Helper()
	const signed = "eyJhbGciOi" // the beginning of every signed token
	secrets := append(d.p.state().Tokens, signed, certifiedSecret)
	for _, session := range sessions {
		secrets = append(secrets, strings.TrimPrefix(session, "session="))
	}
	for _, address := range b.history {
		for _, name := range []string{"code", "state", "nonce"} {
			if value := address.Query().Get(name); value != "" {
				secrets = append(secrets, value, url.QueryEscape(value))
			}
		}
	}
	if len(secrets) < 10 {
		t.Fatalf("%d secrets are too few for a test", len(secrets))
	}
	for _, secret := range secrets {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the log has the secret %.6s…", secret)
		}
	}
}
