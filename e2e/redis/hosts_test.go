package redis

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestRedisTickets: a sign-in at another host begins and ends at any instance, though each
// has an encryption key of its own. The ticket works once, and the logout counts at both.
func TestRedisTickets(t *testing.T) {
	t.Parallel()
	p := preparePair(t, world.StartRedis(t))
	for _, g := range p.both() {
		g.Configure(shared + "  - {match: wiki.test/, upstream: app, auth: [session]}\n" + world.App(p.up.URL) +
			fmt.Sprintf("store: {driver: redis, addresses: [%q]}\n", p.redis.Address))
	}
	p.run()
	begun := p.a.Page(p.client(p.a), "wiki.test", "/page")
	waits := world.Must(url.Parse(begun.Header.Get("Location")))(t)
	binding := world.CookieOf(world.Answer{Header: begun.Header})
	if begun.StatusCode != http.StatusFound || waits.Hostname() != "localhost" || binding == "" {
		t.Fatalf("a page without a session: %d to %s with %q", begun.StatusCode, waits, binding)
	}
	home := p.b.SignIn(p.client(p.b), "alice")
	issue := func() *url.URL {
		t.Helper()
		issued := p.a.Page(p.client(p.a), "localhost", waits.RequestURI(), home.Session)
		ticket := world.Must(url.Parse(issued.Header.Get("Location")))(t)
		if issued.StatusCode != http.StatusFound || ticket.Hostname() != "wiki.test" || ticket.Path != "/signin/complete" {
			t.Fatalf("the sign-in: %d to %s", issued.StatusCode, ticket)
		}
		return ticket
	}
	ticket := issue()
	for _, cookie := range []string{"", binding} { // the first use counts
		if got := p.b.Page(p.client(p.b), "wiki.test", ticket.RequestURI(), cookie); got.StatusCode != http.StatusBadRequest {
			t.Errorf("the ticket, without the cookie and then with it (%q): %d", cookie, got.StatusCode)
		}
	}
	ticket = issue()
	used := p.b.Page(p.client(p.b), "wiki.test", ticket.RequestURI(), binding)
	session := world.CookieOf(world.Answer{Header: used.Header})
	if used.StatusCode != http.StatusFound || used.Header.Get("Location") != "/page" ||
		!strings.HasPrefix(session, "session_id=") {
		t.Fatalf("the ticket: %d to %s with %q", used.StatusCode, used.Header.Get("Location"), session)
	}
	for name, g := range p.both() {
		c := p.client(g)
		if got := g.Page(c, "wiki.test", ticket.RequestURI(), binding); got.StatusCode != http.StatusBadRequest ||
			got.Header["Set-Cookie"] != nil {
			t.Errorf("the ticket again at %s: %d", name, got.StatusCode)
		}
		if got := g.Page(c, "wiki.test", "/page", session); got.StatusCode != http.StatusOK {
			t.Errorf("the session at %s: %d", name, got.StatusCode)
		}
		if got := g.Page(c, "localhost", "/secure-resource", session); got.StatusCode == http.StatusOK {
			t.Errorf("the session at another host of %s: %d", name, got.StatusCode)
		}
	}
	p.signOut(t, "Cookie", home.Session)
	for name, g := range p.both() {
		world.Until(t, name+" to refuse the session", func() bool {
			return g.Page(p.client(g), "wiki.test", "/page", session).StatusCode == http.StatusFound
		})
	}
}
