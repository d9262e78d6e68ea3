package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

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
	d.lives(t, d.session(d.signedIn("alice")))
	d.lives(t, local.session)
}
