package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// redirectAdvisories are addresses that a program took for paths, and that lead
// browsers to another site.
var redirectAdvisories = []advisory{
	{"CVE-2017-1000070 Bitly oauth2_proxy, other sites", []string{"https://evil.example/", "//evil.example", "//evil.example/%2e%2e", "//evil.example:443/x", "///evil.example", "////evil.example/x"}},
	{"CVE-2020-5233 oauth2-proxy, slash and backslash", []string{`/\evil.example`, `/\/evil.example`, `\/evil.example`, `\\evil.example`, `/\\evil.example`}},
	{"CVE-2020-11053 oauth2-proxy, white space between slashes", []string{"/\t/evil.example", "/\n/evil.example", "/\r/evil.example", "/\v/evil.example", "/ /evil.example", "/\t\\evil.example", "/%09/evil.example", "/%0a/evil.example"}},
	{"CVE-2020-4037 oauth2-proxy, mixtures", []string{`/./\evil.example`, `/.//evil.example`, `/\t/\evil.example`, "/\t/\t\\evil.example", `/..//evil.example`, `/%2e//evil.example`, `/;//evil.example`, `/x/..//evil.example`, "\x00//evil.example", "/\x0b/\x0b/evil.example"}},
	{"CVE-2021-21291 oauth2-proxy, a host with the same end", []string{"https://evillocalhost/", "https://localhost.evil.example/", "https://localhost@evil.example/", "https://evil.example#localhost", "https://evil.example?localhost", `https://evil.example\@localhost/`}},
	{"CVE-2019-14857 mod_auth_openidc, leading slashes", []string{"//evil.example/", "///evil.example/", "https:///evil.example/", "https:evil.example", "https:/evil.example"}},
	{"CVE-2019-20479 mod_auth_openidc, slash and backslash", []string{`/\evil.example/`, `/\\\evil.example`}},
	{"CVE-2021-32786 mod_auth_openidc, backslashes in URLs", []string{`https:\\evil.example`, `https:/\evil.example`, `\\\\evil.example`, `https://localhost\.evil.example/`}},
	{"CVE-2022-23527 mod_auth_openidc, slash and tab", []string{"/\t/evil.example", "/\t\\evil.example", "\t//evil.example", "/\t\t//evil.example", "h\tttps://evil.example"}},
	{"CVE-2021-39191 mod_auth_openidc, target_link_uri", []string{"https://evil.example/", "https://localhost:8443.evil.example", "http://evil.example", "//evil.example/?target_link_uri=/"}},
	{"CVE-2021-29456 Authelia, logout", []string{"https://evil.example", "http://evil.example/", "HTTPS://EVIL.EXAMPLE", "//evil.example"}},
	{"CVE-2021-29651 Pomerium, a JWT for any address", []string{"https://evil.example/?pomerium_jwt=", "https://evil.example/#"}},
	{"CVE-2021-29652 Pomerium, parameters of sign-in and sign-out", []string{"https://evil.example/.pomerium/callback", "javascript:alert(1)", "data:text/html,x", "JavaScript://localhost/%0aalert(1)"}},
	{"CVE-2024-21497 caddy-security, redirect_url", []string{"https://evil.example/", "ftp://evil.example", "//evil.example/portal", "wss://evil.example"}},
}

// redirectParameters are the names of other programs, and return_to.
var redirectParameters = []string{
	"return_to", "rd", "redirect", "redirect_uri", "redirect_url", "target_link_uri", "post_logout_redirect_uri", "logout", "pomerium_redirect_uri", "continue_at", "url", "next",
}

// TestAdvisoriesRedirect: a browser stays on the gateway's origin, wherever a
// request has an address.
func TestAdvisoriesRedirect(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /, upstream: app, auth: [session]}, {match: /app/, upstream: app, auth: [none]}]\n")
	c := g.stranger()
	// A path on this origin works.
	if a := g.signInTo(c, "/public?x=//y", ""); a.header.Get("Location") != "/public?x=//y" {
		t.Errorf("return_to has no effect: %d %q", a.status, a.header.Get("Location"))
	}
	for _, a := range redirectAdvisories {
		t.Run(a.name, func(t *testing.T) {
			answers := map[string]answer{}
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
					answers[what+" with "+place] = got
				}
			}
			wantOwnOrigin(t, g, answers)
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

// redirectsOfTargets checks redirects that depend on target and headers.
func redirectsOfTargets(t *testing.T, g *instance) {
	for _, test := range []struct {
		name  string
		lines []string // the request line and headers
	}{
		{"CVE-2022-28923 Caddy, the redirect to a path in order", []string{
			"GET //evil.example/%2e%2e HTTP/1.1", `GET /\evil.example/app HTTP/1.1`, "GET //evil.example//app HTTP/1.1", "GET /app?//evil.example HTTP/1.1", "GET /%5cevil.example/.. HTTP/1.1", "GET ///evil.example/app HTTP/1.1",
		}},
		{"CVE-2020-15129 Traefik, X-Forwarded-Prefix", []string{"GET /app HTTP/1.1\nX-Forwarded-Prefix: //evil.example", "GET /page HTTP/1.1\nX-Forwarded-Prefix: https://evil.example"}},
		{"CVE-2024-52003 Traefik, X-Forwarded-Prefix after the fix", []string{`GET /app HTTP/1.1` + "\n" + `X-Forwarded-Prefix: /\evil.example`, "GET /app HTTP/1.1\nX_Forwarded_Prefix: //evil.example", "GET /signin HTTP/1.1\nX-Forwarded-Prefix: https:/evil.example"}},
		{"CVE-2024-21499 caddy-security, X-Forwarded-Proto", []string{"GET /app HTTP/1.1\nX-Forwarded-Proto: javascript", "GET /page HTTP/1.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: evil.example", "GET /logout HTTP/1.1\nForwarded: proto=javascript;host=evil.example"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers := map[string]answer{}
			for _, lines := range test.lines {
				answers[lines] = g.raw(t, lines+"\nHost: localhost\nAccept: text/html\nReferer: https://evil.example/\n\n")
				answers["plain "+lines] = g.plain(t, "127.0.0.1", lines+"\nHost: evil.example\nAccept: text/html\n\n")
			}
			wantOwnOrigin(t, g, answers)
		})
	}
}

// wantOwnOrigin fails the test if a header, a link or a return_to of an answer
// leads a browser to another origin.
func wantOwnOrigin(t *testing.T, g *instance, answers map[string]answer) {
	t.Helper()
	var whats, places []string
	for what, a := range answers {
		for _, place := range placesOf(t, a) {
			whats, places = append(whats, what), append(places, place)
			if next := queryOf(place).Get("return_to"); next != "" {
				whats, places = append(whats, what), append(places, next)
			}
		}
	}
	for i, origin := range landings(t, g.public+"/login", places) {
		if origin != g.public {
			t.Errorf("%q leads to %q by %q", whats[i], origin, places[i])
		}
	}
}

// placesOf returns the addresses in headers, links and forms of an answer.
func placesOf(t *testing.T, a answer) []string {
	t.Helper()
	places := append(a.header.Values("Location"), a.header.Values("Refresh")...)
	if !strings.Contains(a.header.Get("Content-Type"), "html") {
		return places
	}
	page, err := html.Parse(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	for node := range page.Descendants() {
		attributes := map[string]string{}
		for _, attribute := range node.Attr {
			attributes[attribute.Key] = attribute.Val
		}
		if node.Data == "meta" && strings.Contains(attributes["content"], "url=") {
			t.Errorf("the page redirects: %q", attributes["content"])
		}
		for _, name := range []string{"href", "src", "action", "formaction"} {
			if place, ok := attributes[name]; ok {
				places = append(places, place)
			}
		}
		if attributes["name"] == "return_to" {
			places = append(places, attributes["value"])
		}
	}
	return places
}
