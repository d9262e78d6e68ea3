package oauth_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

const (
	stranger    = "https://evil.example/cb"
	strangerBye = "https://evil.example/bye?a=b"
	openServer  = configuration + "  registration: open\n  redirect_schemes: [com.example.app]\n"
)

// register registers a public client with an address, and returns its identifier.
func (s *server) register(t *testing.T, redirect string) (id string) {
	t.Helper()
	w := s.Want(201, "POST", "/oauth/register", fmt.Sprintf(`{"redirect_uris": [%q], "token_endpoint_auth_method": "none",
		"post_logout_redirect_uris": [%q]}`, redirect, strangerBye), rig.JSON)
	var made struct {
		ID string `json:"client_id"`
	}
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &made))
	return made.ID
}

var linkTag = regexp.MustCompile(`<a class="button" href="([^"]*)"`)

// linkOf returns the parameters of the link of a page that leads to a place only if the user wants
// to go there, and names its host.
func linkOf(t *testing.T, w *httptest.ResponseRecorder, status int, place, host string) url.Values {
	t.Helper()
	body := w.Body.String()
	link := linkTag.FindStringSubmatch(body)
	if w.Code != status || w.Header().Get("Location") != "" || link == nil ||
		!strings.Contains(body, "<strong>"+host+"</strong>") || strings.Contains(body, "http-equiv") {
		t.Fatalf("%d %v, want a page with a link to %s: %s", w.Code, w.Header(), host, body)
	}
	address := html.UnescapeString(link[1])
	if !strings.HasPrefix(address, place) {
		t.Errorf("the link leads to %s, want %s", address, place)
	}
	u := must.Get(url.Parse(address))(t)
	return u.Query()
}

// Everybody can register a client, or name a document. An error for such a client leads no browser
// to its address by itself, until the user has allowed it something. Clients of the configuration
// get their errors.
func TestErrorsLeadToNoStranger(t *testing.T) {
	t.Parallel()
	s := newServer(t, openServer)
	alice := s.cookie
	id := s.register(t, stranger)
	request := func(change ...string) url.Values {
		return ask(append([]string{"client_id", id, "redirect_uri", stranger}, change...)...)
	}
	for name, c := range map[string]struct {
		code   string
		values url.Values
	}{
		"a wrong request": {"unsupported_response_type", request("response_type", "token")},
		"no scope known":  {"invalid_scope", request("scope", "everything")},
		"silent":          {"", request("prompt", "none")},
	} {
		for _, cookie := range []string{"", alice} {
			code := c.code
			if code == "" {
				code = map[string]string{"": "login_required", alice: "consent_required"}[cookie]
			}
			s.cookie = cookie
			answer := linkOf(t, s.authorize(c.values), 400, stranger, "evil.example")
			if answer.Get("error") != code || answer.Get("state") != "s t&a=t" || answer.Get("iss") != issuer {
				t.Errorf("%s, with %q: the link has %v, want %s", name, cookie, answer, code)
			}
			form := s.Do("POST", "/oauth/authorize", c.values.Encode(), rig.Form, rig.Browser, cookie)
			if place, _ := answerOf(t, form); place != "/oauth/authorize" {
				t.Errorf("%s, by a form: leads to %s", name, place)
			}
		}
	}
	// A refusal leads there only when the user wants it.
	answer := linkOf(t, s.decide(formOf(t, s.authorize(request())), "deny"), 400, stranger, "evil.example")
	if answer.Get("error") != "access_denied" {
		t.Errorf("refused: %v", answer)
	}
	s.code(t, request())
	if place, answer := answerOf(t, s.authorize(request("scope", "everything"))); place != stranger ||
		answer.Get("error") != "invalid_scope" {
		t.Errorf("after a consent: %s %v", place, answer)
	}
	if _, answer := answerOf(t, s.authorize(request("scope", "email", "prompt", "none",
		"resource", "https://gw.example/any"))); answer.Get("error") != "consent_required" {
		t.Errorf("silent, after a consent to other things: %v", answer)
	}
	s.cookie = s.Login(rig.Bob).Cookie // who has allowed nothing
	linkOf(t, s.authorize(request("scope", "everything")), 400, stranger, "evil.example")
}

// The link leads to an application by its own scheme, too.
func TestErrorsNameASchemeOfAnApplication(t *testing.T) {
	t.Parallel()
	s := newServer(t, openServer)
	const redirect = "com.example.app:/cb"
	id := s.register(t, redirect)
	linkOf(t, s.authorize(ask("client_id", id, "redirect_uri", redirect, "scope", "everything")), 400, redirect, redirect)
}

// A logout that a stranger asks for leads no browser to its address by itself: neither one where no
// user is signed in, nor after the page where the user signs out.
func TestLogoutLeadsToNoStranger(t *testing.T) {
	t.Parallel()
	s := newServer(t, openServer)
	alice := s.cookie
	id := s.register(t, stranger)
	leaving := url.Values{"client_id": {id}, "post_logout_redirect_uri": {strangerBye}, "state": {"x&y"}}
	s.cookie = ""
	answer := linkOf(t, s.endSession(leaving, "Sec-Fetch-Site: cross-site"), 200, strangerBye, "evil.example")
	if answer.Get("state") != "x&y" || answer.Get("a") != "b" {
		t.Errorf("the link has %v", answer)
	}
	s.cookie = alice
	linkOf(t, s.decide(formOf(t, s.endSession(leaving)), "allow"), 200, strangerBye, "evil.example")
	s.Want(401, "GET", "/me", "", alice)
	// The browser is led to a client that the user has allowed something.
	s.cookie = s.Login(rig.Alice).Cookie
	redeem := redemption(s.code(t, ask("client_id", id, "redirect_uri", stranger)), "client_id", id, "redirect_uri", stranger)
	hint := s.post(t, 200, "/oauth/token", redeem).ID
	if place, _ := answerOf(t, s.decide(formOf(t, s.endSession(leaving)), "allow")); place != "https://evil.example/bye" {
		t.Errorf("after a consent: leads to %s", place)
	}
	// An ID token is the client's word for a user who is signed out, and not for another user.
	leaving.Set("id_token_hint", hint)
	s.cookie = ""
	if place, _ := answerOf(t, s.endSession(leaving)); place != "https://evil.example/bye" {
		t.Errorf("with an ID token: leads to %s", place)
	}
	s.cookie = s.Login(rig.Bob).Cookie
	linkOf(t, s.decide(formOf(t, s.endSession(leaving)), "allow"), 200, strangerBye, "evil.example")
}

// What a user has allowed a program on their machine is asked again each time: another program could
// come in its place. Clients that prove who they are, and those without questions, are not asked for.
func TestConsentToProgramsIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t, rig.Edit(t, openServer, "  clients:\n", `  clients:
    - {id: cli, redirect_uris: ["http://127.0.0.1/cb", "https://cli.example.net/cb", "com.example.app:/cb"]}
    - {id: own, consent: skip, redirect_uris: ["http://127.0.0.1/cb"]}
    - {id: sure, secret: "`+wikiSecret+`", redirect_uris: ["http://127.0.0.1/cb"]}
`))
	for _, c := range []struct {
		id, redirect string
		asked        bool
	}{
		{"cli", "http://127.0.0.1:4711/cb", true}, {"cli", "com.example.app:/cb", true},
		{"cli", "https://cli.example.net/cb", false}, {"sure", "http://127.0.0.1:4711/cb", false},
	} {
		request := ask("client_id", c.id, "redirect_uri", c.redirect)
		s.code(t, request)
		if w := s.authorize(request); (w.Code == 200) != c.asked {
			t.Errorf("%s at %s, again: %d, want a question: %t", c.id, c.redirect, w.Code, c.asked)
		}
		request.Set("prompt", "none")
		if _, answer := answerOf(t, s.authorize(request)); (answer.Get("error") == "consent_required") != c.asked {
			t.Errorf("%s at %s, silent: %v, want a question: %t", c.id, c.redirect, answer, c.asked)
		}
	}
	request := ask("client_id", "own", "redirect_uri", "http://127.0.0.1:4711/cb", "prompt", "none")
	if _, answer := answerOf(t, s.authorize(request)); answer.Get("code") == "" {
		t.Errorf("consent: skip asks: %v", answer)
	}
}
