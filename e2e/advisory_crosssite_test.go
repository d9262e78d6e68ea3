package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// otherSites are the headers of browsers for requests from a page of another
// origin, or of no origin.
func otherSites() [][]string {
	return [][]string{
		{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		{"Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Origin", "null", "Sec-Fetch-Site", "cross-site"},
		{"Origin", "null"},
	}
}

// otherOrigins are similar to the gateway's origin.
func otherOrigins(g *instance) [][]string {
	host := strings.TrimPrefix(g.public, "https://")
	return [][]string{
		{"Origin", "https://sub." + host}, {"Origin", "https://sub." + host, "Sec-Fetch-Site", "same-site"},
		{"Origin", "https://localhost:1", "Sec-Fetch-Site", "same-site"}, {"Origin", "https://localhost"}, {"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil." + host}, {"Origin", "https://" + host + ".evil.example"}, {"Origin", "https://evil" + host},
	}
}

// TestAdvisoriesCrossSite: a request from another site changes nothing.
func TestAdvisoriesCrossSite(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"token: {delivery: body}\nroutes: [{match: /, upstream: app, auth: [session, bearer]}, {match: /hook/, upstream: app, auth: [session], cross_origin: allow}]\n")
	c := g.stranger()
	s := g.signIn(c, "alice")
	t.Run("CVE-2026-27589 Caddy, state changes without a preflight", func(t *testing.T) {
		for _, site := range otherSites() {
			for _, media := range []string{"text/plain", typeForm, typeJSON, ""} {
				crossSitePosts(t, g, site, media)
			}
		}
	})
	t.Run("CVE-2017-1000069 Bitly oauth2_proxy, signing others in", func(t *testing.T) {
		for _, site := range otherSites() {
			for _, headers := range [][]string{{"Content-Type", typeForm}, {"Content-Type", typeForm, "Authorization", basicOf("bob:builder")}} {
				a := g.do(c, "POST", "/login", "username=bob&password=builder", append(headers, site...)...)
				if got := a.header.Values("Set-Cookie"); len(got) > 0 {
					t.Errorf("with %s the browser gets %q", site, got)
				}
			}
		}
	})
	posts := func(t *testing.T, sites [][]string) {
		for _, site := range sites {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
				g.do(c, method, "/account", "x=y", append(site, "Cookie", s.session, "Content-Type", typeForm, "Referer", g.public+"/")...)
				up.none(t)
			}
		}
	}
	t.Run("CVE-2025-24358 gorilla/csrf, another host of the site", func(t *testing.T) { posts(t, otherOrigins(g)) })
	t.Run("CVE-2025-47909 gorilla/csrf, the same host by http", func(t *testing.T) {
		http := strings.Replace(g.public, "https:", "http:", 1)
		posts(t, [][]string{{"Origin", http}, {"Origin", http, "Sec-Fetch-Site", "same-site"}, {"Origin", http, "Sec-Fetch-Site", "cross-site"}})
	})
	t.Run("CVE-2025-47910 Go net/http, exceptions", func(t *testing.T) {
		for _, target := range []string{"/hook/../account", "//hook/", "/x/../hook/", "/hook%2f..%2faccount", "/HOOK/", "/hookx", "/account?/hook/"} {
			g.raw(t, "POST "+target+" HTTP/1.1\nHost: localhost\nOrigin: https://evil.example\nSec-Fetch-Site: cross-site\nCookie: "+s.session+"\nContent-Length: 0\n\n")
			up.none(t)
		}
		g.do(c, "POST", "/hook/x", "", "Cookie", s.session, "Origin", "https://evil.example")
		if got := up.one(t).target(); got != "/hook/x" {
			t.Errorf("the exception leads to %q", got)
		}
	})
	t.Run("CVE-2023-0957 Gitpod, WebSockets for any origin", func(t *testing.T) {
		for _, site := range append(otherSites(), otherOrigins(g)...) {
			lines := ""
			for i := 0; i < len(site); i += 2 {
				lines += site[i] + ": " + site[i+1] + "\n"
			}
			g.raw(t, "GET /socket HTTP/1.1\nHost: "+strings.TrimPrefix(g.public, "https://")+"\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\n"+
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nCookie: "+s.session+"\n"+lines+"\n")
			up.none(t)
		}
	})
	g.do(c, "POST", "/account", "x=y", "Cookie", s.session, "Origin", g.public, "Sec-Fetch-Site", "same-origin")
	if got := up.one(t).body; got != "x=y" {
		t.Errorf("from the same origin the upstream gets %q", got)
	}
}

// crossSitePosts posts to the endpoints that change something.
func crossSitePosts(t *testing.T, g *instance, site []string, media string) {
	t.Helper()
	c := g.stranger()
	s := g.signIn(c, "alice")
	headers := append(site, "Cookie", s.session)
	if media != "" {
		headers = append(headers, "Content-Type", media)
	}
	for path, body := range map[string]string{"/login": right, "/refresh": fmt.Sprintf(`{"refresh_token":%q}`, s.refresh), "/logout": ""} {
		a := g.do(c, "POST", path, body, headers...)
		if strings.Contains(a.body, "access_token") || len(a.header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s with %s: %q %s", path, headers, a.header.Values("Set-Cookie"), a.body)
		}
	}
	if a := g.do(c, "GET", "/me", "", "Cookie", s.session); !strings.Contains(a.body, "alice") {
		t.Errorf("with %s: the session has ended: %s", headers, a.body)
	}
	if _, status, err := g.tryRefresh(c, s.refresh); err != nil || status != http.StatusOK {
		t.Errorf("with %s: the refresh token is used up: %d, %v", headers, status, err)
	}
}
