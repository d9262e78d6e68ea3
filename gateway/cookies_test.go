package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// twoCookies accepts a token in a cookie, or a session, at /tokens/.
const twoCookies = baseConfig + "  - {match: /tokens/, upstream: app, auth: [bearer, session]}\ntoken: {delivery: " +
	"cookie}\n"

// A cookie of the gateway that is no longer valid is cleared. For a page load it
// counts as absent.
func TestDeadCookies(t *testing.T) {
	t.Parallel()
	const script, navigation = "Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: navigate"
	r := newRig(t, edit(t, twoCookies, "routes:\n",
		"routes:\n  - {match: /challenge/, upstream: app, auth: [session], unauthenticated: challenge}\n"))
	alice, ended := r.login(aliceIn), r.login(aliceIn)
	r.want(200, "POST", "/logout", "", ended.cookie)
	junk, both := "Cookie: session_id=junk", "Cookie: access_token=junk; "+strings.TrimPrefix(alice.cookie, "Cookie: ")
	for _, c := range []struct {
		method, target string
		header         []string
		status         int
		cleared        string
	}{
		{"GET", "/session/", []string{browser, navigation, junk}, 302, "session_id"},
		{"GET", "/session/", []string{browser, ended.cookie}, 302, "session_id"},
		{"HEAD", "/session/", []string{browser, junk}, 302, "session_id"},
		{"GET", "/session/", []string{junk}, 401, "session_id"},
		{"POST", "/session/", []string{browser, navigation, junk}, 401, "session_id"},
		{"GET", "/session/", []string{browser, script, junk}, 401, ""},
		{"GET", "/challenge/", []string{browser, junk}, 401, "session_id"},
		{"GET", "/bearer/", []string{browser, "Cookie: access_token=junk"}, 401, "access_token"},
		{"GET", "/tokens/", []string{browser, both}, 200, "access_token"},
		{"GET", "/tokens/", []string{both}, 401, "access_token"},
		{"GET", "/tokens/", []string{browser, "Cookie: access_token=junk; session_id=junk"}, 302, "access_token session_id"},
		{"GET", "/tokens/", []string{browser, "Authorization: Bearer x", alice.cookie}, 401, ""},
		{"GET", "/basic/", []string{browser, basicHeader("service", "x"), junk}, 401, ""},
		{"GET", "/public/", []string{browser, junk}, 200, ""},
		{"GET", "/me", []string{browser, junk}, 401, "session_id"},
		{"GET", "/session/", []string{browser, alice.cookie}, 200, ""},
	} {
		if got := strings.Join(ownrig.Cleared(r.want(c.status, c.method, c.target, "", c.header...)), " "); got != c.cleared {
			t.Errorf("%s %s with %q: cleared %q, want %q", c.method, c.target, c.header, got, c.cleared)
		}
		if line := r.log.Last(t, "request"); c.status == 302 && !strings.HasSuffix(fmt.Sprint(line["reason"]),
			"; the session that the browser sent is unknown, expired or ended") {
			t.Errorf("%s %s with %q: logged %v", c.method, c.target, c.header, line)
		}
	}
	r.clock.Advance(2 * r.Config().Session.Lifetime)
	if got := ownrig.Cleared(r.want(302, "GET", "/session/", "", browser, alice.cookie)); !slices.Equal(got,
		[]string{"session_id"}) {
		t.Errorf("expired: cleared %q", got)
	}
}

// twinOf is one cookie of a browser: it tells cookies of one name apart by these, and
// sends none of them (RFC 6265, section 5.3; browsers keep those without a Domain apart).
type twinOf struct{ domain, path string }

// A person whose browser sends two cookies with the name of the gateway's gets a page with
// a way out: a form that removes all but the gateway's own, and leads back. Programs get
// the 400 alone, and nobody else can make a browser send the form.
func TestTwinCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: wiki.one.test/, upstream: app, auth: [session]}\n")
	alice := r.login(aliceIn)
	twice := alice.cookie + "; session_id=other"
	for _, place := range []string{"/session/a/b?x=%2F", "/signin", "/logout", "/nowhere", "/me"} {
		w := r.want(400, "GET", place, "", twice, browser)
		action, fields := ownrig.FormOf(t, w)
		want := url.Values{"cookie": {"session_id"}, "return_to": {place}}
		if action != "/signin/cookies" || fields.Encode() != want.Encode() || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s: a form to %q with %v, %v", place, action, fields, w.Header())
		}
		if w := r.want(400, "GET", place, "", twice); w.Header()["Set-Cookie"] != nil || detailOf(t, w) == "" {
			t.Errorf("%s, a program: %v", place, w.Header())
		}
	}
	browserHas := map[twinOf]string{{"", "/"}: strings.TrimPrefix(alice.cookie, "Cookie: ")}
	for _, domain := range []string{"gw.example"} {
		for _, path := range []string{"/", "/session", "/session/", "/session/a", "/session/a/", "/session/a/b"} {
			browserHas[twinOf{domain, path}] = "session_id=other"
			if path != "/" {
				browserHas[twinOf{"", path}] = "session_id=other"
			}
		}
	}
	form := "cookie=session_id&return_to=" + url.QueryEscape("/session/a/b?x=%2F")
	w := r.want(303, "POST", "/signin/cookies", form, twice, formType, browser, "Origin: https://gw.example",
		"Sec-Fetch-Site: same-origin")
	if got := w.Header().Get("Location"); got != "/session/a/b?x=%2F" {
		t.Errorf("back to %q", got)
	}
	for _, c := range w.Result().Cookies() {
		if c.Name != "session_id" || c.MaxAge >= 0 || c.Value != "" {
			t.Errorf("sets %s", c)
		}
		delete(browserHas, twinOf{c.Domain, c.Path})
	}
	if len(browserHas) != 1 || browserHas[twinOf{"", "/"}] == "" {
		t.Errorf("the browser is left with %v", browserHas)
	}
	r.good(alice, true)
	for _, c := range []struct {
		status int
		body   string
		header []string
	}{
		{403, form, []string{formType, "Origin: https://evil.example"}},
		{403, form, []string{formType, "Sec-Fetch-Site: same-site"}},
		{400, "cookie=theme", []string{formType}}, {400, "cookie=", []string{formType}}, {400, "", []string{formType}},
		{400, "cookie=session_id&cookie=session_id", []string{formType}},
		{415, `{"cookie":"session_id"}`, []string{jsonType}},
	} {
		if w := r.want(c.status, "POST", "/signin/cookies", c.body,
			append(c.header, twice)...); w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s with %q: %v", c.body, c.header, w.Header())
		}
	}
	r.want(405, "GET", "/signin/cookies", "", twice)
	r.want(303, "POST", "/signin/cookies", "cookie=session_id&return_to=//evil.example", formType)
	r.want(400, "POST", "/session/", "", twice)
	r.want(400, "POST", "/logout", "", twice)
}

// A user whose browser sends two cookies of one name chooses the language of the page that says so.
func TestLanguageOfTwoCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const twins = "Cookie: session_id=a; session_id=b"
	ownrig.WantPage(t, r.want(400, "GET", "/session/", "", browser, twins), `action="/signin/language"`)
	w := r.want(303, "POST", "/signin/language", "language=de&back=/session/", browser, formType,
		"Origin: https://gw.example", twins)
	if at, set := w.Header().Get("Location"), w.Header()["Set-Cookie"]; at != "/session/" || len(set) != 1 {
		t.Errorf("leads to %q and sets %q", at, set)
	}
	r.want(403, "POST", "/signin/language", "language=de", browser, formType, "Origin: https://evil.example", twins)
	ownrig.WantPage(t, r.want(400, "GET", "/session/", "", browser, twins+"; __Host-authgate_language=de"),
		"Zwei Cookies haben denselben Namen")
	const two = "Cookie: __Host-authgate_language=de; __Host-authgate_language=fr"
	ownrig.WantPage(t, r.want(200, "GET", "/signin", "", browser, two), "Anmelden bei")
}
