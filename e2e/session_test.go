package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestBindRefresh: with token.bind_refresh a refresh token is of no use to
// another user agent, and its owner loses nothing by the attempt.
func TestBindRefresh(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, secure+app(up.url)+"token: {bind_refresh: [user_agent]}\n")
	c := g.stranger()
	const owner = "Owner/1.0 (desk)"
	post := func(path, body, agent string) answer {
		return g.do(c, "POST", path, body, "Content-Type", typeJSON, "User-Agent", agent)
	}
	login := post("/login", right, owner)
	for range 2 { // what a refresh gives is bound too
		mine, err := tokens(login)
		if err != nil || mine.refresh == "" {
			t.Fatalf("no tokens: %d %s, %v", login.status, login.body, err)
		}
		body := fmt.Sprintf(`{"refresh_token":%q}`, mine.refresh)
		for _, thief := range []string{"Thief/1.0", "", strings.ToLower(owner), owner + " x", "Owner/1.0"} {
			a := post("/refresh", body, thief)
			wantProblem(t, a, http.StatusUnauthorized)
			if got, _ := tokens(a); got.refresh != "" || got.access != "Bearer " || len(a.header["Set-Cookie"]) > 0 {
				t.Errorf("%q gets something: %s, %q", thief, a.body, a.header["Set-Cookie"])
			}
		}
		if got := g.status(c, "GET", "/secure-resource", "Authorization", mine.access); got != http.StatusOK {
			t.Errorf("the access token after that: %d", got)
		}
		if got := up.one(t).value(t, "X-Auth-Subject"); got != "local:alice" {
			t.Errorf("the upstream hears of %q", got)
		}
		if login = post("/refresh", body, owner); login.status != http.StatusOK {
			t.Fatalf("the owner: %d %s", login.status, login.body)
		}
	}
}

// TestIdleTimeout: a session without a request for session.idle_timeout ends,
// one in use does not.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	const idle = 2 * time.Second
	up := record(t)
	g := start(t, secure+app(up.url)+fmt.Sprintf("session: {idle_timeout: %v}\n", idle))
	c := g.stranger()
	used, unused := g.signIn(c, "alice").session, g.signIn(c, "bob").session
	began := time.Now()
	last := began // when the session in use was last asked with
	until(t, "the idle session to end", func() bool {
		asked := time.Now()
		got := g.status(c, "GET", "/secure-resource", "Cookie", used)
		if got == http.StatusUnauthorized && time.Since(last) > idle/2 {
			// The machine has let it idle. It begins anew.
			used, unused = g.signIn(c, "alice").session, g.signIn(c, "bob").session
			began, last = time.Now(), time.Now()
			return false
		}
		if got != http.StatusOK {
			t.Fatalf("the session in use, %v later: %d", time.Since(began), got)
		}
		if got := up.one(t).value(t, "X-Auth-User"); got != "alice" {
			t.Fatalf("the upstream hears of %q", got)
		}
		last = asked
		return time.Since(began) > idle
	})
	wantProblem(t, g.do(c, "GET", "/secure-resource", "", "Cookie", unused), http.StatusUnauthorized)
	up.none(t)
}

// TestRedirectUnauthenticated: where a route says redirect, every GET and HEAD
// without a credential leads to the sign-in page and back, whoever asks.
func TestRedirectUnauthenticated(t *testing.T) {
	t.Parallel()
	const target = "/app/a%20b?c=%2F&d"
	up := record(t)
	g := start(t, people+"routes: [{match: /app/, upstream: app, auth: [session], unauthenticated: redirect}]\n"+app(up.url))
	signIn := "/signin?return_to=" + url.QueryEscape(target)
	for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
		for _, headers := range [][]string{
			nil, {"Accept", typeJSON}, {"Sec-Fetch-Mode", "cors"}, {"Authorization", basicService}, // not of this route
		} {
			for _, method := range []string{"GET", "HEAD"} {
				a := g.do(c, method, target, "", headers...)
				if got := a.header.Get("Location"); a.status != http.StatusFound || got != signIn || a.header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s %q: %d to %q", method, headers, a.status, got)
				}
			}
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				a := g.do(c, method, target, "", headers...)
				wantProblem(t, a, http.StatusUnauthorized)
				if got := a.header.Get("Location"); got != "" {
					t.Errorf("%s %q: 401 to %q", method, headers, got)
				}
			}
		}
		// A program is told that its session has ended. A browser signs in again,
		// without the cookie, or it would go round in circles.
		wantProblem(t, g.do(c, "GET", target, "", "Cookie", "session_id=dead"), http.StatusUnauthorized)
		a := g.do(c, "GET", target, "", "Cookie", "session_id=dead", "Accept", "text/html")
		if cookie := a.header.Get("Set-Cookie"); a.status != http.StatusFound || a.header.Get("Location") != signIn ||
			!strings.HasPrefix(cookie, "session_id=;") || !strings.Contains(cookie, "Max-Age=0") {
			t.Errorf("a page load with a dead session: %d to %q, and sets %q", a.status, a.header.Get("Location"), cookie)
		}
	}
	up.none(t)

	browser := g.client()
	if a := g.do(browser, "GET", signIn, "", "Accept", "text/html"); a.status != http.StatusOK || !strings.Contains(a.body, "<form") {
		t.Errorf("the sign-in page: %d %s", a.status, a.body)
	}
	form := url.Values{"username": {"alice"}, "password": {"wonderland"}, "return_to": {target}}.Encode()
	back := g.do(browser, "POST", "/login", form, "Content-Type", typeForm, "Accept", "text/html")
	if got := back.header.Get("Location"); back.status != http.StatusSeeOther || got != target {
		t.Fatalf("after the sign-in: %d to %q", back.status, got)
	}
	if got := g.status(browser, "GET", target); got != http.StatusOK {
		t.Errorf("the page that was asked for: %d", got)
	}
	if m := up.one(t); m.target() != target || m.value(t, "X-Auth-User") != "alice" {
		t.Errorf("reached the upstream: %q as %q", m.target(), m.value(t, "X-Auth-User"))
	}
}
