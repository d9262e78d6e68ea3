package e2e

import (
	"encoding/base64"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// freshRoles: what changes at the provider shows without a new login, though
// every refresh token is good for one use only.
func freshRoles(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "")
	alice, bob := d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	d.p.account("alice", map[string]any{"roles": []string{"user"}})
	d.p.account("bob", map[string]any{"roles": []string{"user", "admin"}, "email_verified": true})
	client := d.stranger()
	until(t, "alice to be an administrator no more", func() bool {
		return d.burst(t, client, "/admin-resource", alice) == http.StatusForbidden
	})
	until(t, "bob to be one", func() bool {
		return d.burst(t, client, "/admin-resource", bob) == http.StatusOK
	})
	d.up.all()
	d.lives(t, alice)
	if got := d.status(client, "GET", "/admin-resource", "Cookie", bob); got != http.StatusOK {
		t.Fatalf("/admin-resource is %d", got)
	}
	wantHeaders(t, d.up.one(t), map[string]string{"X-Auth-Roles": "user,admin", "X-Auth-Email": "bob@example.org", "X-Auth-Subject": "certified:bob"})

	// The next refresh tokens are good as well.
	before := d.p.asked("POST /token")
	until(t, "more refreshes", func() bool {
		for _, s := range []string{alice, bob} {
			if got := d.burst(t, client, "/secure-resource", s); got != http.StatusOK {
				t.Fatalf("/secure-resource is %d", got)
			}
		}
		return d.p.asked("POST /token") >= before+4
	})
}

// burst is what ten requests at once are answered. They may straddle a change.
func (d *delegated) burst(t *testing.T, client *http.Client, path, session string) int {
	t.Helper()
	statuses := make([]int, 10)
	many(len(statuses), func(i int) {
		a, err := d.try(client, "GET", path, "", "Cookie", session)
		if err != nil {
			t.Error(err)
		}
		statuses[i] = a.status
	})
	for _, status := range statuses {
		if status != http.StatusOK && status != http.StatusForbidden {
			return status
		}
	}
	return statuses[0]
}

// revokedAtProvider: a grant that the provider ended ends the session.
func revokedAtProvider(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "")
	alice, bob := d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	d.lives(t, alice)
	d.p.do("revoke", "alice")
	client := d.stranger()
	until(t, "the end of the session", func() bool {
		return d.status(client, "GET", "/secure-resource", "Cookie", alice) == http.StatusUnauthorized
	})
	d.up.all()
	d.ended(t, alice)
	d.lives(t, bob)
}

// providerStops: a provider that is down ends nobody's session, and is asked
// again when it is back.
func providerStops(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "")
	alice := d.session(d.signedIn("alice"))
	d.p.do("down", nil)
	d.p.account("alice", map[string]any{"roles": []string{"user"}})
	until(t, "a refresh that fails", func() bool {
		d.lives(t, alice)
		return strings.Contains(d.log.String(), "connection refused")
	})
	d.lives(t, alice)
	if got := d.status(d.stranger(), "GET", "/admin-resource", "Cookie", alice); got != http.StatusOK {
		t.Errorf("with the roles that were known last, /admin-resource is %d", got)
	}
	d.p.do("up", nil)
	until(t, "the new roles", func() bool {
		return d.status(d.stranger(), "GET", "/admin-resource", "Cookie", alice) == http.StatusForbidden
	})
	d.up.all()
	d.lives(t, alice)
}

// keysRotate: the gateway learns of new keys when it sees one used.
func keysRotate(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	before := d.session(d.signedIn("alice"))
	d.p.do("rotate", nil)
	d.lives(t, d.session(d.signedIn("bob")))
	d.lives(t, d.session(d.signedIn("alice")))
	d.lives(t, before)
	if got := d.p.asked("GET /jwks"); got != 2 {
		t.Errorf("the keys were asked for %d times, expected once for each set", got)
	}
}

// restartMeanwhile: the provider is restarted while people are about to sign
// in. One that keeps its records goes on; of one that does not, people see an
// error and can try again.
func restartMeanwhile(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b := d.browse()
	b.open(d.base + "/login") // the provider's page is open
	d.p.do("down", nil)
	d.p.do("rotate", nil)
	d.p.do("up", nil)
	b.consent(d.p, "alice")
	d.lives(t, d.session(b))

	b = d.browse()
	b.stopAt = d.base + "/callback?"
	b.signIn(d.base+"/login", d.p, "alice")
	d.p.do("down", nil)
	d.p.do("forget", nil) // the code among other things
	d.p.do("rotate", nil)
	d.p.do("up", nil)
	back := b.next
	b.stopAt = ""
	b.open(back)
	if b.page.status != http.StatusUnauthorized {
		t.Errorf("a code that the provider does not know: %s", b.describe())
	}
	if b.cookie(d.base, "session") != "" {
		t.Error("there is a session")
	}
	if got := d.status(b.c, "GET", "/secure-resource"); got != http.StatusUnauthorized {
		t.Errorf("/secure-resource is %d", got)
	}
	d.up.none(t)
	b.signIn(d.base+"/login", d.p, "alice")
	d.lives(t, d.session(b))
}

// providerDownAtStart: a provider that is down costs its own logins, and
// nothing else.
func providerDownAtStart(t *testing.T, c *certified) {
	d := c.prepared(t, openIDOptions{}, client{more: ", timeout: 1s"},
		strings.ReplaceAll(delegatedRoutes, "[oidc]", "[session, bearer, oidc]")+people)
	d.p.do("down", nil)
	d.run()
	stranger := d.stranger()
	local := d.signIn(stranger, "alice")
	d.lives(t, local.session)
	b := d.browse()
	wantPage := func(status int) {
		t.Helper()
		until(t, "another answer of /login", func() bool {
			b.open(d.base + "/login")
			return b.page.status == status
		})
		if !strings.HasPrefix(b.page.header.Get("Content-Type"), "text/html") {
			t.Errorf("no page: %s", b.describe())
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
	b.consent(d.p, "alice")
	d.lives(t, d.session(b))
	d.lives(t, local.session)
}

// sealedTokens: what the provider issued is nowhere to be read, and survives a
// restart of the gateway.
func sealedTokens(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "log: {level: debug}\n")
	b := d.signedIn("alice")
	alice := d.session(b)
	for _, name := range []string{"Alice Before", "Alice After"} {
		d.p.account("alice", map[string]any{"name": name})
		until(t, "a refresh", func() bool {
			d.up.all()
			d.status(d.stranger(), "GET", "/secure-resource", "Cookie", alice)
			return d.up.one(t).value(t, "X-Auth-Name") == name
		})
		d.signal(syscall.SIGTERM)
		<-d.done
		d.run()
	}
	d.lives(t, alice)
	d.kill() // so that the files stay as they are

	const signed = "eyJhbGciOi" // how every signed token begins, ID tokens among them
	secrets := append(d.p.state().Tokens, signed, certifiedSecret, strings.TrimPrefix(alice, "session="))
	for _, address := range b.history {
		for _, name := range []string{"code", "state", "nonce"} {
			if value := address.Query().Get(name); value != "" {
				secrets = append(secrets, value, url.QueryEscape(value))
			}
		}
	}
	if len(secrets) < 10 {
		t.Fatalf("too few secrets for a test: %d", len(secrets))
	}
	for name, content := range d.written(t) {
		for _, encoded := range base64Run.FindAllString(content, -1) {
			plain, _ := base64.RawStdEncoding.DecodeString(encoded[:len(encoded)/4*4]) // every such run can be decoded
			content += string(plain)
		}
		for _, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s holds the secret %.6s…", name, secret)
			}
		}
	}
}

// base64Run is what may be Base64, as bytes are in JSON.
var base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{32,}`)

// written is what the gateway has written: its log, and its files.
func (d *delegated) written(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"the log": d.log.String()}
	err := filepath.WalkDir(filepath.Join(d.dir, "data"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
