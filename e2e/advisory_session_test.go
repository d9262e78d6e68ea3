package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// sessions has a route for each mechanism, and one for administrators.
func sessions(up string) string {
	return app(up) + `
limits: {login_failures: 100000}
token: {reuse_leeway: 0s}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /basic/, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
  - {match: /admin, upstream: app, auth: [session, bearer], policy: admin}
`
}

// TestAdvisoriesSession: logout ends all credentials, a login makes new ones, and
// a change of an account has effect on existing ones.
func TestAdvisoriesSession(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := prepared(t)
	g.write("accounts.yaml", person("alice", wonderlandHash, ", roles: [user, admin]")+person("bob", builderHash, ", roles: [user]"))
	config := sessions(up.url) + "accounts: {file: accounts.yaml}\nbasic: {users: [{username: service, password_hash: \"" + s3rviceHash + "\"}]}\n"
	g.configure(config)
	g.run()
	for name, story := range map[string]func(*testing.T, *instance, *recorder){
		"CVE-2024-21492 caddy-security, CVE-2025-53826 File Browser, alive after signing out": endedIsDead,
		"CVE-2026-34454 oauth2-proxy, a cookie that stays":                                    clearedCookies,
		"CVE-2024-52553 Jenkins OpenID Connect, session fixation":                             freshIdentifier,
		"CVE-2023-28625 mod_auth_openidc, odd Cookie headers":                                 oddCookies,
		"CVE-2024-24814 mod_auth_openidc, session chunks":                                     manyCookies,
		"CVE-2025-3891 mod_auth_openidc, empty POST":                                          emptyPosts,
		"CVE-2026-71326 Traefik, two credentials with one key":                                sharedChecks,
	} {
		t.Run(name, func(t *testing.T) { story(t, g, up) })
	}
	t.Run("GHSA-x883-2vmg-xwf7 Authelia, CVE-2021-41230 Pomerium, roles of yesterday", func(t *testing.T) { rolesOfToday(t, g, up) })
	if got := g.status(g.stranger(), "GET", "/public"); got != http.StatusOK {
		t.Errorf("afterwards the gateway answers %d", got)
	}
}

// wantDead fails the test if a credential of the login is valid.
func wantDead(t *testing.T, g *instance, up *recorder, s signIn) {
	t.Helper()
	up.all()
	c := g.stranger()
	for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
		g.do(c, "GET", "/secure", "", credential...)
		up.none(t)
		if a := g.do(c, "GET", "/me", "", credential...); strings.Contains(a.body, "alice") {
			t.Errorf("with %s the session is valid: %s", credential[0], a.body)
		}
	}
	if next, status, err := g.tryRefresh(c, s.refresh); err != nil || status == http.StatusOK {
		t.Errorf("the refresh token gives %d, %v, %t", status, err, next.access != "")
	}
}

func endedIsDead(t *testing.T, g *instance, up *recorder) {
	for name, end := range map[string]func(*http.Client, signIn) answer{
		"POST with the cookie": func(c *http.Client, s signIn) answer { return g.do(c, "POST", "/logout", "", "Cookie", s.session) },
		"POST with the token": func(c *http.Client, s signIn) answer {
			return g.do(c, "POST", "/logout", "", "Authorization", s.access)
		},
		"GET": func(c *http.Client, s signIn) answer { return g.do(c, "GET", "/logout", "", "Cookie", s.session) },
	} {
		t.Run(name, func(t *testing.T) {
			c := g.stranger()
			s := g.signIn(c, "alice")
			g.do(c, "GET", "/secure", "", "Cookie", s.session) // fill the caches
			g.do(c, "GET", "/secure", "", "Authorization", s.access)
			if got := len(up.all()); got != 2 {
				t.Fatalf("before the end %d of 2 requests reach the upstream", got)
			}
			end(c, s)
			wantDead(t, g, up, s)
		})
	}
}

func clearedCookies(t *testing.T, g *instance, up *recorder) {
	c := g.client() // keeps cookies
	s := g.signIn(c, "alice")
	g.do(c, "GET", "/logout", "", "Accept", "text/html")
	g.do(c, "GET", "/signin", "", "Accept", "text/html")
	g.do(c, "GET", "/secure", "")
	up.none(t)
	wantDead(t, g, up, s)
}

func freshIdentifier(t *testing.T, g *instance, up *recorder) {
	c := g.stranger()
	mallory := g.signIn(c, "bob").session
	for _, planted := range []string{mallory, "session_id=chosen-by-mallory", "session_id=" + strings.Repeat("A", 43)} {
		for _, headers := range [][]string{{"Content-Type", typeJSON}, {"Authorization", basicOf("alice:wonderland")}} {
			a := g.do(c, "POST", "/login", right, append(headers, "Cookie", planted)...)
			session := cookieOf(a)
			if a.status != http.StatusOK || session == planted || !strings.HasPrefix(session, "session_id=") {
				t.Fatalf("login with %s: %d gives %s", planted, a.status, session)
			}
			g.do(c, "GET", "/secure", "", "Cookie", planted)
			up.none(t)
			g.do(c, "GET", "/secure", "", "Cookie", session)
			if got := up.one(t).value(t, "X-Auth-User"); got != "alice" {
				t.Errorf("the new session is %q's", got)
			}
		}
	}
}

func oddCookies(t *testing.T, g *instance, up *recorder) {
	for _, cookies := range []string{"", ";", ";;;", " ; ; ", "=", "==;=", ";session_id", "session_id=;", "session_id=; session_id=", "; session_id=x;", "session_id==;=session_id", "\t"} {
		g.raw(t, "GET /secure HTTP/1.1\nHost: localhost\nCookie: "+cookies+"\n\n")
		up.none(t)
		if a := g.raw(t, "GET /public HTTP/1.1\nHost: localhost\nCookie: "+cookies+"\n\n"); a.status != http.StatusOK {
			up.none(t)
			continue
		}
		if got := strings.Join(up.one(t).values("Cookie"), ""); strings.Contains(got, "session_id=") {
			t.Errorf("of the cookies %q the upstream gets %q", cookies, got)
		}
	}
}

func manyCookies(t *testing.T, g *instance, up *recorder) {
	var many strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&many, "; c%d=x", i)
	}
	for _, cookies := range []string{
		"session_id_chunks=99999999; session_id_0=x", "session_id=99999999", "session_id=99999999999999999999999999", "a=b" + many.String(),
		"session_id=x" + many.String(), "session_id=" + strings.Repeat("x", 50_000), strings.Repeat("session_id=x; ", 3_000),
	} {
		g.raw(t, "GET /secure HTTP/1.1\nHost: localhost\nCookie: "+cookies+"\n\n") // raw fails without an answer
		up.none(t)
	}
}

func emptyPosts(t *testing.T, g *instance, up *recorder) {
	for _, path := range []string{"/login", "/logout", "/refresh", "/secure", "/admin", "/basic/", "/me", "/callback", "/auth/callback", "/signin"} {
		for _, body := range []string{"\n", "Content-Length: 0\n\n", "Content-Type:\nContent-Length: 0\n\n", "Transfer-Encoding: chunked\n\n0\n\n"} {
			a := g.raw(t, "POST "+path+" HTTP/1.1\nHost: localhost\n"+body)
			if cookie := cookieOf(a); strings.HasPrefix(cookie, "session_id=") && cookie != "session_id=" {
				t.Errorf("%s gives %s", path, cookie)
			}
			up.none(t)
		}
	}
}

// sharedChecks sends, all at once, different credentials whose concatenated parts
// are the same text.
func sharedChecks(t *testing.T, g *instance, up *recorder) {
	good := basicOf("service:s3rvice")
	bad := []string{"services:3rvice", "servic:es3rvice", "service:s3rvic", "service:s3rvicee", "alice:s3rvice", "service:wonderland", "service\x00:s3rvice", ":services3rvice", "service::s3rvice"}
	c := g.stranger()
	const each = 8
	many((len(bad)+1)*each, func(i int) {
		path, credential := "/basic/good", good
		if i %= len(bad) + 1; i < len(bad) {
			path, credential = "/basic/bad", basicOf(bad[i])
		}
		if _, err := g.try(c, "GET", path, "", "Authorization", credential); err != nil {
			t.Error(err)
		}
	})
	got := up.all()
	for _, m := range got {
		if m.target() != "/basic/good" || m.value(t, "X-Auth-User") != "service" {
			t.Errorf("the upstream is asked for %s by %q", m.target(), m.values("X-Auth-User"))
		}
	}
	if len(got) != each {
		t.Errorf("%d requests reached the upstream, expected %d", len(got), each)
	}
}

func rolesOfToday(t *testing.T, g *instance, up *recorder) {
	c := g.stranger()
	s := g.signIn(c, "alice")
	credentials := [][]string{{"Cookie", s.session}, {"Authorization", s.access}}
	for _, credential := range credentials {
		g.do(c, "GET", "/admin", "", credential...)
		up.one(t)
	}
	g.write("accounts.yaml", person("alice", wonderlandHash, ", roles: [user]"))
	g.signal(syscall.SIGHUP)
	until(t, "the new roles", func() bool { return g.status(c, "GET", "/admin", credentials[0]...) != http.StatusOK })
	up.all()
	for _, credential := range credentials {
		g.do(c, "GET", "/admin", "", credential...)
		up.none(t)
		g.do(c, "GET", "/secure", "", credential...)
		if got := up.one(t).value(t, "X-Auth-Roles"); got != "user" {
			t.Errorf("with %s the upstream gets the old roles %q", credential[0], got)
		}
	}
}

// TestAdvisoriesThrottle: failed logins of an account count together, for all
// spellings of its name and for all addresses.
func TestAdvisoriesThrottle(t *testing.T) {
	t.Parallel()
	t.Run("CVE-2025-24806 Authelia, one account under several names", func(t *testing.T) {
		g, c := throttled(t, "limits: {login_failures: 6}\n")
		tries := []string{"alice", "ALICE", " alice", "Alice ", "\talice", "aLiCe"}
		for i, name := range tries {
			wantStatus(t, name, g.login(c, fmt.Sprintf("192.0.2.%d", i+1), name, "guess"), http.StatusUnauthorized)
		}
		wantThrottled(t, g.login(c, "192.0.2.99", "alice", "wonderland"))
		wantThrottled(t, g.login(c, "192.0.2.99", "Alice", "guess"))
		if a := g.login(c, "192.0.2.99", "bob", "builder"); cookieOf(a) == "" {
			t.Errorf("another account is closed too: %d", a.status)
		}
	})
	t.Run("CVE-2026-32595 and CVE-2026-41263 Traefik, names by their time", namesByTime)
}

func namesByTime(t *testing.T) {
	const cost = 9 // a hash takes much longer than the rest of a request
	slow, err := bcrypt.GenerateFromPassword([]byte("wonderland"), cost)
	if err != nil {
		t.Fatal(err)
	}
	user := fmt.Sprintf("users: [{username: alice, password_hash: %q}]\n", slow)
	g := start(t, sessions(record(t).url)+"accounts:\n  "+user+"basic:\n  "+user)
	c := g.stranger()
	ask := map[string]func(name string) answer{
		"/login": func(name string) answer {
			return g.do(c, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":"guess"}`, name), "Content-Type", typeJSON)
		},
		"Basic": func(name string) answer {
			return g.do(c, "GET", "/basic/", "", "Authorization", basicOf(name+":guess"))
		},
	}
	for where, ask := range ask {
		worked := map[bool]float64{} // processor time does not depend on other programs
		var said [2]string
		for i := range 8 {
			known := i%2 == 0
			name := "alice"
			if !known {
				name = fmt.Sprintf("nobody%d", i)
			}
			before := g.processorTime(t)
			said[i%2] = ask(name).body
			worked[known] += g.processorTime(t) - before
		}
		if worked[false] < worked[true]/2 || worked[true] < worked[false]/2 {
			t.Errorf("%s: %.3f s of work for names that exist, %.3f s for those that do not", where, worked[true], worked[false])
		}
		if said[0] != said[1] {
			t.Errorf("%s: %q for a name that exists, %q for one that does not", where, said[0], said[1])
		}
	}
}

// processorTime is the processor time of the gateway, in seconds.
func (g *instance) processorTime(t *testing.T) float64 {
	t.Helper()
	response, err := http.Get(g.adm + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`).FindSubmatch(metrics)
	if found == nil {
		t.Fatalf("the metrics lack the processor time:\n%s", metrics)
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}
