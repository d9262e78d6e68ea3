package e2e

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestAdvisoriesSecrets: answers show nothing that the client may not see, and the
// log has no secret.
func TestAdvisoriesSecrets(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"log: {level: debug}\n"+`
routes:
  - {match: /secure/, upstream: app, auth: [session, bearer]}
  - {match: /basic/, upstream: app, auth: [basic]}
  - {match: /public/, upstream: app, auth: [none]}
`)
	c := g.stranger()
	s := g.signIn(c, "alice")
	t.Run("CVE-2022-24797 Pomerium, metrics and pprof", func(t *testing.T) {
		for _, path := range []string{
			"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/vars", "/healthz", "/readyz", "/config", "/.pomerium/", "/ping",
		} {
			for _, headers := range [][]string{nil, {"Authorization", s.access}, {"Cookie", s.session}} {
				a := g.do(c, "GET", path, "", headers...)
				if a.status == http.StatusOK || strings.Contains(a.body, "authgate_") || strings.Contains(a.body, "goroutine ") || strings.Contains(a.body, "memstats") {
					t.Errorf("%s: %d %.200s", path, a.status, a.body)
				}
			}
		}
		up.none(t)
	})
	t.Run("CVE-2024-39315 Pomerium, tokens on the page of the account", func(t *testing.T) {
		for _, headers := range [][]string{{"Authorization", s.access}, {"Cookie", s.session}} {
			for _, accept := range []string{"application/json", "text/html"} {
				a := g.do(c, "GET", "/me", "", append(headers, "Accept", accept)...)
				if !strings.Contains(a.body, "Alice Example") {
					t.Errorf("/me is not about alice: %d", a.status)
				}
				wantNoSecret(t, "/me as "+accept, a.body, s)
			}
		}
	})
	t.Run("CVE-2022-23469 Traefik, credentials in the debug log", func(t *testing.T) {
		g.do(c, "GET", "/secure/", "", "Authorization", s.access)
		g.do(c, "GET", "/secure/", "", "Cookie", s.session)
		g.do(c, "GET", "/basic/", "", "Authorization", basicService)
		g.do(c, "GET", "/secure/", "", "Authorization", basicService)
		g.do(c, "GET", "/public/", "", "Authorization", s.access, "Cookie", s.session)
		up.all()
		wantNoSecret(t, "the log", g.log.String(), s)
	})
	t.Run("CVE-2025-31492 mod_auth_openidc, the page behind the redirect", func(t *testing.T) { nothingBehindRedirects(t, g, up) })
	t.Run("CVE-2026-30852 Caddy, placeholders", func(t *testing.T) { placeholders(t, g, up) })
	for name, places := range map[string][]string{
		"CVE-2023-52430 caddy-security, a path on a page":          {"/admin%s", "/settings/mfa/delete/%s", "/secure/%s", "/%s", "/me/%s"},
		"CVE-2017-6059 mod_auth_openidc, an error on a page":       {"/callback?error=%s&error_description=%s", "/login?provider=%s", "/login?mechanism=%s", "/signin?mechanism=%s&error=%s"},
		"CVE-2021-32792 mod_auth_openidc, what a form had held":    {"/signin?return_to=/%s", "/signin?return_to=%s", "/secure/?%s", "/logout?return_to=%s"},
		"CVE-2019-1010247 mod_auth_openidc, a parameter on a page": {"/callback?state=%s&code=%s", "/auth/callback?%s", "/frontchannel-logout/%s?sid=%s"},
	} {
		t.Run(name, func(t *testing.T) { scripts(t, g, places) })
	}
}

// wantNoSecret fails the test if a text has a credential of a login.
func wantNoSecret(t *testing.T, what, text string, s signIn) {
	t.Helper()
	_, session, _ := strings.Cut(s.session, "=")
	access := strings.TrimPrefix(s.access, "Bearer ")
	_, basic, _ := strings.Cut(basicService, " ")
	for name, secret := range map[string]string{
		"the session": session, "the access token": access, "its signature": access[strings.LastIndexByte(access, '.')+1:],
		"the refresh token": s.refresh, "the Basic credential": basic,
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s has %s", what, name)
		}
	}
}

// nothingBehindRedirects: the upstream gets no request before authentication.
func nothingBehindRedirects(t *testing.T, g *instance, up *recorder) {
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"} {
		for _, lines := range []string{"Accept: text/html\n", "", "Cookie: session_id=x\n", "Authorization: Bearer x\n", "Sec-Fetch-Mode: navigate\nAccept: text/html\n"} {
			a := g.raw(t, method+" /secure/page HTTP/1.1\nHost: localhost\n"+lines+"Content-Length: 0\n\n")
			if a.body == "ok" {
				t.Errorf("%s with %q: %d and the page", method, lines, a.status)
			}
			up.none(t)
		}
	}
}

// placeholders: the gateway expands no variables in a request.
func placeholders(t *testing.T, g *instance, up *recorder) {
	inside := os.Getenv("PATH") // the gateway has the same
	if inside == "" {
		t.Fatal("PATH is empty")
	}
	for _, text := range []string{"${PATH}", "$PATH", "{env.PATH}", "{$PATH}", "%PATH%", "{{.Env.PATH}}", "{file./etc/passwd}", "$${PATH}"} {
		a := g.raw(t, "GET /public/?x="+url.QueryEscape(text)+" HTTP/1.1\nHost: localhost\nX-Input: "+text+"\nUser-Agent: "+text+"\n\n")
		m := up.one(t)
		if m.value(t, "X-Input") != text || m.value(t, "User-Agent") != text {
			t.Errorf("%s reaches the upstream as %q", text, m.head)
		}
		b := g.do(g.stranger(), "POST", "/login", url.Values{"username": {text}, "password": {text}}.Encode(), "Content-Type", typeForm, "Accept", "text/html")
		for _, said := range []string{strings.Join(m.head, " "), a.body, b.body} {
			if strings.Contains(said, inside) || strings.Contains(said, "root:") {
				t.Errorf("%s is expanded: %s", text, said)
			}
		}
	}
}

// scripts sends a script in each place of a request that a page may show.
func scripts(t *testing.T, g *instance, places []string) {
	const script = `"'><script>alert(1)</script><svg onload=alert(1)>`
	for _, place := range places {
		for _, text := range []string{url.PathEscape(script), url.QueryEscape(script)} {
			target := strings.ReplaceAll(place, "%s", text)
			for _, headers := range []string{"Accept: text/html\n", "Accept: text/html\nReferer: https://localhost/" + text + "\n", ""} {
				a := g.raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n"+headers+"\n")
				if strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<svg onload") {
					t.Errorf("%s: the page has the script: %s", target, a.body)
				}
				if html := strings.Contains(a.header.Get("Content-Type"), "html"); html && !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
					t.Errorf("%s: the page would run scripts: %q", target, a.header.Get("Content-Security-Policy"))
				}
			}
		}
	}
}
