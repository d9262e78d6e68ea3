package gateway

import (
	"strings"
	"testing"
	"time"
)

// A ticket is for one host and one browser, once, for a minute. Any other use is 400, sets
// no cookie, reaches no upstream, and uses the ticket up.
func TestTickets(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	alice, mallory := r.person(), r.person()
	alice.signIn(pageOf("gw.example"), "alice")
	mallory.signIn(pageOf("gw.example"), "bob")
	mallory.visit("GET", pageOf("wiki.example.org"), "")
	refused := func(what string, p *person, place string, header ...string) {
		t.Helper()
		before := r.upstream.count()
		w := p.ask("GET", place, "", header...)
		if w.Code != 400 || w.Header()["Set-Cookie"] != nil || r.upstream.count() != before || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d %v", what, w.Code, w.Header())
		}
	}
	const wiki = "wiki.example.org"
	usedUp := func(what string, p *person, place func(ticket string) string) {
		t.Helper()
		ticket := alice.ticketOf(wiki)
		refused(what, p, place(ticket))
		refused(what+", and then the right use", alice, ticket)
	}
	here := func(ticket string) string { return ticket }
	with := func(host string, jar browserJar) *person {
		return &person{rig: r, jars: map[string]browserJar{host: jar}}
	}
	usedUp("another browser, which has waited too", mallory, here)
	usedUp("a browser without cookies", r.person(), here)
	usedUp("a browser with the cookies of another host", with(wiki, alice.jars["gw.example"]), here)
	for _, host := range fiveHosts {
		if host != wiki {
			elsewhere := func(ticket string) string { return strings.Replace(ticket, wiki, host, 1) }
			usedUp("at "+host, alice, elsewhere)
			usedUp("at "+host+" with the cookies of the right host", with(host, alice.jars[wiki]), elsewhere)
		}
	}
	usedUp("twice", alice, func(ticket string) string { return ticket + "&" + ticket[strings.Index(ticket, "ticket="):] })
	ticket := alice.ticketOf(wiki)
	refused("changed", alice, ticket[:len(ticket)-2]+"xx")
	refused("none", alice, "https://wiki.example.org/signin/complete")
	if w := alice.ask("HEAD", ticket, ""); w.Code != 302 || w.Header()["Set-Cookie"] != nil {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	if w := alice.ask("POST", ticket, "", "Origin: https://wiki.example.org"); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
	if at, w := alice.visit("GET", ticket, ""); at != "https://wiki.example.org/x?y" || w.Code != 200 {
		t.Errorf("the right use leads to %s, %d", at, w.Code)
	}
	refused("used", alice, ticket)

	late := alice.ticketOf("mail.example.net")
	r.clock.Advance(time.Minute)
	refused("late", alice, late)

	ended := alice.ticketOf("files.example.org")
	alice.ask("POST", "https://wiki.example.org/logout", "", "Origin: https://wiki.example.org")
	refused("after the logout", alice, ended)
}

// A person who is brought to a sign-in that another browser has begun gets an error, and
// the other browser gets nothing. Nor can they be signed in as somebody else.
func TestSignInOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	alice, mallory := r.person(), r.person()
	alice.signIn(pageOf("gw.example"), "alice")
	mallory.stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/signin?") }
	begun, _ := mallory.visit("GET", pageOf("wiki.example.org"), "")
	mallory.stop = nil
	at, w := alice.visit("GET", begun, "")
	if !strings.HasPrefix(at, "https://wiki.example.org/signin/complete?") || w.Code != 400 || w.Header()["Set-Cookie"] != nil {
		t.Errorf("alice is led to %s, %d %v", at, w.Code, w.Header())
	}
	mallory.isOut(pageOf("wiki.example.org"))

	mallory.signIn(pageOf("gw.example"), "bob")
	ticket := mallory.ticketOf("wiki.example.org")
	alice.visit("GET", ticket, "")
	alice.sees(pageOf("wiki.example.org"), "alice")
	ticket = mallory.ticketOf("wiki.example.org")
	alice.visit("GET", ticket, "")
	alice.sees(pageOf("wiki.example.org"), "alice")
}

// fromSites are where a browser says that a page load comes from. Redirects between hosts of
// different sites make it cross-site.
var fromSites = []string{"Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-site", crossSite}

// A browser that has begun the sign-in at another host gets its session there without a page, by
// whatever way it came, in each of its tabs, and with a session of either kind.
func TestNoPageForWhoBegan(t *testing.T) {
	t.Parallel()
	small := newSmallProvider(t)
	config := strings.Replace(fiveHostsConfig, "auth: [session, bearer]", "auth: [session, oidc]", -1) +
		"  - {match: files.example.org/o/, upstream: app, auth: [oidc]}\n" +
		"providers: [{name: small, issuer: \"" + small.issuer + "\", client_id: gateway}]\n"
	for _, site := range fromSites {
		r := newRig(t, config)
		p := r.person()
		p.signIn(pageOf("gw.example"), "alice")
		p.extra = []string{site}
		for _, host := range fiveHosts {
			p.sees(pageOf(host), "alice")
		}
		for range 3 { // tabs at once, with and without what the host keeps of the browser
			tab := *p
			tab.jars = map[string]browserJar{"gw.example": p.jars["gw.example"]}
			tab.sees(pageOf("wiki.example.org"), "alice")
		}
		q := r.person()
		q.stop = func(place string) bool { return strings.HasPrefix(place, small.issuer) }
		at, _ := q.visit("GET", "https://gw.example/login?provider=small", "")
		q.ask("GET", small.answerTo(t, at), "")
		q.extra, q.stop = []string{site}, nil
		q.sees("https://files.example.org/o/x", "carol")
	}
}

// A link with the binding of another browser gives that browser nothing: a page asks, and who
// continues gets a session of their own. The link works for nobody, also with what the
// gateway adds to it on the way.
func TestLinkWithAnotherBinding(t *testing.T) {
	t.Parallel()
	for _, config := range []string{fiveHostsConfig, strictConfig(t)} {
		for _, waiting := range []bool{false, true} { // whether alice was at the other host before
			r := newRig(t, config)
			alice, mallory := r.person(), r.person()
			alice.signIn(pageOf("gw.example"), "alice")
			mallory.stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/signin?") }
			begun, _ := mallory.visit("GET", pageOf("wiki.example.org"), "")
			mallory.stop = nil
			alice.extra = []string{crossSite}
			if waiting {
				alice.ask("GET", pageOf("wiki.example.org"), "")
			}
			ticket := ""
			alice.stop = func(place string) bool {
				if strings.Contains(place, "ticket=") {
					ticket = place
				}
				return false
			}
			for _, link := range []string{begun, begun + "&begun=" + strings.Repeat("A", 43), strings.Replace(begun, "/signin?", "/login?", 1)} {
				at, w := alice.goesOn(link)
				asks(t, at, w, pageOf("wiki.example.org"))
				if !strings.HasPrefix(at, "https://gw.example/signin?") || ticket != "" || !strings.Contains(w.Body.String(), "did not begin") {
					t.Errorf("led by %q to %s with %q: %s", alice.trail, at, ticket, w.Body)
				}
			}
			mallory.isOut(pageOf("wiki.example.org"))
			alice.extra = []string{"Sec-Fetch-Site: same-site"}
			at, w := alice.visit("GET", pageOf("wiki.example.org"), "")
			if at = strings.SplitN(at, "?", 2)[0]; w.Code != 200 || at != "https://wiki.example.org/x" && at != "https://wiki.example.org/signin/complete" {
				t.Errorf("continued by %q to %s, %d", alice.trail, at, w.Code)
			}
		}
	}
}

// The same holds for a sign-in at a provider, which can end without a page: the user may be
// signed in there already.
func TestLinkWithAnotherBindingThroughAProvider(t *testing.T) {
	t.Parallel()
	small := newSmallProvider(t)
	const place = "https://files.example.org/o/x"
	for _, session := range []string{"", "session: {same_site: strict}\n"} {
		r := newRig(t, fiveHostsConfig+"  - {match: files.example.org/o/, upstream: app, auth: [oidc]}\n"+
			"providers: [{name: small, issuer: \""+small.issuer+"\", client_id: gateway}]\n"+session)
		alice, mallory := r.person(), r.person()
		mallory.stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/login?") }
		begun, _ := mallory.visit("GET", place, "")
		ticket := ""
		alice.extra = []string{crossSite}
		alice.stop = func(place string) bool {
			if strings.Contains(place, "ticket=") {
				ticket = place
			}
			return strings.HasPrefix(place, small.issuer)
		}
		at, _ := alice.goesOn(begun)
		at, w := alice.goesOn(small.answerTo(t, at))
		asks(t, at, w, place)
		if !strings.HasPrefix(at, "https://gw.example/signin?") || ticket != "" {
			t.Errorf("led by %q to %s with %q", alice.trail, at, ticket)
		}
		alice.extra, alice.stop = []string{"Sec-Fetch-Site: same-site"}, nil
		if at, w := alice.goesOn(place); w.Code != 200 {
			t.Errorf("continued by %q to %s, %d", alice.trail, at, w.Code)
		}
	}
}

// A browser that does not say which site a request comes from is asked too. If it has begun
// the sign-in, it sees no page.
func TestLinkWithAnotherBindingInAnOldBrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	alice, mallory := r.person(), r.person()
	alice.signIn(pageOf("gw.example"), "alice")
	mallory.stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/signin?") }
	begun, _ := mallory.visit("GET", pageOf("wiki.example.org"), "")
	alice.extra = []string{"User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/15.6 Safari/605.1.15"}
	alice.stop = func(place string) bool { return strings.Contains(place, "ticket=") }
	at, w := alice.visit("GET", begun, "")
	asks(t, at, w, pageOf("wiki.example.org"))
	alice.stop = nil
	alice.sees(pageOf("files.example.org"), "alice")
}

// What proves that a browser began a sign-in proves it for one session, host and binding.
func TestConfirmedSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	p := r.person()
	p.signIn(pageOf("gw.example"), "alice")
	p.extra = []string{crossSite}
	confirmed := ""
	p.stop = func(place string) bool {
		if strings.HasPrefix(place, "https://gw.example/signin?") && strings.Contains(place, "begun=") {
			confirmed = place
		}
		return false
	}
	p.sees(pageOf("wiki.example.org"), "alice")
	if w := p.ask("GET", confirmed, ""); w.Code != 302 || !strings.Contains(w.Header().Get("Location"), "ticket=") {
		t.Fatalf("%s again: %d", confirmed, w.Code)
	}
	for what, place := range map[string]string{
		"another host":    strings.Replace(confirmed, "wiki.example.org", "files.example.org", 1),
		"another binding": strings.Replace(confirmed, "binding=", "binding=A", 1)[:len(confirmed)],
	} {
		if w := p.ask("GET", place, ""); w.Code/100 == 3 && strings.Contains(w.Header().Get("Location"), "ticket=") {
			t.Errorf("%s: to %s", what, w.Header().Get("Location"))
		}
	}
	q := r.person()
	q.signIn(pageOf("gw.example"), "bob")
	q.extra = []string{crossSite}
	if w := q.ask("GET", confirmed, ""); w.Code != 302 || strings.Contains(w.Header().Get("Location"), "ticket=") {
		t.Errorf("in another browser: %d to %s", w.Code, w.Header().Get("Location"))
	}
	// At the host of public_url there is nothing to confirm, and HEAD confirms nothing.
	p.stop = nil
	p.jars["gw.example"]["__Host-authgate_login"] = p.jars["wiki.example.org"]["__Host-authgate_login"]
	if w := p.ask("GET", "https://gw.example/signin/complete?begun=x&binding=y&return_to=/", ""); w.Code != 400 {
		t.Errorf("at home: %d", w.Code)
	}
	if w := p.ask("HEAD", confirmed, ""); strings.Contains(w.Header().Get("Location"), "ticket=") {
		t.Errorf("HEAD: to %s", w.Header().Get("Location"))
	}
}

// A store that fails gives no session, no cookie and no false answer. When it works again,
// so does the sign-in.
func TestTicketsWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	p := r.person()
	p.signIn(pageOf("gw.example"), "alice")
	for _, operation := range []string{"get", "take", "put", "swap"} {
		ticket := p.ticketOf("wiki.example.org")
		r.store.breakIf(func(o string, _ int64, _ string) bool { return o == operation })
		if w := p.ask("GET", ticket, ""); w.Code != 503 || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s fails: %d %v", operation, w.Code, w.Header()["Set-Cookie"])
		}
		r.store.heal()
	}
	r.store.breakIf(func(o string, _ int64, key string) bool { return o == "put" && strings.HasPrefix(key, "ticket:") })
	if at, w := p.visit("GET", pageOf("wiki.example.org"), ""); w.Code != 503 || !strings.HasPrefix(at, "https://gw.example/signin?") {
		t.Errorf("no ticket can be recorded: %s, %d", at, w.Code)
	}
	r.store.heal()
	p.sees(pageOf("wiki.example.org"), "alice")
}

// Two instances on one store share sign-ins under way.
func TestTicketsOfAnotherInstance(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	other, err := startRig(t, t.TempDir(), fiveHostsConfig, r.store.Store, r.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	p := r.person()
	p.signIn(pageOf("gw.example"), "alice")
	ticket := p.ticketOf("wiki.example.org")
	p.rig = other
	if at, w := p.visit("GET", ticket, ""); at != "https://wiki.example.org/x?y" || w.Code != 200 {
		t.Errorf("led to %s, %d", at, w.Code)
	}
}
