package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestReloadUnderLoad: a change applies, and no request is dropped for it, not
// even one whose route and upstream are gone afterwards.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-finish:
			w.WriteHeader(http.StatusTeapot)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	fast := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Version", r.Header.Get("X-Version"))
	}))
	t.Cleanup(fast.Close)
	version := func(n int) string {
		return fmt.Sprintf("routes: [{match: /, upstream: app, auth: [none], headers: {set: {X-Version: \"%d\"}}}]\n", n) + app(fast.URL)
	}
	g := start(t, fmt.Sprintf(`
upstreams: {app: {url: %q}, slow: {url: %q}}
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: /slow, upstream: slow, auth: [none]}
`, fast.URL, slow.URL))

	late := make(chan int)
	c := g.stranger()
	go func() {
		a, _ := g.try(c, "GET", "/slow", "") // the status tells
		late <- a.status
	}()
	<-began

	ctx, enough := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answers atomic.Int64
	for _, c := range []*http.Client{g.stranger(), g.stranger(), g.stranger11(), g.stranger11()} {
		load.Go(func() {
			for ctx.Err() == nil {
				if a, err := g.try(c, "POST", "/", "body"); err != nil || a.status != http.StatusOK {
					t.Errorf("status %d, %v", a.status, err)
					return
				}
				answers.Add(1)
			}
		})
	}
	for n := range 10 {
		g.configure(version(n))
		g.signal(syscall.SIGHUP)
		until(t, fmt.Sprintf("version %d", n), func() bool {
			return g.do(c, "GET", "/", "").header.Get("X-Version") == fmt.Sprint(n)
		})
	}
	enough()
	load.Wait()
	if answers.Load() == 0 {
		t.Error("there was no load")
	}
	close(finish)
	if got := <-late; got != http.StatusTeapot {
		t.Errorf("the request that was under way: %d", got)
	}
	if got := g.status(c, "GET", "/slow"); got != http.StatusOK {
		t.Errorf("its path is the other route's now: %d", got)
	}
}

// TestReloadRefused: a broken configuration changes nothing, and the log says
// what is wrong where.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	up := record(t)
	good := secure + app(up.url)
	g := start(t, good)
	c := g.stranger()
	s := g.signIn(c, "alice")
	for _, test := range []struct {
		name, config string
		line, column float64 // of what has to be found, counted from the end of the part on addresses
		key, problem string
	}{
		{"no YAML", "routes: [\n", 0, 0, "", ""},
		{"unknown key", "lisen: {}\n" + good, 1, 1, "lisen", "listen"},
		{"unknown upstream", app(up.url) + "routes:\n  - match: /\n    upstream: nowhere\n    auth: [none]\n", 4, 15, "routes[0].upstream", "nowhere"},
		{"a restart is needed", "data_dir: elsewhere\n" + good, 0, 0, "", "data_dir"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(g.entries())
			g.configure(test.config)
			g.signal(syscall.SIGHUP)
			var found map[string]any
			until(t, "the log to say what is wrong", func() bool {
				for _, entry := range g.entries()[before:] {
					if strings.HasPrefix(entry["msg"].(string), "reload failed") {
						found = entry
					}
				}
				return found != nil
			})
			if said := fmt.Sprint(found["problem"], found["error"]); !strings.Contains(said, test.problem) {
				t.Errorf("the log says %q, expected something about %q", said, test.problem)
			}
			if test.line > 0 {
				line := test.line + float64(strings.Count("public_url:\n"+g.listen, "\n"))
				want := fmt.Sprint(g.dir+"/config.yaml", line, test.column, test.key)
				if got := fmt.Sprint(found["file"], found["line"], found["column"], found["key"]); got != want {
					t.Errorf("the log names %q, expected %q", got, want)
				}
			}
			for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
				if got := g.status(c, "GET", "/secure-resource", credential...); got != http.StatusOK {
					t.Errorf("%s: %d", credential[0], got)
				}
			}
			if got := g.status(c, "GET", "/"); got != http.StatusNotFound {
				t.Errorf("a route of the broken configuration answers %d", got)
			}
		})
	}
	g.configure(strings.Replace(good, "auth: [session, bearer]}", "auth: [session, bearer]}, {match: /new, upstream: app, auth: [none]}", 1))
	g.signal(syscall.SIGHUP)
	until(t, "the repaired configuration", func() bool { return g.status(c, "GET", "/new") == http.StatusOK })
}

// person is a line of an accounts file.
func person(name, hash, more string) string {
	return fmt.Sprintf("- {username: %s, password_hash: %q%s}\n", name, hash, more)
}

// TestAccountsFile: what changes in accounts.file applies within 10 s, to
// those who are signed in too.
func TestAccountsFile(t *testing.T) {
	t.Parallel()
	g := prepared(t)
	unchanged := person("alice", wonderlandHash, ", roles: [user]")
	all := unchanged + person("removed", wonderlandHash, "") + person("disabled", wonderlandHash, "") + person("changed", wonderlandHash, "")
	g.write("accounts.yaml", all)
	g.write("htpasswd", "service:"+s3rviceHash+"\nother:"+builderHash+"\n")
	g.configure(`
basic: {htpasswd: htpasswd}
accounts: {file: accounts.yaml}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
  - {match: /admin, upstream: app, auth: [session, bearer], policy: admin}
` + app(record(t).url))
	g.run()
	c := g.stranger()
	logins := map[string]signIn{}
	for _, name := range []string{"alice", "removed", "disabled", "changed"} {
		logins[name] = g.signInWith(c, name, "wonderland")
	}
	wantStatuses(t, g, c, logins, http.StatusOK)
	alice := logins["alice"]
	stays, others := map[string]signIn{"alice": alice}, maps.Clone(logins)
	delete(others, "alice")
	g.applies("accounts.yaml", unchanged+person("disabled", wonderlandHash, ", disabled: true")+person("changed", builderHash, ""), func() bool {
		return g.status(c, "GET", "/secure", "Cookie", logins["removed"].session) == http.StatusUnauthorized
	})
	wantStatuses(t, g, c, others, http.StatusUnauthorized)
	wantStatuses(t, g, c, stays, http.StatusOK)
	for name, want := range map[string]int{"removed": 401, "disabled": 401, "changed": 401} {
		body := fmt.Sprintf(`{"username":%q,"password":"wonderland"}`, name)
		if got := g.do(c, "POST", "/login", body, "Content-Type", typeJSON).status; got != want {
			t.Errorf("login of %s with the old password: %d", name, got)
		}
	}
	g.signInWith(c, "changed", "builder")

	// Roles apply at once to logins from before.
	for path, want := range map[string]int{"/secure": 200, "/admin": 403} {
		for _, credential := range [][]string{{"Cookie", alice.session}, {"Authorization", alice.access}} {
			if got := g.status(c, "GET", path, credential...); got != want {
				t.Errorf("%s by %s, before: %d", path, credential[0], got)
			}
		}
	}
	promoted := person("alice", wonderlandHash, ", roles: [user, admin]")
	g.applies("accounts.yaml", promoted, func() bool {
		return g.status(c, "GET", "/admin", "Cookie", alice.session) == http.StatusOK
	})
	if got := g.status(c, "GET", "/admin", "Authorization", alice.access); got != http.StatusOK {
		t.Errorf("/admin by token: %d", got)
	}

	// A broken file changes nothing.
	g.applies("accounts.yaml", promoted+"- {username: alice, password_hash: x}\n", func() bool {
		return strings.Contains(g.log.String(), `/accounts.yaml","line":2`)
	})
	wantStatuses(t, g, c, stays, http.StatusOK)

	// Who comes back has to sign in anew.
	g.applies("accounts.yaml", all, func() bool {
		return g.status(c, "GET", "/admin", "Cookie", alice.session) == http.StatusForbidden
	})
	wantStatuses(t, g, c, others, http.StatusUnauthorized)
	wantStatuses(t, g, c, stays, http.StatusOK)
	wantStatuses(t, g, c, map[string]signIn{"removed": g.signInWith(c, "removed", "wonderland")}, http.StatusOK)

	// So it is with shared credentials, however well they are remembered.
	for credential, want := range map[string]int{"service:s3rvice": 200, "other:builder": 200} {
		if got := g.status(c, "GET", "/basic", "Authorization", basicOf(credential)); got != want {
			t.Errorf("Basic %s: %d", credential, got)
		}
	}
	g.applies("htpasswd", "other:"+builderHash+"\n", func() bool {
		return g.status(c, "GET", "/basic", "Authorization", basicService) == http.StatusUnauthorized
	})
	if got := g.status(c, "GET", "/basic", "Authorization", basicOf("other:builder")); got != http.StatusOK {
		t.Errorf("the one that stays: %d", got)
	}
}

// applies writes a file and waits until that shows. TestFollowAccounts
// in cmd/internal/app has the time.
func (g *instance) applies(name, content string, shows func() bool) {
	g.t.Helper()
	g.write(name, content)
	until(g.t, "the change of "+name, shows)
}

// wantStatuses asks with everything that logins gave, and exchanges their
// refresh tokens.
func wantStatuses(t *testing.T, g *instance, c *http.Client, logins map[string]signIn, want int) {
	t.Helper()
	for name, s := range logins {
		for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
			if got := g.status(c, "GET", "/secure", credential...); got != want {
				t.Errorf("%s by %s: %d, expected %d", name, credential[0], got, want)
			}
		}
		next, got, err := g.tryRefresh(c, s.refresh)
		if err != nil || got != want {
			t.Errorf("refresh of %s: %d, %v, expected %d", name, got, err, want)
		}
		if got == http.StatusOK {
			s.access, s.refresh = next.access, next.refresh
			logins[name] = s
		}
	}
}
