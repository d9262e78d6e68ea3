package wire

import (
	"net/http"
	"net/url"
	"testing"

	"authgate/e2e/world"
)

// redirectAdvisories are addresses that a program took for paths, and that lead
// browsers to another site.
var redirectAdvisories = []advisory{
	{"CVE-2017-1000070 Bitly oauth2_proxy, other sites", []string{"https://evil.example/", "//evil.example",
		"//evil.example/%2e%2e", "//evil.example:443/x", "///evil.example", "////evil.example/x"}},
	{"CVE-2020-5233 oauth2-proxy, slash and backslash",
		[]string{`/\evil.example`, `/\/evil.example`, `\/evil.example`, `\\evil.example`, `/\\evil.example`}},
	{"CVE-2020-11053 oauth2-proxy, white space between slashes",
		[]string{"/\t/evil.example", "/\n/evil.example", "/\r/evil.example", "/\v/evil.example", "/ /evil.example",
			"/\t\\evil.example", "/%09/evil.example", "/%0a/evil.example"}},
	{"CVE-2020-4037 oauth2-proxy, mixtures",
		[]string{`/./\evil.example`, `/.//evil.example`, `/\t/\evil.example`, "/\t/\t\\evil.example", `/..//evil.example`,
			`/%2e//evil.example`, `/;//evil.example`, `/x/..//evil.example`, "\x00//evil.example", "/\x0b/\x0b/evil.example"}},
	{"CVE-2021-21291 oauth2-proxy, a host with the same end",
		[]string{"https://evillocalhost/", "https://localhost.evil.example/", "https://localhost@evil.example/",
			"https://evil.example#localhost", "https://evil.example?localhost", `https://evil.example\@localhost/`}},
	{"CVE-2019-14857 mod_auth_openidc, leading slashes", []string{"//evil.example/", "///evil.example/",
		"https:///evil.example/", "https:evil.example", "https:/evil.example"}},
	{"CVE-2019-20479 mod_auth_openidc, slash and backslash", []string{`/\evil.example/`, `/\\\evil.example`}},
	{"CVE-2021-32786 mod_auth_openidc, backslashes in URLs",
		[]string{`https:\\evil.example`, `https:/\evil.example`, `\\\\evil.example`, `https://localhost\.evil.example/`}},
	{"CVE-2022-23527 mod_auth_openidc, slash and tab", []string{"/\t/evil.example", "/\t\\evil.example",
		"\t//evil.example", "/\t\t//evil.example", "h\tttps://evil.example"}},
	{"CVE-2021-39191 mod_auth_openidc, target_link_uri", []string{"https://evil.example/",
		"https://localhost:8443.evil.example", "http://evil.example", "//evil.example/?target_link_uri=/"}},
	{"CVE-2021-29456 Authelia, logout", []string{"https://evil.example", "http://evil.example/", "HTTPS://EVIL.EXAMPLE",
		"//evil.example"}},
	{"CVE-2021-29651 Pomerium, a JWT for any address",
		[]string{"https://evil.example/?pomerium_jwt=", "https://evil.example/#"}},
	{"CVE-2021-29652 Pomerium, parameters of sign-in and sign-out", []string{"https://evil.example/.pomerium/callback",
		"javascript:alert(1)", "data:text/html,x", "JavaScript://localhost/%0aalert(1)"}},
	{"CVE-2024-21497 caddy-security, redirect_url",
		[]string{"https://evil.example/", "ftp://evil.example", "//evil.example/portal", "wss://evil.example"}},
}

// TestAdvisoriesRedirect: a browser stays on the gateway's origin, by the URL parser
// of Node.js, wherever a request has an address. FuzzReturnToInBrowsers of package
// gateway has the pages, headers and targets.
func TestAdvisoriesRedirect(t *testing.T) {
	t.Parallel()
	g := world.Start(t, world.People+world.App(world.Record(t).URL)+"routes: [{match: /, upstream: app, auth: "+
		"[session]}]\n")
	c := g.Stranger()
	if a := signInTo(g, c, "/public?x=//y", ""); a.Header.Get("Location") != "/public?x=//y" {
		t.Errorf("return_to has no effect: %d %q", a.Status, a.Header.Get("Location"))
	}
	// The other parameters are those of other programs.
	parameters := []string{"return_to", "rd", "redirect", "redirect_uri", "redirect_url", "target_link_uri",
		"post_logout_redirect_uri", "logout", "continue_at", "url", "next"}
	for _, advisory := range redirectAdvisories {
		t.Run(advisory.name, func(t *testing.T) {
			var attacks, places []string
			for _, place := range advisory.attacks {
				query := "?"
				for _, name := range parameters {
					query += name + "=" + url.QueryEscape(place) + "&"
				}
				for _, a := range []world.Answer{
					signInTo(g, c, place, ""), signInTo(g, c, "", query), g.Do(c, "GET", "/login"+query, ""),
					g.Do(c, "GET", "/page"+query, "", "Accept", "text/html"),
					g.Do(c, "GET", "/callback"+query+"iss=https://evil.example", ""),
					g.Do(c, "GET", "/logout"+query, "", "Accept", "text/html"),
					g.Do(c, "POST", "/logout"+query, query[1:], "Accept", "text/html", "Content-Type", world.TypeForm),
				} {
					to := a.Header.Get("Location")
					attacks, places = append(attacks, place, place), append(places, to, world.QueryOf(to).Get("return_to"))
				}
			}
			for i, origin := range landings(t, g.Public+"/login", places) {
				if origin != g.Public {
					t.Errorf("%q leads to %q by %q", attacks[i], origin, places[i])
				}
			}
		})
	}
}

// signInTo posts the form of the sign-in page, as a browser does.
func signInTo(g *world.Instance, c *http.Client, place, query string) world.Answer {
	g.T.Helper()
	body := url.Values{"username": {"alice"}, "password": {"wonderland"}, "return_to": {place}}.Encode()
	return g.Do(c, "POST", "/login"+query, body, "Accept", "text/html", "Content-Type", world.TypeForm)
}
