package oidc

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// hostileRoutes have a resource for users of providers, one for local accounts, and
// one for everyone.
const hostileRoutes = world.People + `
routes:
  - {match: /secure-resource, upstream: app, auth: [oidc]}
  - {match: /local-resource, upstream: app, auth: [session]}
  - {match: /open, upstream: app, auth: [none]}
log: {level: debug}
`

// stage is a gateway with hostile providers and a recording upstream.
type stage struct {
	*world.Instance
	up        *world.Recorder
	providers []*hostile
	shared    *http.Client // has the connections of all clients

	mu   sync.Mutex
	said []string // the answers of the gateway
}

// startStage starts a gateway with hostileRoutes and providers.
func startStage(t testing.TB, more string, providers ...*hostile) *stage {
	t.Helper()
	s := &stage{Instance: world.Prepare(t), up: world.Record(t), providers: providers}
	s.Configure(s.config(more))
	s.Run()
	s.shared = s.Instance.Stranger()
	return s
}

// config is the configuration with s.providers.
func (s *stage) config(more string) string {
	entries := "providers:\n"
	for _, h := range s.providers {
		entries += h.entry()
	}
	return hostileRoutes + world.App(s.up.URL) + entries + more
}

// stranger is a client without cookies.
func (s *stage) stranger() *http.Client {
	c := *s.shared
	return &c
}

// visitor is a browser with cookies of its own.
func (s *stage) visitor() *http.Client {
	c := s.stranger()
	c.Jar, _ = cookiejar.New(nil) // fails only for wrong options
	return c
}

var styleSheet = regexp.MustCompile(`(?s)<style>.*</style>`) // the same on each page

// try is Instance.Try that keeps the answer for check.
func (s *stage) try(c *http.Client, method, path, body string, headers ...string) (world.Answer, error) {
	a, err := s.Instance.Try(c, method, path, body, headers...)
	place, _, _ := strings.Cut(path, "?")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf("%s %s: %d %v %s", method, place, a.Status, a.Header,
		styleSheet.ReplaceAllString(a.Body, "")))
	return a, err
}

// ask is try for requests that must not fail.
func (s *stage) ask(t testing.TB, c *http.Client, method, path string, headers ...string) world.Answer {
	t.Helper()
	a, err := s.try(c, method, path, "", headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// attempt is a login that has begun: the browser is at the provider.
type attempt struct {
	s       *stage
	t       testing.TB
	h       *hostile
	c       *http.Client
	request url.Values // the authorization request
}

// begin begins a login at a provider. The query has the provider and more.
func (s *stage) begin(t testing.TB, c *http.Client, h *hostile, more ...string) *attempt {
	t.Helper()
	a := s.ask(t, c, "GET", "/login?"+strings.Join(append([]string{"provider=" + h.name}, more...), "&"))
	to := a.Header.Get("Location")
	if a.Status != http.StatusFound || !strings.HasPrefix(to, h.issuer+"/authorize?") {
		t.Fatalf("/login: %d to %q: %s", a.Status, to, a.Body)
	}
	return &attempt{s, t, h, c, world.QueryOf(to)}
}

// agree agrees to the request for a person whose subject is the name of the test.
func (a *attempt) agree(l lie) *grant {
	return a.h.grant(a.request, regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(a.t.Name(), "-"), l)
}

// back sends a response to the redirect URI of the request.
func (a *attempt) back(c *http.Client, response url.Values, headers ...string) world.Answer {
	a.t.Helper()
	to, err := url.Parse(a.request.Get("redirect_uri"))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.s.ask(a.t, c, "GET", to.Path+"?"+response.Encode(), headers...)
}

// finish agrees and sends the response.
func (a *attempt) finish(l lie) world.Answer {
	a.t.Helper()
	return a.back(a.c, a.agree(l).response())
}

// enters signs in, or fails the test, and returns the session's cookie.
func (s *stage) enters(t testing.TB, c *http.Client, h *hostile) string {
	t.Helper()
	_, session := s.granted(t, c, h)
	return session
}

// granted is enters that returns the grant too.
func (s *stage) granted(t testing.TB, c *http.Client, h *hostile) (*grant, string) {
	t.Helper()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	if a := login.back(c, g.response()); a.Status != http.StatusFound || a.Header.Get("Location") != "/" {
		t.Fatalf("the callback: %d to %q: %s\n%s", a.Status, a.Header.Get("Location"), a.Body, s.Log)
	}
	return g, s.sessionOf(t, c)
}

// sessionOf is the cookie of a browser's delegated session.
func (s *stage) sessionOf(t testing.TB, c *http.Client) string {
	t.Helper()
	for _, cookie := range s.cookies(t, c) {
		if cookie.Name == "session" && cookie.Value != "" {
			return "session=" + cookie.Value
		}
	}
	t.Fatal("there is no session")
	return ""
}

func (s *stage) cookies(t testing.TB, c *http.Client) []*http.Cookie {
	t.Helper()
	return c.Jar.Cookies(world.Must(url.Parse(s.Base))(t))
}

// isIn asks for a resource, and returns the request that reached the upstream,
// or nil.
func (s *stage) isIn(t testing.TB, c *http.Client, path string) *world.Message {
	t.Helper()
	target := path + "?n=" + world.NewRequestID() // to find this request in the upstream
	a := s.ask(t, c, "GET", target)
	got := s.up.AskedFor(target)
	if (a.Status == http.StatusOK) != (len(got) > 0) {
		t.Errorf("%s is %d, and %d requests reached the upstream", path, a.Status, len(got))
	}
	if len(got) == 0 {
		return nil
	}
	return &got[len(got)-1]
}

// lives fails the test unless the session is valid.
func (s *stage) lives(t testing.TB, session string) {
	t.Helper()
	s.wants(t, session, http.StatusOK)
}

// ended fails the test if the session is valid.
func (s *stage) ended(t testing.TB, session string) {
	t.Helper()
	s.wants(t, session, http.StatusUnauthorized)
}

func (s *stage) wants(t testing.TB, session string, status int) {
	t.Helper()
	if a := s.ask(t, s.stranger(), "GET", "/secure-resource", "Cookie", session); a.Status != status {
		t.Errorf("with the session, /secure-resource is %d, expected %d", a.Status, status)
	}
}

// internals are words that no page may show.
var internals = regexp.MustCompile(`(?i)oidc|oauth|jwt|jwk|jws|nonce|json|sqlite|127\.0\.0\.1|[a-z]+\.go:|` +
	`goroutine|invalid_|https?://|\bkid\b|\bsub\b|\bazp\b|userinfo`)

// refused fails the test unless the answer is an error page that shows neither
// internals nor the address of the provider, and the browser is not signed in.
func (s *stage) refused(t testing.TB, c *http.Client, h *hostile, a world.Answer, status int) {
	t.Helper()
	_, page, isPage := strings.Cut(a.Body, "<main>") // the text before it is the same on each page
	if !isPage {
		page = a.Body
	}
	if a.Status != status || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("expected %d, got %d to %q, Cache-Control %q: %s", status, a.Status, a.Header.Get("Location"),
			a.Header.Get("Cache-Control"), page)
	}
	if got := a.Header.Get("Content-Type"); got != "text/html; charset=utf-8" && got != "application/json" {
		t.Errorf("the answer is %q", got)
	}
	if found := internals.FindString(page); found != "" ||
		strings.Contains(page, strings.TrimPrefix(h.issuer, "http://")) {
		t.Errorf("the page says %q, or where the provider is: %s", found, page)
	}
	s.isOut(t, c, a)
}

// isOut fails the test if the answer sets a session, or the browser is signed in.
func (s *stage) isOut(t testing.TB, c *http.Client, a world.Answer) {
	t.Helper()
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		if cookie.Name != "__Host-authgate_login" && cookie.Value != "" {
			t.Errorf("a cookie is set: %s", cookie)
		}
	}
	if s.isIn(t, c, "/secure-resource") != nil {
		t.Error("the browser is signed in")
	}
	m := s.isIn(t, c, "/open")
	if m == nil {
		t.Fatal("the open page is closed")
	}
	for _, name := range world.IdentityNames {
		if got := m.Values(name); len(got) > 0 {
			t.Errorf("the upstream gets %s: %q", name, got)
		}
	}
}

// check fails the test if the log has a secret, or an answer has one of a provider.
func (s *stage) check(t testing.TB) {
	t.Helper()
	log, all := s.Log.String(), strings.Join(s.said, "\n")
	for _, h := range s.providers {
		for _, secret := range h.noted() {
			if at := strings.Index(log, secret); at >= 0 {
				t.Errorf("%q is in the log: %s", secret, log[max(0, at-300):min(len(log), at+300)])
			}
			// State and nonce are part of the authorization request.
			if strings.Count(all, secret) > strings.Count(all, "state="+secret)+strings.Count(all, "nonce="+secret) {
				t.Errorf("an answer has %q", secret)
			}
		}
	}
	for _, given := range cookieGiven.FindAllStringSubmatch(all, -1) {
		if strings.Contains(log, given[1]) {
			t.Errorf("a cookie is in the log: %s", given[0])
		}
	}
}

// cookieGiven finds the secrets of sessions and attempts in answers.
var cookieGiven = regexp.MustCompile(`(?:session|session_id|__Host-authgate_login)=([A-Za-z0-9_-]{43});`)
