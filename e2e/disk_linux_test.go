package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles keeps the gateway from writing to files beyond that many bytes,
// as a disk that is full does.
func (g *instance) limitFiles(bytes uint64) {
	g.t.Helper()
	var now unix.Rlimit
	if err := unix.Prlimit(g.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &now); err != nil {
		g.t.Fatal(err)
	}
	now.Cur = min(bytes, now.Max)
	if err := unix.Prlimit(g.cmd.Process.Pid, unix.RLIMIT_FSIZE, &now, nil); err != nil {
		g.t.Fatal(err)
	}
}

// TestDiskFull: what cannot be written down has not happened, and nobody is
// told that it has. What there was before is there afterwards.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+"routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n"+app(up.url))
	c := g.stranger()
	alice, bob := g.signIn(c, "alice"), g.signIn(c, "bob")
	refresh := func(s signIn) answer {
		return g.do(c, "POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, s.refresh), "Content-Type", typeJSON)
	}
	g.limitFiles(1)
	for what, a := range map[string]answer{
		"login":               g.do(c, "POST", "/login", right, "Content-Type", typeJSON),
		"login by Basic":      g.do(c, "POST", "/login", "", "Authorization", basicOf("bob:builder")),
		"logout by cookie":    g.do(c, "POST", "/logout", "", "Cookie", alice.session),
		"logout by token":     g.do(c, "POST", "/logout", "", "Authorization", alice.access),
		"logout by link":      g.do(c, "GET", "/logout", "", "Cookie", alice.session),
		"logout in a browser": g.do(c, "POST", "/logout", "", "Cookie", alice.session, "Accept", "text/html", "Sec-Fetch-Site", "same-origin"),
		"refresh":             refresh(bob),
	} {
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || len(a.header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s: %d, Retry-After %q, Set-Cookie %q", what, a.status, a.header.Get("Retry-After"), a.header.Values("Set-Cookie"))
		}
	}
	if response, err := http.Get(g.adm + "/readyz"); err != nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("it says that it is ready: %v, %v", response, err)
	} else {
		response.Body.Close()
	}
	// Who asks is still known, or nobody is.
	for _, s := range []signIn{alice, bob} {
		for name, credential := range map[string]string{"Cookie": s.session, "Authorization": s.access} {
			if got := g.status(c, "GET", "/secure", name, credential); got != http.StatusOK && got != http.StatusServiceUnavailable {
				t.Errorf("%s: %d", name, got)
			}
			for _, m := range up.all() {
				if who := m.value(t, "X-Auth-User"); who != "alice" && who != "bob" {
					t.Errorf("%s: the upstream is asked by %q", name, who)
				}
			}
		}
	}

	g.limitFiles(1 << 40)
	until(t, "a refresh afterwards, with the same token", func() bool { return refresh(bob).status == http.StatusOK })
	wantStatus(t, "logout afterwards", g.do(c, "POST", "/logout", "", "Cookie", alice.session), http.StatusOK)
	wantDead(t, g, up, alice)
	g.kill() // and it was written down
	g.run()
	wantDead(t, g, up, alice)
	if got := g.status(g.stranger(), "GET", "/secure", "Cookie", bob.session); got != http.StatusOK {
		t.Errorf("the session of before: %d", got)
	}
	up.all()
}
