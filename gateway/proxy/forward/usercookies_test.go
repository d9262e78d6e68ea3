package forward

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// perUserConfig has routes whose cookies belong to their users, and one whose do not.
const perUserConfig = ownrig.Base + `
  - {match: /mine/, upstream: app, auth: [session, bearer], cookies: per_user}
  - {match: /mine/open/, upstream: app, auth: [bearer, none], cookies: per_user}
  - {match: /mine/kept/, upstream: app, auth: [session], cookies: per_user, forward_credentials: true}
`

// personal is a browser that people use one after the other.
type personal struct {
	*rig
	jar *cookiejar.Jar
}

// visit loads a page, of which the application sets cookies. It returns the cookies that the
// application got, in order.
func (p *personal) visit(user, target string, sets ...string) []string {
	p.T.Helper()
	p.app.Answer = func(q *http.Request) (*http.Response, error) {
		return ownrig.Response(q, 200, http.Header{"Set-Cookie": sets, "Content-Type": {"text/plain"}}, ""), nil
	}
	w := p.Want(200, "GET", target, "", user, "Cookie: "+p.line(target))
	p.keep(target, w)
	var got []string
	for _, c := range p.app.Last().Cookies() {
		got = append(got, c.Name+"="+c.Value)
	}
	slices.Sort(got)
	return got
}

// line returns the line of cookies that the browser sends, and keep keeps those of an answer.
func (p *personal) line(target string) string {
	var pairs []string
	for _, c := range p.jar.Cookies(p.at(target)) {
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	return strings.Join(pairs, "; ")
}

func (p *personal) keep(target string, w *httptest.ResponseRecorder) {
	p.jar.SetCookies(p.at(target), w.Result().Cookies())
}

func (p *personal) at(target string) *url.URL {
	return &url.URL{Scheme: "https", Host: "gw.example", Path: target}
}

// browserOf returns a browser at a rig.
func browserOf(r *rig) *personal {
	jar, _ := cookiejar.New(nil) // never fails
	return &personal{r, jar}
}

// step is one page load, and what the application must get with it.
type step struct {
	who, target string
	sets        []string
	got         string
}

// walk makes page loads, for users by the header that proves who they are.
func (p *personal) walk(users map[string]string, steps []step) {
	p.T.Helper()
	for i, s := range steps {
		if got := strings.Join(p.visit(users[s.who], s.target, s.sets...), " "); got != s.got {
			p.T.Errorf("step %d, %q at %s: the application gets %q, want %q; the browser has %q", i, s.who, s.target,
				got, s.got, p.line(s.target))
		}
	}
}

// A user's HttpOnly cookies wait while another user has the browser, and come back with the user.
// Requests without credentials have cookies too. Those that scripts read are everybody's.
func TestUserCookies(t *testing.T) {
	t.Parallel()
	r := newStub(t, perUserConfig)
	users := map[string]string{"alice": aliceToken, "bob": bobToken}
	hidden := func(pairs ...string) (lines []string) {
		for _, pair := range pairs {
			lines = append(lines, pair+"; Path=/; Secure;httponly")
		}
		return lines
	}
	browserOf(r).walk(users, []step{
		{"alice", "/mine/", append(hidden("sid=a", "__Host-x=a", "session_id=a"), "theme=dark; Path=/"), ""},
		{"alice", "/mine/", nil, "__Host-x=a session_id=a sid=a theme=dark"},
		{"bob", "/mine/", hidden("sid=b"), "theme=dark"},
		{"bob", "/mine/", nil, "sid=b theme=dark"},
		{"", "/mine/open/", hidden("sid=n"), "theme=dark"},
		{"", "/mine/open/", nil, "sid=n theme=dark"},
		{"bob", "/mine/open/", nil, "sid=b theme=dark"},
		{"alice", "/mine/", nil, "__Host-x=a session_id=a sid=a theme=dark"},
		{"alice", "/bearer/", nil, "theme=dark"}, // a route whose cookies are shared
		{"", "/public/", nil, "theme=dark"},
	})
}

// What removes or replaces a cookie does so whichever of both kinds it is, with the attributes that
// applications use for it.
func TestUserCookiesEnd(t *testing.T) {
	t.Parallel()
	r := newStub(t, perUserConfig)
	users := map[string]string{"alice": aliceToken, "bob": bobToken}
	const alice, bob = "sid=a; Path=/mine; HttpOnly", "sid=b; Path=/mine; HttpOnly"
	for _, removal := range []string{
		"sid=; Path=/mine; Max-Age=0", "sid=; Path=/mine; Max-Age=-1; HttpOnly",
		"sid=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0; path=/mine",
		`sid=""; Path=/mine; Expires=Thu, 01 Jan 1970 00:00:00 GMT`,
	} {
		browserOf(r).walk(users, []step{
			{"alice", "/mine/", []string{alice}, ""}, {"bob", "/mine/", []string{bob}, ""},
			{"alice", "/mine/out", []string{removal}, "sid=a"},
			{"alice", "/mine/", nil, ""}, {"bob", "/mine/", nil, "sid=b"},
		})
	}
	browserOf(r).walk(users, []step{ // removed where the cookie does not come along
		{"alice", "/mine/a/", []string{"sid=a; Path=/mine/a; HttpOnly"}, ""},
		{"alice", "/mine/out", []string{"sid=; Path=/mine/a; Max-Age=0"}, ""}, {"alice", "/mine/a/", nil, ""},
	})
	browserOf(r).walk(users, []step{ // from before the cookies were a user's, and then one that scripts read
		{"alice", "/bearer/", []string{"sid=old; Path=/; HttpOnly"}, ""}, {"alice", "/mine/", nil, "sid=old"},
		{"alice", "/mine/", []string{"sid=a; Path=/; HttpOnly"}, "sid=old"}, {"alice", "/mine/", nil, "sid=a"},
		{"bob", "/mine/", nil, ""},
		{"alice", "/mine/", []string{"sid=open; Path=/"}, "sid=a"}, {"alice", "/mine/", nil, "sid=open"},
		{"bob", "/mine/", nil, "sid=open"},
	})
	browserOf(r).walk(users, []step{ // what scripts set later is not in the place of the user's
		{"alice", "/mine/", []string{alice}, ""}, {"alice", "/bearer/", []string{"sid=script; Path=/"}, ""},
		{"alice", "/mine/", nil, "sid=a"}, {"bob", "/mine/", nil, "sid=script"},
	})
}

// No cookie that a client makes up is one of the gateway's for the application, nor another user's.
func TestUserCookiesForged(t *testing.T) {
	t.Parallel()
	r := newStub(t, perUserConfig)
	p := browserOf(r)
	p.visit(aliceToken, "/mine/", "sid=a; Path=/; HttpOnly")
	mark, _, _ := strings.Cut(p.line("/mine/"), "sid=")
	session := strings.TrimPrefix(aliceSession, "Cookie: ")
	for _, c := range []struct{ target, sent, want string }{
		{"/mine/", "authgate_user_=x; authgate_user_0123456789abcdef_sid=x; " + mark + "=x; a=b", "a=b"},
		{"/mine/", mark + "__Host-x=x; a=b", "a=b"},
		{"/mine/", "__Host-" + mark + "x=y", "__Host-x=y"},
		{"/mine/", mark + "session_id=x; " + mark + "authgate_app_session_id=y", "session_id=y"},
		{"/mine/", mark + mark + "x=y", mark + "x=y"},
		{"/mine/kept/", mark + "session_id=x; a=b", session + "; a=b"},
		{"/mine/kept/", mark + "authgate_app_session_id=x", session + "; authgate_app_session_id=x"},
		{"/session/", mark + "sid=x; a=b", "a=b"},
	} {
		r.Want(200, "GET", c.target, "", "Cookie: "+session+"; "+c.sent)
		if got := strings.Join(r.app.Last().Header["Cookie"], "|"); got != c.want {
			t.Errorf("%s with %s: the application gets %s, want %s", c.target, c.sent, got, c.want)
		}
	}
}

// What waits in a browser is bounded: the oldest go first. A cookie that is too long for browsers
// under its name there is in the log.
func TestUserCookiesAreBounded(t *testing.T) {
	t.Parallel()
	r := newStub(t, perUserConfig)
	users := []string{aliceToken, bobToken}
	big := strings.Repeat("x", 3000)
	for round, pairs := range map[string][]string{
		"bytes":  slices.Repeat([]string{"=" + big}, 6),
		"number": slices.Repeat([]string{"=1"}, 66),
	} {
		var sets []string
		for i, pair := range pairs {
			sets = append(sets, string(rune('A'+i/8))+string(rune('a'+i%8))+pair+"; Path=/; HttpOnly")
		}
		p := browserOf(r)
		p.visit(users[0], "/mine/", sets...)
		if got := p.visit(users[0], "/mine/"); len(got) != len(pairs) {
			t.Errorf("%s: a user's own are bounded: %d of %d", round, len(got), len(pairs))
		}
		p.visit(users[1], "/mine/", "sid=b; Path=/; HttpOnly")
		newest := sets[len(sets)-1][:2]
		if got := p.visit(users[0], "/mine/"); len(got) != len(pairs)/2 || !strings.HasPrefix(got[len(got)-1], newest) {
			t.Errorf("%s: %d of %d wait", round, len(got), len(pairs))
		}
		if got := p.visit(users[1], "/mine/"); !slices.Equal(got, []string{"sid=b"}) {
			t.Errorf("%s: the other user has %q", round, got)
		}
	}
	sid := func(length int) string { return "sid=" + strings.Repeat("x", length-len("sid=")) + "; HttpOnly" }
	browserOf(r).visit(users[0], "/mine/", sid(4096), sid(4096-30), sid(4096-31), sid(5000))
	log := r.log.Records(t, "cookies are too long for browsers under the names that cookies: per_user gives them")
	if len(log) != 1 || log[0]["upstream"] != "app" || log[0]["cookies"] != 2.0 {
		t.Errorf("the log says %v", log)
	}
}

// Both ways of forwarding, and WebSockets, give cookies to their users.
func TestUserCookiesByAllWays(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", ", fast_path: false", ", reuse_connections: false"} {
		var got []string
		app := func(w http.ResponseWriter, q *http.Request) {
			got = q.Header["Cookie"]
			w.Header().Add("Set-Cookie", "sid="+q.Header.Get("X-Auth-User")+"; HttpOnly; Path=/")
			if q.Header.Get("Upgrade") != "" {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "websocket")
				w.WriteHeader(http.StatusSwitchingProtocols)
			}
		}
		r := newApplication(t, ownrig.Edit(t, perUserConfig, `"http://app.invalid"`, `"http://app.invalid"`+more), app)
		gateway := httptest.NewTLSServer(r)
		t.Cleanup(gateway.Close)
		p, alice, bob := browserOf(r), aliceToken, bobToken
		const sidOfAlice, sidOfBob = "sid=alice", "sid=bob"
		for i, c := range []struct {
			user, want string
			upgrade    bool
		}{
			{alice, "", false}, {bob, "", true}, {alice, sidOfAlice, false}, {bob, sidOfBob, true},
			{alice, sidOfAlice, true}, {bob, sidOfBob, false},
		} {
			w := p.over(gateway, c.user, c.upgrade)
			if status := w.StatusCode; strings.Join(got, "|") != c.want || (status == 101) != c.upgrade {
				t.Errorf("%q, %d: %d, the application gets %q, want %q", more, i, status, got, c.want)
			}
		}
	}
}

// over loads a page, or asks for a WebSocket, over the network.
func (p *personal) over(gateway *httptest.Server, user string, upgrade bool) *http.Response {
	p.T.Helper()
	q := ownrig.Request("GET", "", "", user, "Cookie: "+p.line("/mine/"))
	q.URL = &url.URL{Scheme: "https", Host: gateway.Listener.Addr().String(), Path: "/mine/"}
	if upgrade {
		q.Header.Set("Connection", "Upgrade")
		q.Header.Set("Upgrade", "websocket")
		q.Header.Set("Sec-WebSocket-Version", "13")
		q.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	}
	w := must.Get(gateway.Client().Transport.RoundTrip(q))(p.T)
	w.Body.Close()
	p.jar.SetCookies(p.at("/mine/"), w.Cookies())
	return w
}
