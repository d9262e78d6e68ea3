package e2e

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestHostilePages: pages show titles of providers and names of people as text,
// also when they look like HTML.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	const script = `"><script>alert(1)</script>`
	h, second := newHostile(t, "hostile"), newHostile(t, "second")
	h.more = ", title: '" + script + "'"
	second.more = ", title: Fish & Chips"
	s := startStage(t, "", h, second)
	c := s.visitor()
	a := s.ask(t, c, "GET", "/login?return_to=/secure-resource")
	if got := a.header.Get("Location"); a.status != http.StatusFound || got != "/signin?return_to="+url.QueryEscape("/secure-resource") {
		t.Errorf("/login: %d to %q", a.status, got)
	}
	b := &browser{t: t, c: c}
	b.open(s.base + "/login?return_to=/secure-resource")
	for _, title := range []string{script, "Fish & Chips"} {
		if !strings.Contains(b.page.body, "Continue with "+html.EscapeString(title)+"</a>") {
			t.Errorf("the page has no link to %q: %s", title, b.page.body)
		}
	}
	if fields, _ := b.form(); !fields.fields.Has("password") {
		t.Error("the page has no form for local accounts")
	}
	for _, provider := range []*hostile{h, second} {
		link := "/login?provider=" + provider.name + "&return_to=" + url.QueryEscape("/secure-resource")
		if !slices.Contains(b.links(), link) {
			t.Fatalf("%q has no %s", b.links(), link)
		}
		to := queryOf(s.ask(t, c, "GET", link).header.Get("Location"))
		g := provider.grant(to, "person", lie{person: func(_ *grant, p map[string]any) {
			p["name"], p["preferred_username"], p["roles"] = script, script, []string{script}
		}})
		if a := s.ask(t, c, "GET", "/callback?"+g.response().Encode()); a.header.Get("Location") != "/secure-resource" {
			t.Errorf("the callback: %d to %q", a.status, a.header.Get("Location"))
		}
		s.noScripts(t, c)
	}
	s.check(t)
}

// noScripts fails the test if a page has a script.
func (s *stage) noScripts(t *testing.T, c *http.Client) {
	t.Helper()
	mark := url.QueryEscape("/<script>alert(1)</script>")
	for _, path := range []string{"/me", "/signin", "/signin?return_to=" + mark, "/login?provider=" + mark, "/callback?error=" + mark, "/" + mark} {
		page := s.ask(t, c, "GET", path, "Accept", "text/html")
		if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || strings.Contains(page.body, "<script") {
			t.Errorf("%s: %d, a page of %q: %s", path, page.status, page.header.Get("Content-Type"), page.body)
		}
		if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q", path, policy)
		}
	}
}
