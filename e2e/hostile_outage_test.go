package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestProviderOutage: while a provider is down, logins there fail with a page that
// says so, and all others succeed. When it is up again, they succeed too.
func TestProviderOutage(t *testing.T) {
	t.Parallel()
	steady, late, brief := newHostile(t, "steady"), newHostile(t, "late"), newHostile(t, "brief")
	late.down()
	s := startStage(t, "", steady, late, brief) // late is down when the gateway starts
	others := func(t *testing.T) {
		t.Helper()
		s.enters(t, s.visitor(), steady, lie{})
		local := s.signIn(s.visitor(), "alice").session
		if got := s.ask(t, s.stranger(), "GET", "/local-resource", "Cookie", local).status; got != http.StatusOK {
			t.Errorf("with a local session: %d", got)
		}
	}
	down := func(t *testing.T, h *hostile) {
		t.Helper()
		c := s.visitor()
		a := s.ask(t, c, "GET", "/login?provider="+h.name, "Accept", "text/html")
		s.refused(t, c, h, a, http.StatusBadGateway)
		if a.header.Get("Location") != "" || len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("to %q with %q", a.header.Get("Location"), a.header["Set-Cookie"])
		}
	}
	down(t, late)
	others(t)
	if page := s.ask(t, s.visitor(), "GET", "/signin", "Accept", "text/html"); page.status != http.StatusOK || !strings.Contains(page.body, "provider=late") {
		t.Errorf("the sign-in page: %d", page.status)
	}

	session := s.enters(t, s.visitor(), brief, lie{})
	c := s.visitor()
	login := s.begin(t, c, brief)
	g := login.agree(lie{})
	brief.down()
	s.refused(t, c, brief, login.back(c, g.response(), "Accept", "text/html"), http.StatusBadGateway)
	s.lives(t, session)
	others(t)
	s.begin(t, s.visitor(), brief) // the gateway still has the metadata

	for _, h := range []*hostile{late, brief} {
		h.up()
		until(t, "logins at the provider", func() bool {
			a := s.ask(t, s.visitor(), "GET", "/login?provider="+h.name)
			return a.status == http.StatusFound
		})
		s.enters(t, s.visitor(), h, lie{})
	}
	s.lives(t, session)
	s.check(t)
}

// TestReloadDuringLogin: a login that has begun survives a reload, unless its
// provider has changed or is gone.
func TestReloadDuringLogin(t *testing.T) {
	t.Parallel()
	kept, moved, gone := newHostile(t, "kept"), newHostile(t, "moved"), newHostile(t, "gone")
	s := startStage(t, "", kept, moved, gone)
	visitors := map[*hostile]*http.Client{}
	attempts, sessions := map[*hostile]*attempt{}, map[*hostile]string{}
	for _, h := range s.providers {
		sessions[h] = s.enters(t, s.visitor(), h, lie{})
		visitors[h] = s.visitor()
		attempts[h] = s.begin(t, visitors[h], h)
	}
	another := newHostile(t, "moved") // another provider with the same name
	s.providers = []*hostile{kept, another}
	s.configure(s.config("endpoints: {prefix: /}\nlimits: {login_failures: 11}\n"))
	s.signal(syscall.SIGHUP)
	until(t, "the reload", func() bool { return len(s.entriesOf("reloaded")) > 0 })

	if a := attempts[kept].finish(lie{}); a.status != http.StatusFound {
		t.Errorf("the provider is the same: %d %s", a.status, a.body)
	}
	s.lives(t, s.sessionOf(t, visitors[kept]))
	s.lives(t, sessions[kept])
	for _, h := range []*hostile{moved, gone} {
		g := attempts[h].agree(lie{})
		s.refused(t, visitors[h], h, attempts[h].back(visitors[h], g.response(), "Accept", "text/html"), http.StatusBadRequest)
		if g.exchanges() != 0 {
			t.Errorf("%s was asked", h.name)
		}
		s.ended(t, sessions[h])
	}
	if got := len(another.calls("/token")); got != 0 {
		t.Errorf("the code of one provider came to another %d times", got)
	}
	s.enters(t, s.visitor(), another, lie{})
	s.check(t)
}
