package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// TestEmptyUsers: when a file of users becomes empty, every credential fails,
// also those of sessions and tokens that began before.
func TestEmptyUsers(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := prepared(t)
	g.write("accounts.yaml", person("alice", wonderlandHash, ", roles: [admin]"))
	g.write("htpasswd", "service:"+s3rviceHash+"\n")
	g.configure(app(up.url) + `
limits: {login_failures: 1000}
basic: {htpasswd: htpasswd}
accounts: {file: accounts.yaml}
routes: [{match: /, upstream: app, auth: [basic, session, bearer]}]
`)
	g.run()
	c := g.stranger()
	s := g.signIn(c, "alice")
	credentials := [][]string{{"Cookie", s.session}, {"Authorization", s.access}, {"Authorization", basicService}}
	for _, credential := range credentials {
		if got := g.status(c, "GET", "/", credential...); got != http.StatusOK {
			t.Fatalf("%s before: %d", credential[0], got)
		}
	}
	g.applies("accounts.yaml", "[]\n", func() bool { return g.status(c, "GET", "/", "Cookie", s.session) != http.StatusOK })
	g.applies("htpasswd", "# empty\n", func() bool { return g.status(c, "GET", "/", "Authorization", basicService) != http.StatusOK })
	up.all()
	for _, credential := range append(credentials, nil, []string{"Authorization", basicOf("alice:wonderland")},
		[]string{"Authorization", basicOf(":")}, []string{"Cookie", "session_id="}, []string{"Authorization", "Bearer "}) {
		if got := g.status(c, "GET", "/", credential...); got != http.StatusUnauthorized {
			t.Errorf("with %q: %d", credential, got)
		}
	}
	up.none(t)
	for _, name := range []string{"alice", "", "service", "local:alice"} {
		if a := g.do(c, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":"wonderland"}`, name), "Content-Type", typeJSON); a.status != http.StatusUnauthorized {
			t.Errorf("login of %q: %d", name, a.status)
		}
	}
	if _, got, err := g.tryRefresh(c, s.refresh); err != nil || got != http.StatusUnauthorized {
		t.Errorf("refresh: %d, %v", got, err)
	}
}
