package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// hostNames are five hosts of one gateway, of four sites. People sign in at the first.
var hostNames = []string{"login.test", "wiki.one.test", "files.one.test", "mail.two.test", "x.three.test"}

// manyHosts is a gateway with hostNames, a recorder and an application with WebSockets.
type manyHosts struct {
	*world.Instance
	up      *world.Recorder
	sockets *world.Streams
}

// manyHosts returns such a gateway, which does not run yet.
func (c *chromium) manyHosts(t *testing.T) *manyHosts {
	t.Helper()
	m := &manyHosts{Instance: c.prepared(t), up: world.Record(t), sockets: world.ServeStreams(t)}
	m.Public = m.at("login.test", "")
	return m
}

// serve starts the gateway. Each host has a page, a start page and a WebSocket for people
// who signed in by a mechanism.
func (m *manyHosts) serve(mechanism, config string) {
	m.T.Helper()
	routes := "routes:\n"
	for _, host := range hostNames {
		for path, upstream := range map[string]string{"page": "app", "{$}": "app", "socket": "sockets"} {
			routes += fmt.Sprintf("  - {match: '%s/%s', upstream: %s, auth: [%s]}\n", host, path, upstream, mechanism)
		}
	}
	upstreams := fmt.Sprintf("upstreams: {app: {url: %q}, sockets: {url: %q}}\n", m.up.URL, m.sockets.URL)
	m.Configure(upstreams + config + routes)
	m.Run()
}

// at returns a URL at one of the hosts.
func (m *manyHosts) at(host, path string) string {
	return strings.Replace(m.Base, "localhost", host, 1) + path
}

// page is the URL of the page of a host.
func (m *manyHosts) page(host string) string { return m.at(host, "/page?x=%2F&y") }

// opensAll fails the test unless the page of each host shows the user, and on the way
// no page of the gateway or of a provider.
func (m *manyHosts) opensAll(t *testing.T, b *tab, user string) {
	t.Helper()
	for _, host := range hostNames {
		for range 2 {
			b.open(m.page(host))
			b.is(m.page(host))
			wantAsked(t, m.up, "GET", "/page?x=%2F&y", user)
		}
	}
	noComplaints(t, b)
}

// noComplaints fails the test if the browser complains, for example about a redirect that a
// policy does not allow.
func noComplaints(t *testing.T, b *tab) {
	t.Helper()
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
}

// sessions returns the values of the cookies of that name, by host.
func (b *tab) sessions(name string) map[string]string {
	b.t.Helper()
	all, err := chromedp.CallBrowser(b.ctx, storage.GetCookies,
		storage.GetCookiesParams{BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID})
	if err != nil {
		b.t.Fatal(err)
	}
	values := map[string]string{}
	for _, cookie := range all.Cookies {
		if cookie.Name == name {
			values[cookie.Domain] = cookie.Value
		}
	}
	return values
}

// hostsInBrowser: a person signs in once for five hosts, and signs out of all at one.
func hostsInBrowser(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	m.serve("session", world.People)
	b := c.tab(t)
	b.open(m.page("wiki.one.test"))
	if got := b.value("location.host"); got != strings.TrimPrefix(m.at("login.test", ""), "https://") {
		t.Fatalf("people sign in at %s", got)
	}
	m.up.None(t)
	b.write("#username", "alice")
	b.write("#password", "not this")
	b.click("button")
	b.shows("/login", http.StatusUnauthorized, "Invalid username or password.")
	b.signIn("alice")
	b.is(m.page("wiki.one.test"))
	wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	m.opensAll(t, b, "alice")
	values := map[string]bool{}
	for host, value := range b.sessions("session_id") {
		values[value] = true
		for _, other := range hostNames {
			if status := m.statusAt(other, "session_id="+value); (status == http.StatusOK) != (other == host) {
				t.Errorf("the session of %s at %s: %d", host, other, status)
			}
		}
	}
	m.up.All()
	if len(values) != len(hostNames) {
		t.Errorf("%d different sessions, expected one for each host", len(values))
	}
	m.endsAll(t, b, "files.one.test", func() {
		b.open(m.page("wiki.one.test"))
		b.signIn("alice")
		m.up.All()
	})
	b.shows("/signin", http.StatusOK, "You are signed out")
	b.click("a") // and then on to the sign-in page of another host
	b.shows("/signin", http.StatusOK, "User name")
	noComplaints(t, b)
	m.signedOut(t, b, m.Public)
	b.open(m.page("mail.two.test"))
	b.signIn("bob")
	b.is(m.page("mail.two.test"))
	m.up.All()
	m.opensAll(t, b, "bob")
}

// endsAll signs in, opens a WebSocket at each host, and signs out at one of them. That
// ends all within a second; a busy machine gets more chances for the measurement.
func (m *manyHosts) endsAll(t *testing.T, b *tab, at string, signIn func()) {
	t.Helper()
	took := time.Hour
	for try := 0; try < 5 && took >= time.Second; try++ {
		if try > 0 {
			signIn()
		}
		m.opensAll(t, b, "alice")
		var open []*tab
		for _, host := range hostNames {
			one := b.another()
			one.open(m.page(host))
			one.value("(window.socket = new WebSocket('/socket')).onopen = () => socket.send('hello')")
			world.Until(t, "the WebSocket of "+host,
				func() bool { received, _ := one.sockets(); return strings.Contains(received, "hello") })
			open = append(open, one)
		}
		m.up.All()
		b.open(m.at(at, "/me"))
		b.click("button")
		since := time.Now()
		for i, one := range open {
			world.Until(t, "the end of the WebSocket of "+hostNames[i],
				func() bool { _, closed := one.sockets(); return closed == 1 })
		}
		took = time.Since(since)
		t.Logf("the last of %d WebSockets closed %v after the logout", len(open), took.Round(time.Millisecond))
	}
	if took >= time.Second {
		t.Errorf("the last WebSocket closed %v after the logout", took)
	}
}

// statusAt asks for the page of a host with a cookie, not as a browser.
func (m *manyHosts) statusAt(host, cookie string) int {
	m.T.Helper()
	request := world.Must(http.NewRequest("GET", m.Base+"/page", nil))(m.T)
	request.Host = strings.TrimPrefix(m.at(host, ""), "https://")
	request.Header.Set("Cookie", cookie)
	response := world.Must(m.Stranger().Do(request))(m.T)
	defer response.Body.Close()
	return response.StatusCode
}

// signedOut fails the test unless the page of each host leads to a place where the
// person has to sign in.
func (m *manyHosts) signedOut(t *testing.T, b *tab, place string) {
	t.Helper()
	for _, host := range hostNames {
		b.open(m.page(host))
		if got := b.value("location.origin"); got != place {
			t.Errorf("%s shows %s, expected %s", m.page(host), b.describe(), place)
		}
		b.shows("/signin", http.StatusOK, "User name")
	}
	m.up.None(t)
}

// hostsAtProvider: the same by a provider, which is asked once.
func hostsAtProvider(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	issuer := world.StartIssuer(t, c.key, "", m.Instance)
	m.serve("oidc", issuer.Entry(", logout: redirect"))
	b := c.tab(t)
	b.open(m.page("wiki.one.test"))
	if got := b.value("location.origin"); got != issuer.Base {
		t.Fatalf("expected the provider: %s", b.describe())
	}
	b.signIn("alice")
	b.arrives(m.page("wiki.one.test"))
	wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	b.asked()
	m.opensAll(t, b, "alice")
	for _, r := range b.asked() {
		if strings.HasPrefix(r.url, issuer.Base) {
			t.Errorf("the browser was sent to the provider again: %s", r.url)
		}
	}
	const signedOut = "Sign in to 127.0.0.1" // where the way of a logout ends: by the provider and public_url
	m.endsAll(t, b, "x.three.test", func() {
		b.says(signedOut)
		b.open(m.page("wiki.one.test"))
		b.signIn("alice")
		b.arrives(m.page("wiki.one.test"))
		m.up.All()
	})
	b.says(signedOut)
	noComplaints(t, b)
	m.signedOut(t, b, issuer.Base)
}

// hostsStrict: the browser does not send a strict session on the way from another site,
// by a redirect, and people do not notice.
func hostsStrict(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	m.serve("session", "session: {same_site: strict}\n"+world.People)
	b := c.tab(t)
	shown := func(host string) {
		t.Helper()
		b.arrives(m.page(host))
		wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	}
	b.open(m.page("wiki.one.test"))
	b.signIn("alice")
	shown("wiki.one.test")
	b.open(m.page("mail.two.test"))
	shown("mail.two.test")
	noComplaints(t, b)
	// Another host of the gateway is another site, too, and its links are asked about.
	b.goesTo(m.page("x.three.test"))
	b.says("Continue?")
	m.up.None(t)
	b.click("a.primary")
	shown("x.three.test")
}

// hostsByOneCookie: with session.domain a cookie serves all hosts, without tickets.
func hostsByOneCookie(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	m.Public = m.at("one.test", "")
	m.Configure(world.App(m.up.URL) + world.People + "session: {domain: one.test}\nroutes:\n" +
		"  - {match: wiki.one.test/page, upstream: app, auth: [session]}\n  - {match: files.one.test/page, upstream: " +
		"app, auth: [session]}\n")
	m.Run()
	b := c.tab(t)
	b.open(m.page("wiki.one.test"))
	b.signIn("alice")
	b.is(m.page("wiki.one.test"))
	wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	b.asked()
	b.open(m.page("files.one.test"))
	b.is(m.page("files.one.test"))
	wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	for _, r := range b.asked() {
		if u, err := url.Parse(r.url); r.page && (err != nil || u.Hostname() != "files.one.test") {
			t.Errorf("the browser was sent to %s", r.url)
		}
	}
	if got := b.sessions("session_id"); len(got) != 1 || got[".one.test"] == "" {
		t.Errorf("the sessions %v", got)
	}
	b.open(m.at("files.one.test", "/me"))
	b.click("button")
	if got := b.sessions("session_id"); len(got) != 0 {
		t.Errorf("after signing out the browser has %v", got)
	}
	b.open(m.page("wiki.one.test"))
	b.shows("/signin", http.StatusOK, "User name")
	m.up.None(t)
}

// twinCookies: scripts of an application set cookies with the name of the gateway's, for
// other paths and for the domain above. The page of the error removes them, and the
// person is still signed in.
func twinCookies(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	m.serve("session", world.People)
	b := c.tab(t)
	page := m.page("wiki.one.test")
	b.open(page)
	b.signIn("alice")
	b.is(page)
	wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	for _, twin := range []string{
		"domain=one.test; path=/", "domain=one.test; path=/page", "domain=wiki.one.test; path=/", "path=/page",
	} {
		b.value("document.cookie = 'session_id=other; secure; " + twin + "'")
	}
	b.open(page)
	b.shows("/page", http.StatusBadRequest, "Two cookies have the same name")
	m.up.None(t)
	b.click("button")
	b.is(page)
	wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
}

// hostsStrictFromElsewhere: a link of another site that begins a sign-in reaches no application
// with a strict session: a page asks, with and without a session before, and at each host.
func hostsStrictFromElsewhere(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	m.serve("session", "session: {same_site: strict}\n"+world.People)
	far, _ := c.otherSites(t, http.HandlerFunc(serveStranger))
	b := c.tab(t)
	for i, link := range []string{
		m.at("wiki.one.test", "/signin?return_to=/page%3Fx=%252F%26y"),
		m.page("files.one.test"), m.page("wiki.one.test"), m.page("x.three.test"),
	} {
		b.isLedTo(link, far)
		if i == 0 { // without a session anywhere
			b.says("User name")
			b.signIn("alice")
		}
		b.says("Continue?")
		m.up.None(t)
		b.click("a.primary")
		if got := b.value("location.pathname + location.search"); got != "/page?x=%2F&y" {
			t.Errorf("%s continues to %s", link, got)
		}
		wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice")
	}
}

// hostsByLink: a person who is signed in, and comes to a host for the first time by a link of
// another site, sees no page on the way. The application still reads where the link was.
func hostsByLink(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	m.serve("session", world.People)
	far, _ := c.otherSites(t, http.HandlerFunc(serveStranger))
	b := c.tab(t)
	b.open(m.page("login.test"))
	b.signIn("alice")
	m.up.All()
	for _, host := range hostNames[1:] {
		b.isLedTo(m.page(host), far)
		b.arrives(m.page(host))
		if got := wantAsked(t, m.up, "GET", "/page?x=%2F&y", "alice").Value(t, "Sec-Fetch-Site"); got != "cross-site" {
			t.Errorf("%s: the application reads %q", host, got)
		}
	}
	noComplaints(t, b)
}
