package oauth_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

func (s *server) endSession(values url.Values, header ...string) *httptest.ResponseRecorder {
	return s.Do("GET", "/oauth/logout?"+values.Encode(), "", append([]string{rig.Browser, s.cookie}, header...)...)
}

// A client with the ID token of the login ends it, and gets the browser back.
func TestEndSession(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t)
	const bye = "https://wiki.example.net/bye"
	for name, values := range map[string]url.Values{
		"an unregistered address": {"id_token_hint": {a.ID}, "post_logout_redirect_uri": {"https://wiki.example.net/cb"}},
		"of another client":       {"id_token_hint": {a.ID}, "client_id": {"spa"}, "post_logout_redirect_uri": {bye}},
		"of no client":            {"post_logout_redirect_uri": {bye}},
		"a foreign hint":          {"id_token_hint": {a.Access}, "post_logout_redirect_uri": {bye}},
		"twice":                   {"id_token_hint": {a.ID, a.ID}},
	} {
		if w := s.endSession(values); w.Code != 400 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	s.Want(200, "GET", "/me", "", s.cookie)
	s.Clock.Advance(20 * time.Minute) // the ID token has expired, and still tells whose login it is
	place, values := answerOf(t, s.endSession(url.Values{
		"id_token_hint": {a.ID}, "post_logout_redirect_uri": {bye}, "state": {"x&y"},
	}, "Sec-Fetch-Site: cross-site"))
	if place != bye || values.Get("state") != "x&y" {
		t.Errorf("%s %v", place, values)
	}
	s.Want(401, "GET", "/me", "", s.cookie)
	s.refresh(t, 400, a.Refresh)
	// The user is signed out already.
	again := url.Values{"id_token_hint": {a.ID}, "post_logout_redirect_uri": {bye}}
	if place, _ := answerOf(t, s.endSession(again)); place != bye {
		t.Errorf("again: %s", place)
	}
}

// A client may send its request as a form. If the browser sends its session along, the logout is what
// it is by a link: the browser goes to the client, and sees no other address.
func TestEndSessionByForm(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	const bye = "https://wiki.example.net/bye"
	post := func(values url.Values) *httptest.ResponseRecorder {
		return s.Do("POST", "/oauth/logout", values.Encode(), rig.Form, rig.Browser, s.cookie,
			"Origin: https://wiki.example.net", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
	}
	values := url.Values{"id_token_hint": {s.tokens(t).ID}, "post_logout_redirect_uri": {bye}, "state": {"x&y"}}
	place, answer := answerOf(t, post(values))
	if place != bye || answer.Get("state") != "x&y" {
		t.Errorf("leads to %s %v", place, answer)
	}
	s.Want(401, "GET", "/me", "", s.cookie)
	// Without the ID token of the login, it asks as by a link.
	s.cookie = s.Login(rig.Alice).Cookie
	form := formOf(t, post(values))
	s.Want(200, "GET", "/me", "", s.cookie)
	if place, _ := answerOf(t, s.decide(form, "allow")); place != bye {
		t.Errorf("the page leads to %s", place)
	}
}

// Without the ID token of the login, anybody may have led the user here: a page asks.
func TestEndSessionAsks(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	old := s.tokens(t)
	s.cookie = s.Login(rig.Alice).Cookie
	for name, values := range map[string]url.Values{
		"nothing": {}, "a client": {"client_id": {"wiki"}, "post_logout_redirect_uri": {"https://wiki.example.net/bye"}},
		"the ID token of another login": {"id_token_hint": {old.ID}},
	} {
		form := formOf(t, s.endSession(values))
		s.Want(200, "GET", "/me", "", s.cookie)
		if w := s.decide(form, "allow", fromOtherSite...); w.Code != 403 {
			t.Errorf("%s: another site decides: %d", name, w.Code)
		}
		place, _ := answerOf(t, s.decide(form, "allow"))
		if want := values.Get("post_logout_redirect_uri"); want != "" && place != want || want == "" && place != "/signin" {
			t.Errorf("%s: leads to %s", name, place)
		}
		s.Want(401, "GET", "/me", "", s.cookie)
		s.cookie = s.Login(rig.Alice).Cookie
	}
	// A client may send it as a form, with which browsers send no cookies.
	form := s.Do("POST", "/oauth/logout", "id_token_hint="+old.ID,
		rig.Form, "Origin: https://wiki.example.net", "Sec-Fetch-Site: cross-site")
	if place, _ := answerOf(t, form); place != "/oauth/logout" {
		t.Errorf("by a form: %s", place)
	}
}

// listener is the back-channel endpoint of a client.
type listener struct {
	mu     sync.Mutex
	tokens []string
	fails  int // how many requests it still fails
	came   chan struct{}
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.came <- struct{}{} }()
	if l.fails > 0 {
		l.fails--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	values, _ := url.ParseQuery(string(body))
	l.tokens = append(l.tokens, values.Get("logout_token"))
}

// When a login ends, for any reason, each client that got an ID token for it is told. A
// client that fails at first is told again, and one that cannot be reached delays nothing.
func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	l := &listener{fails: 1, came: make(chan struct{}, 10)}
	client := httptest.NewServer(l)
	defer client.Close()
	listens := func(id, address string) string {
		return `    - {id: ` + id + `, consent: skip, redirect_uris: ["https://` + id + `.example.net/cb"],
       backchannel_logout_uri: "` + address + `/out"}
`
	}
	s := newServer(t, configuration+listens("told", client.URL)+listens("away", "http://127.0.0.1:1")+
		listens("other", client.URL))
	id := ""
	for _, name := range []string{"told", "away"} {
		redirect := "https://" + name + ".example.net/cb"
		code := s.code(t, ask("client_id", name, "redirect_uri", redirect))
		a := s.post(t, 200, "/oauth/token", redemption(code, "client_id", name, "redirect_uri", redirect))
		if name == "told" {
			id = a.ID
		}
	}
	s.Want(200, "POST", "/logout", "", s.cookie)
	<-l.came
	<-l.came
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tokens) != 1 {
		t.Fatalf("%d logout tokens", len(l.tokens))
	}
	claims, signedIn := claimsOf(t, l.tokens[0]), claimsOf(t, id)
	events, _ := claims["events"].(map[string]any)
	if claims["iss"] != issuer || claims["aud"] != "told" || claims["sub"] != "alice" ||
		claims["sid"] != signedIn["sid"] || claims["jti"] == nil || claims["exp"] == nil || claims["nonce"] != nil ||
		events["http://schemas.openid.net/event/backchannel-logout"] == nil {
		t.Errorf("%v", claims)
	}
	if strings.Contains(s.Log.String(), l.tokens[0]) {
		t.Error("the log has the logout token")
	}
}

// What a browser loads ahead of a click, or for a part of a page, signs no user out, as at /logout.
func TestEndSessionNavigates(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	values := url.Values{"id_token_hint": {s.tokens(t).ID}}.Encode()
	for _, c := range []struct {
		method string
		header []string
	}{
		{"HEAD", nil},
		{"GET", []string{"Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
		{"GET", []string{"Sec-Fetch-Mode: navigate", "Sec-Purpose: prefetch;prerender"}},
	} {
		header := append([]string{rig.Browser, s.cookie, "Sec-Fetch-Site: cross-site"}, c.header...)
		s.Want(403, c.method, "/oauth/logout?"+values, "", header...)
		s.Want(200, "GET", "/me", "", s.cookie)
	}
}

// Other tokens that the key of ID tokens has signed tell nothing as a hint: the gateway's own
// access tokens, those of clients, and logout tokens.
func TestHintsAreIDTokens(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"token: {algorithm: RS256}\n")
	in := s.Login(rig.Alice)
	a := s.tokens(t)
	for name, token := range map[string]string{"an own access token": in.Access, "a client's access token": a.Access} {
		s.Want(400, "GET", "/oauth/logout?id_token_hint="+token, "", rig.Browser, in.Cookie)
		s.Want(200, "GET", "/me", "", in.Cookie)
		if _, answer := answerOf(t, s.authorize(ask("id_token_hint", token))); answer.Get("error") != "invalid_request" {
			t.Errorf("%s: %v", name, answer)
		}
	}
	if _, answer := answerOf(t, s.authorize(ask("id_token_hint", a.ID))); answer.Get("code") == "" {
		t.Errorf("an ID token: %v", answer)
	}
}
