package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// redirectAdvisories are places to return to that were taken for paths, and
// that led browsers to another site.
var redirectAdvisories = []advisory{
	// Any address did, and what begins with two slashes has a host as well.
	{"CVE-2017-1000070 Bitly oauth2_proxy, other sites", []string{"https://evil.example/", "//evil.example", "//evil.example/%2e%2e", "//evil.example:443/x", "///evil.example", "////evil.example/x"}},
	// A backslash is a slash to browsers.
	{"CVE-2020-5233 oauth2-proxy, slash and backslash", []string{`/\evil.example`, `/\/evil.example`, `\/evil.example`, `\\evil.example`, `/\\evil.example`}},
	// Tabs and line breaks are nothing to browsers.
	{"CVE-2020-11053 oauth2-proxy, white space between slashes", []string{"/\t/evil.example", "/\n/evil.example", "/\r/evil.example", "/\v/evil.example", "/ /evil.example", "/\t\\evil.example", "/%09/evil.example", "/%0a/evil.example"}},
	// More of both, and dots between.
	{"CVE-2020-4037 oauth2-proxy, mixtures", []string{`/./\evil.example`, `/.//evil.example`, `/\t/\evil.example`, "/\t/\t\\evil.example", `/..//evil.example`, `/%2e//evil.example`, `/;//evil.example`, `/x/..//evil.example`, "\x00//evil.example", "/\x0b/\x0b/evil.example"}},
	// The end of a host name was compared, without the dot before it.
	{"CVE-2021-21291 oauth2-proxy, a host with the same end", []string{"https://evillocalhost/", "https://localhost.evil.example/", "https://localhost@evil.example/", "https://evil.example#localhost", "https://evil.example?localhost", `https://evil.example\@localhost/`}},
	// Several slashes at the beginning of where to go after signing out.
	{"CVE-2019-14857 mod_auth_openidc, leading slashes", []string{"//evil.example/", "///evil.example/", "https:///evil.example/", "https:evil.example", "https:/evil.example"}},
	{"CVE-2019-20479 mod_auth_openidc, slash and backslash", []string{`/\evil.example/`, `/\\\evil.example`}},
	// Backslashes were read as the server's URL library does, not as browsers do.
	{"CVE-2021-32786 mod_auth_openidc, backslashes in URLs", []string{`https:\\evil.example`, `https:/\evil.example`, `\\\\evil.example`, `https://localhost\.evil.example/`}},
	{"CVE-2022-23527 mod_auth_openidc, slash and tab", []string{"/\t/evil.example", "/\t\\evil.example", "\t//evil.example", "/\t\t//evil.example", "h\tttps://evil.example"}},
	// A place to go after a login that another site begins.
	{"CVE-2021-39191 mod_auth_openidc, target_link_uri", []string{"https://evil.example/", "https://localhost:8443.evil.example", "http://evil.example", "//evil.example/?target_link_uri=/"}},
	// A parameter of the logout went nowhere near the check of the others.
	{"CVE-2021-29456 Authelia, logout", []string{"https://evil.example", "http://evil.example/", "HTTPS://EVIL.EXAMPLE", "//evil.example"}},
	// Whoever asked got a signed link that sent a token to the address in it.
	{"CVE-2021-29651 Pomerium, a JWT for any address", []string{"https://evil.example/?pomerium_jwt=", "https://evil.example/#"}},
	// Some endpoints took parameters that nobody had signed. Here none is signed,
	// and what may stand in them is harmless from anybody.
	{"CVE-2021-29652 Pomerium, parameters of sign-in and sign-out", []string{"https://evil.example/.pomerium/callback", "javascript:alert(1)", "data:text/html,x", "JavaScript://localhost/%0aalert(1)"}},
	// A portal led to whatever its parameter said.
	{"CVE-2024-21497 caddy-security, redirect_url", []string{"https://evil.example/", "ftp://evil.example", "//evil.example/portal", "wss://evil.example"}},
}

// redirectParameters are the names that peers use; return_to is the gateway's.
var redirectParameters = []string{
	"return_to", "rd", "redirect", "redirect_uri", "redirect_url", "target_link_uri", "post_logout_redirect_uri", "logout", "pomerium_redirect_uri", "continue_at", "url", "next",
}

// TestAdvisoriesRedirect: wherever a place to return to is given, a browser
// stays on the gateway's origin.
func TestAdvisoriesRedirect(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /, upstream: app, auth: [session]}, {match: /app/, upstream: app, auth: [none]}]\n")
	c := g.stranger()
	// A path on this origin is what it is for.
	if a := g.signInTo(c, "/public?x=//y", ""); a.header.Get("Location") != "/public?x=//y" {
		t.Errorf("return_to is not honoured: %d %q", a.status, a.header.Get("Location"))
	}
	for _, a := range redirectAdvisories {
		t.Run(a.name, func(t *testing.T) {
			for _, place := range a.attacks {
				query := "?"
				for _, name := range redirectParameters {
					query += name + "=" + url.QueryEscape(place) + "&"
				}
				for what, got := range map[string]answer{
					"the form":      g.signInTo(c, place, ""),
					"its query":     g.signInTo(c, "", query),
					"/signin":       g.do(c, "GET", "/signin"+query, "", "Accept", "text/html"),
					"/login":        g.do(c, "GET", "/login"+query, "", "Accept", "text/html"),
					"GET /logout":   g.do(c, "GET", "/logout"+query, "", "Accept", "text/html"),
					"POST /logout":  g.do(c, "POST", "/logout"+query, query[1:], "Accept", "text/html", "Content-Type", typeForm),
					"/callback":     g.do(c, "GET", "/callback"+query+"iss=https://evil.example&login_hint=x", "", "Accept", "text/html"),
					"a page":        g.do(c, "GET", "/page"+query, "", "Accept", "text/html"),
					"another site":  g.do(c, "GET", "/logout"+query, "", "Accept", "text/html", "Sec-Fetch-Site", "cross-site"),
					"wrong secrets": g.do(c, "POST", "/login"+query, "username=x&password=y&return_to="+url.QueryEscape(place), "Accept", "text/html", "Content-Type", typeForm),
				} {
					wantOwnOrigin(t, g, what+" with "+place, got)
				}
			}
			up.none(t)
		})
	}
	t.Run("targets and headers", func(t *testing.T) { redirectsOfTargets(t, g) })
}

// signInTo posts the form of the sign-in page, as a browser does.
func (g *instance) signInTo(c *http.Client, place, query string) answer {
	g.t.Helper()
	body := url.Values{"username": {"alice"}, "password": {"wonderland"}, "return_to": {place}}.Encode()
	return g.do(c, "POST", "/login"+query, body, "Accept", "text/html", "Content-Type", typeForm)
}

// redirectsOfTargets are redirects that the gateway makes of what is asked for.
func redirectsOfTargets(t *testing.T, g *instance) {
	for _, test := range []struct {
		name  string
		lines []string // the request line and what follows it
	}{
		// The redirect that adds a slash took two of them, and dots, over from the target.
		{"CVE-2022-28923 Caddy, the redirect to a path in order", []string{
			"GET //evil.example/%2e%2e HTTP/1.1", `GET /\evil.example/app HTTP/1.1`, "GET //evil.example//app HTTP/1.1", "GET /app?//evil.example HTTP/1.1", "GET /%5cevil.example/.. HTTP/1.1", "GET ///evil.example/app HTTP/1.1",
		}},
		// The prefix for a redirect came from a header that anybody can send.
		{"CVE-2020-15129 Traefik, X-Forwarded-Prefix", []string{"GET /app HTTP/1.1\nX-Forwarded-Prefix: //evil.example", "GET /page HTTP/1.1\nX-Forwarded-Prefix: https://evil.example"}},
		{"CVE-2024-52003 Traefik, X-Forwarded-Prefix after the fix", []string{`GET /app HTTP/1.1` + "\n" + `X-Forwarded-Prefix: /\evil.example`, "GET /app HTTP/1.1\nX_Forwarded_Prefix: //evil.example", "GET /signin HTTP/1.1\nX-Forwarded-Prefix: https:/evil.example"}},
		// So did the scheme, and the host.
		{"CVE-2024-21499 caddy-security, X-Forwarded-Proto", []string{"GET /app HTTP/1.1\nX-Forwarded-Proto: javascript", "GET /page HTTP/1.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: evil.example", "GET /logout HTTP/1.1\nForwarded: proto=javascript;host=evil.example"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, lines := range test.lines {
				wantOwnOrigin(t, g, lines, g.raw(t, lines+"\nHost: localhost\nAccept: text/html\nReferer: https://evil.example/\n\n"))
				wantOwnOrigin(t, g, lines, g.plain(t, "127.0.0.1", lines+"\nHost: evil.example\nAccept: text/html\n\n"))
			}
		})
	}
}

// wantOwnOrigin follows everything that leads on from an answer.
func wantOwnOrigin(t *testing.T, g *instance, what string, a answer) {
	t.Helper()
	places := append(a.header.Values("Location"), a.header.Values("Refresh")...)
	if strings.Contains(a.header.Get("Content-Type"), "html") {
		page, err := html.Parse(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		for node := range page.Descendants() {
			for _, attribute := range node.Attr {
				if node.Data == "meta" && attribute.Key == "content" && strings.Contains(attribute.Val, "url=") {
					t.Errorf("%q: the page leads on by itself: %q", what, attribute.Val)
				}
				if attribute.Key == "href" || attribute.Key == "src" || attribute.Key == "action" || attribute.Key == "formaction" ||
					attribute.Key == "value" && node.Data == "input" && isReturnTo(node) {
					places = append(places, attribute.Val)
				}
			}
		}
	}
	for _, place := range places {
		if origin := landing(g.public, place); origin != "" {
			t.Errorf("%q leads to %s by %q", what, origin, place)
		}
		if u, err := url.Parse(place); err == nil { // the place to return to of the next page
			if next := u.Query().Get("return_to"); landing(g.public, next) != "" {
				t.Errorf("%q leads to %s in the end, by %q", what, landing(g.public, next), place)
			}
		}
	}
}

func isReturnTo(node *html.Node) bool {
	for _, a := range node.Attr {
		if a.Key == "name" && a.Val == "return_to" {
			return true
		}
	}
	return false
}
