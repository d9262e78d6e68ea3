package signin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// A ticket is for one host and one browser, once, for a minute. Any other use is 400, sets
// no cookie, reaches no upstream, and uses the ticket up.
func TestTickets(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	alice, mallory := r.Person(), r.Person()
	alice.SignIn(rig.PageOf("gw.example"), "alice")
	mallory.SignIn(rig.PageOf("gw.example"), "bob")
	mallory.Visit("GET", rig.PageOf("wiki.example.org"), "")
	refused := func(what string, p *rig.Person, place string, header ...string) {
		t.Helper()
		before := r.Reached()
		w := p.Ask("GET", place, "", header...)
		if w.Code != 400 || w.Header()["Set-Cookie"] != nil || r.Reached() != before ||
			w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d %v", what, w.Code, w.Header())
		}
	}
	const wiki = "wiki.example.org"
	usedUp := func(what string, p *rig.Person, place func(ticket string) string) {
		t.Helper()
		ticket := alice.TicketOf(wiki)
		refused(what, p, place(ticket))
		refused(what+", and then the right use", alice, ticket)
	}
	here := func(ticket string) string { return ticket }
	with := func(host string, jar rig.Jar) *rig.Person {
		return &rig.Person{Client: r.Client, Jars: map[string]rig.Jar{host: jar}}
	}
	usedUp("another browser, which has waited too", mallory, here)
	usedUp("a browser without cookies", r.Person(), here)
	usedUp("a browser with the cookies of another host", with(wiki, alice.Jars["gw.example"]), here)
	for _, host := range rig.FiveHosts {
		if host != wiki {
			elsewhere := func(ticket string) string { return strings.Replace(ticket, wiki, host, 1) }
			usedUp("at "+host, alice, elsewhere)
			usedUp("at "+host+" with the cookies of the right host", with(host, alice.Jars[wiki]), elsewhere)
		}
	}
	usedUp("twice", alice, func(ticket string) string { return ticket + "&" + ticket[strings.Index(ticket, "ticket="):] })
	ticket := alice.TicketOf(wiki)
	refused("changed", alice, ticket[:len(ticket)-2]+"xx")
	refused("none", alice, "https://wiki.example.org/signin/complete")
	if w := alice.Ask("HEAD", ticket, ""); w.Code != 302 || w.Header()["Set-Cookie"] != nil {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	if w := alice.Ask("POST", ticket, "", "Origin: https://wiki.example.org"); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
	if at, w := alice.Visit("GET", ticket, ""); at != "https://wiki.example.org/x?y" || w.Code != 200 {
		t.Errorf("the right use leads to %s, %d", at, w.Code)
	}
	refused("used", alice, ticket)

	late := alice.TicketOf("mail.example.net")
	r.Clock.Advance(time.Minute)
	refused("late", alice, late)

	ended := alice.TicketOf("files.example.org")
	alice.Ask("POST", "https://wiki.example.org/logout", "", "Origin: https://wiki.example.org")
	refused("after the logout", alice, ended)
}

// A person who is brought to a sign-in that another browser has begun gets an error, and
// the other browser gets nothing. Nor can they be signed in as somebody else.
func TestSignInOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	alice, mallory := r.Person(), r.Person()
	alice.SignIn(rig.PageOf("gw.example"), "alice")
	mallory.Stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/signin?") }
	begun, _ := mallory.Visit("GET", rig.PageOf("wiki.example.org"), "")
	mallory.Stop = nil
	at, w := alice.Visit("GET", begun, "")
	if !strings.HasPrefix(at, "https://wiki.example.org/signin/complete?") || w.Code != 400 ||
		w.Header()["Set-Cookie"] != nil {
		t.Errorf("alice is led to %s, %d %v", at, w.Code, w.Header())
	}
	mallory.IsOut(rig.PageOf("wiki.example.org"))

	mallory.SignIn(rig.PageOf("gw.example"), "bob")
	ticket := mallory.TicketOf("wiki.example.org")
	alice.Visit("GET", ticket, "")
	alice.Sees(rig.PageOf("wiki.example.org"), "alice")
	ticket = mallory.TicketOf("wiki.example.org")
	alice.Visit("GET", ticket, "")
	alice.Sees(rig.PageOf("wiki.example.org"), "alice")
}

// fromSites are where a browser says that a page load comes from. Redirects between hosts of
// different sites make it cross-site.
var fromSites = []string{"Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-site", crossSite}

// A browser that has begun the sign-in at another host gets its session there without a page, by
// in any way that it came, in each of its tabs, and with a session of either kind.
func TestNoPageForWhoBegan(t *testing.T) {
	t.Parallel()
	small := rig.NewProvider(t)
	config := strings.Replace(rig.FiveHostsConfig, "auth: [session, bearer]", "auth: [session, oidc]", -1) +
		"  - {match: files.example.org/o/, upstream: app, auth: [oidc]}\n" +
		"providers: [{name: small, issuer: \"" + small.Issuer + "\", client_id: gateway}]\n"
	for _, site := range fromSites {
		r := rig.New(t, config)
		p := r.Person()
		p.SignIn(rig.PageOf("gw.example"), "alice")
		p.Extra = []string{site}
		for _, host := range rig.FiveHosts {
			p.Sees(rig.PageOf(host), "alice")
		}
		for range 3 { // tabs at once, with and without what the host keeps of the browser
			tab := *p
			tab.Jars = map[string]rig.Jar{"gw.example": p.Jars["gw.example"]}
			tab.Sees(rig.PageOf("wiki.example.org"), "alice")
		}
		q := r.Person()
		q.Stop = func(place string) bool { return strings.HasPrefix(place, small.Issuer) }
		at, _ := q.Visit("GET", "https://gw.example/login?provider=small", "")
		q.Ask("GET", small.AnswerTo(t, at), "")
		q.Extra, q.Stop = []string{site}, nil
		q.Sees("https://files.example.org/o/x", "carol")
	}
}

// A link with the binding of another browser gives that browser nothing: a page asks, and who
// continues gets a session of their own. The link works for no one, also with what the
// gateway adds to it on the way.
func TestLinkWithAnotherBinding(t *testing.T) {
	t.Parallel()
	for _, config := range []string{rig.FiveHostsConfig, strictConfig(t)} {
		for _, waiting := range []bool{false, true} { // whether alice was at the other host before
			r := rig.New(t, config)
			alice, mallory := r.Person(), r.Person()
			alice.SignIn(rig.PageOf("gw.example"), "alice")
			mallory.Stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/signin?") }
			begun, _ := mallory.Visit("GET", rig.PageOf("wiki.example.org"), "")
			mallory.Stop = nil
			alice.Extra = []string{crossSite}
			if waiting {
				alice.Ask("GET", rig.PageOf("wiki.example.org"), "")
			}
			ticket := ""
			alice.Stop = func(place string) bool {
				if strings.Contains(place, "ticket=") {
					ticket = place
				}
				return false
			}
			for _, link := range []string{begun, begun + "&begun=" + strings.Repeat("A", 43),
				strings.Replace(begun, "/signin?", "/login?", 1)} {
				at, w := alice.GoesOn(link)
				asks(t, at, w, rig.PageOf("wiki.example.org"))
				if !strings.HasPrefix(at, "https://gw.example/signin?") || ticket != "" ||
					!strings.Contains(w.Body.String(), "did not begin") {
					t.Errorf("led by %q to %s with %q: %s", alice.Trail, at, ticket, w.Body)
				}
			}
			mallory.IsOut(rig.PageOf("wiki.example.org"))
			alice.Extra = []string{"Sec-Fetch-Site: same-site"}
			at, w := alice.Visit("GET", rig.PageOf("wiki.example.org"), "")
			if at = strings.SplitN(at, "?", 2)[0]; w.Code != 200 || at != "https://wiki.example.org/x" &&
				at != "https://wiki.example.org/signin/complete" {
				t.Errorf("continued by %q to %s, %d", alice.Trail, at, w.Code)
			}
		}
	}
}

// The same holds for a sign-in at a provider, which can end without a page: the user may be
// signed in there already.
func TestLinkWithAnotherBindingThroughAProvider(t *testing.T) {
	t.Parallel()
	small := rig.NewProvider(t)
	const place = "https://files.example.org/o/x"
	for _, session := range []string{"", "session: {same_site: strict}\n"} {
		r := rig.New(t, rig.FiveHostsConfig+"  - {match: files.example.org/o/, upstream: app, auth: [oidc]}\n"+
			"providers: [{name: small, issuer: \""+small.Issuer+"\", client_id: gateway}]\n"+session)
		alice, mallory := r.Person(), r.Person()
		mallory.Stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/login?") }
		begun, _ := mallory.Visit("GET", place, "")
		ticket := ""
		alice.Extra = []string{crossSite}
		alice.Stop = func(place string) bool {
			if strings.Contains(place, "ticket=") {
				ticket = place
			}
			return strings.HasPrefix(place, small.Issuer)
		}
		at, _ := alice.GoesOn(begun)
		at, w := alice.GoesOn(small.AnswerTo(t, at))
		asks(t, at, w, place)
		if !strings.HasPrefix(at, "https://gw.example/signin?") || ticket != "" {
			t.Errorf("led by %q to %s with %q", alice.Trail, at, ticket)
		}
		alice.Extra, alice.Stop = []string{"Sec-Fetch-Site: same-site"}, nil
		if at, w := alice.GoesOn(place); w.Code != 200 {
			t.Errorf("continued by %q to %s, %d", alice.Trail, at, w.Code)
		}
	}
}

// A browser that does not say which site a request comes from is asked too. If it has begun
// the sign-in, it sees no page.
func TestLinkWithAnotherBindingInAnOldBrowser(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	alice, mallory := r.Person(), r.Person()
	alice.SignIn(rig.PageOf("gw.example"), "alice")
	mallory.Stop = func(place string) bool { return strings.HasPrefix(place, "https://gw.example/signin?") }
	begun, _ := mallory.Visit("GET", rig.PageOf("wiki.example.org"), "")
	alice.Extra = []string{"User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 " +
		"Version/15.6 Safari/605.1.15"}
	alice.Stop = func(place string) bool { return strings.Contains(place, "ticket=") }
	at, w := alice.Visit("GET", begun, "")
	asks(t, at, w, rig.PageOf("wiki.example.org"))
	alice.Stop = nil
	alice.Sees(rig.PageOf("files.example.org"), "alice")
}

// What proves that a browser began a sign-in proves it for one session, host and binding.
func TestConfirmedSignIn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	p := r.Person()
	p.SignIn(rig.PageOf("gw.example"), "alice")
	p.Extra = []string{crossSite}
	confirmed := ""
	p.Stop = func(place string) bool {
		if strings.HasPrefix(place, "https://gw.example/signin?") && strings.Contains(place, "begun=") {
			confirmed = place
		}
		return false
	}
	p.Sees(rig.PageOf("wiki.example.org"), "alice")
	if w := p.Ask("GET", confirmed, ""); w.Code != 302 || !strings.Contains(w.Header().Get("Location"), "ticket=") {
		t.Fatalf("%s again: %d", confirmed, w.Code)
	}
	for what, place := range map[string]string{
		"another host":    strings.Replace(confirmed, "wiki.example.org", "files.example.org", 1),
		"another binding": strings.Replace(confirmed, "binding=", "binding=A", 1)[:len(confirmed)],
	} {
		if w := p.Ask("GET", place, ""); w.Code/100 == 3 && strings.Contains(w.Header().Get("Location"), "ticket=") {
			t.Errorf("%s: to %s", what, w.Header().Get("Location"))
		}
	}
	q := r.Person()
	q.SignIn(rig.PageOf("gw.example"), "bob")
	q.Extra = []string{crossSite}
	if w := q.Ask("GET", confirmed, ""); w.Code != 302 || strings.Contains(w.Header().Get("Location"), "ticket=") {
		t.Errorf("in another browser: %d to %s", w.Code, w.Header().Get("Location"))
	}
	// At the host of public_url there is nothing to confirm, and HEAD confirms nothing.
	p.Stop = nil
	p.Jars["gw.example"]["__Host-authgate_login"] = p.Jars["wiki.example.org"]["__Host-authgate_login"]
	if w := p.Ask("GET", "https://gw.example/signin/complete?begun=x&binding=y&return_to=/", ""); w.Code != 400 {
		t.Errorf("at home: %d", w.Code)
	}
	if w := p.Ask("HEAD", confirmed, ""); strings.Contains(w.Header().Get("Location"), "ticket=") {
		t.Errorf("HEAD: to %s", w.Header().Get("Location"))
	}
}

// A store that fails gives no session, no cookie and no false answer. When it works again,
// A ticket that opens nothing leaves an event, which says past: a browser that comes back presents one that
// was good once. A ticket that opens the session leaves the event of that. No ticket is in the log.
func TestTicketsRefusedAudited(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	p := r.Person()
	p.SignIn(rig.PageOf("gw.example"), "alice")
	place := p.TicketOf("wiki.example.org")
	for i, at := range []string{place, place, "https://wiki.example.org/signin/complete?ticket=made-up"} {
		if w, want := p.Ask("GET", at, ""), []int{302, 400, 400}[i]; w.Code != want {
			t.Errorf("ticket %d: %d, want %d", i, w.Code, want)
		}
	}
	got := r.EventsOf("credential_refused", "past", "cross_site", "kind", "reason", "client_id", "subject")
	want := []string{
		"past=true kind=ticket reason=login: no such ticket: unknown, used, or older than 1m0s",
		"past=true kind=ticket reason=login: no such ticket: malformed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	if got := r.EventsOf("session", "route", "subject"); !slices.Equal(got, []string{
		"route=authgate/signin/complete subject=local:alice",
	}) {
		t.Errorf("the sessions %q, want that of the good ticket", got)
	}
	_, ticket, _ := strings.Cut(place, "ticket=")
	if log := r.Log.String(); strings.Contains(log, ticket) || strings.Contains(log, "made-up") {
		t.Error("the log has a ticket")
	}
}

// so does the sign-in.
func TestTicketsWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	p := r.Person()
	p.SignIn(rig.PageOf("gw.example"), "alice")
	for _, operation := range []string{"get", "take", "put", "swap"} {
		ticket := p.TicketOf("wiki.example.org")
		r.Store.BreakIf(func(o string, _ int64, _ string) bool { return o == operation })
		if w := p.Ask("GET", ticket, ""); w.Code != 503 || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s fails: %d %v", operation, w.Code, w.Header()["Set-Cookie"])
		}
		r.Store.Heal()
	}
	r.Store.BreakIf(func(o string, _ int64, key string) bool { return o == "put" && strings.HasPrefix(key, "ticket:") })
	if at, w := p.Visit("GET", rig.PageOf("wiki.example.org"), ""); w.Code != 503 ||
		!strings.HasPrefix(at, "https://gw.example/signin?") {
		t.Errorf("no ticket can be recorded: %s, %d", at, w.Code)
	}
	r.Store.Heal()
	p.Sees(rig.PageOf("wiki.example.org"), "alice")
}

// Two instances on one store share sign-ins under way.
func TestTicketsOfAnotherInstance(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	p := r.Person()
	p.SignIn(rig.PageOf("gw.example"), "alice")
	ticket := p.TicketOf("wiki.example.org")
	p.Client = r.Instance(rig.FiveHostsConfig).Client
	if at, w := p.Visit("GET", ticket, ""); at != "https://wiki.example.org/x?y" || w.Code != 200 {
		t.Errorf("led to %s, %d", at, w.Code)
	}
}
