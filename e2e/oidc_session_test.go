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

// sessionGoesOn: changes at the provider show without a new login, though each
// refresh token works once. A provider that is down ends no session, a restart of
// the gateway ends none, and a grant that the provider ends does. Nothing that
// the gateway writes has a secret in it.
func sessionGoesOn(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{AccessTokenLifetime: 2}, client{}, "log: {level: debug}\n")
	browser := d.signedIn("alice")
	alice, bob := d.session(browser), d.session(d.signedIn("bob"))
	d.p.account("alice", map[string]any{"roles": []string{"user"}})
	d.p.account("bob", map[string]any{"roles": []string{"user", "admin"}, "email_verified": true})
	client := d.stranger()
	until(t, "alice to lose the role admin", func() bool {
		return d.burst(t, client, "/admin-resource", alice) == http.StatusForbidden
	})
	until(t, "bob to get the role admin", func() bool {
		return d.burst(t, client, "/admin-resource", bob) == http.StatusOK
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
		return d.burst(t, client, "/admin-resource", bob) == http.StatusForbidden
	})
	d.lives(t, bob)

	d.lives(t, alice)
	d.p.do("revoke", "alice")
	until(t, "the end of the session", func() bool {
		return d.status(client, "GET", "/secure-resource", "Cookie", alice) == http.StatusUnauthorized
	})
	d.ended(t, alice)
	d.lives(t, bob)
	d.kill() // so that the files stay as they are
	d.holdsNo(t, browser, alice, bob)
}

// burst returns the status of ten requests at once, during which the roles may
// change.
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

// holdsNo fails the test if the log or a file of the gateway has a secret: a
// token of the provider, a session, or what a browser carried between the two.
func (d *delegated) holdsNo(t *testing.T, b *browser, sessions ...string) {
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

// base64Run matches what may be Base64, as JSON has bytes.
var base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{32,}`)

// written returns what the gateway has written: its log and its files.
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
