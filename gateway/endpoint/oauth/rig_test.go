package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
	issuer     = "https://gw.example"
	wikiSecret = "4dae4b72f33a40dcb9d0d7c1d2f3a98e"
	verifier   = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk-dBjftJeZ"
)

// configuration has clients of each kind, and resources at hosts and for all hosts.
const configuration = rig.Base + `
  - {match: mcp.example.org/mcp/, name: mcp, upstream: app, auth: [bearer]}
  - {match: "/api/{id}/x", name: api, upstream: app, auth: [bearer]}
oauth:
  enabled: true
  clients:
    - {id: wiki, name: Wiki, secret: "` + wikiSecret + `", roles: [user],
       redirect_uris: ["https://wiki.example.net/cb", "https://wiki.example.net/cb?x=1"],
       grants: [authorization_code, refresh_token, client_credentials],
       post_logout_redirect_uris: ["https://wiki.example.net/bye"]}
    - {id: spa, redirect_uris: ["https://spa.example.net/"]}
    - {id: quiet, consent: skip, redirect_uris: ["https://quiet.example.net/cb"]}
    - {id: admins, policy: admin, redirect_uris: ["https://admins.example.net/cb"]}
    - {id: tv, grants: [device_code, refresh_token]}
`

// server is an authorization server, and a browser with a session there.
type server struct {
	*rig.Rig
	cookie string // header line
}

// newServer returns a server where alice is signed in.
func newServer(t *testing.T, yaml string) *server {
	t.Helper()
	r := rig.New(t, yaml)
	return &server{r, r.Login(rig.Alice).Cookie}
}

// ask are the parameters of an authorization request of wiki, changed by name and value; an
// empty value removes one.
func ask(change ...string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	values := url.Values{
		"response_type": {"code"}, "client_id": {"wiki"}, "redirect_uri": {"https://wiki.example.net/cb"},
		"state": {"s t&a=t"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
		"code_challenge_method": {"S256"}, "scope": {"openid"},
	}
	for i := 0; i+1 < len(change); i += 2 {
		if values.Del(change[i]); change[i+1] != "" {
			values.Set(change[i], change[i+1])
		}
	}
	return values
}

// authorize sends an authorization request with the session, unless the cookie is another one.
func (s *server) authorize(values url.Values, header ...string) *httptest.ResponseRecorder {
	return s.Do("GET", "/oauth/authorize?"+values.Encode(), "", append([]string{rig.Browser, s.cookie}, header...)...)
}

// consentForm is the form of a page of consent.
type consentForm struct {
	action string
	fields url.Values
}

var (
	formTag   = regexp.MustCompile(`<form method="post" action="([^"]*)">`)
	hiddenTag = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// formOf reads the form of a page.
func formOf(t *testing.T, w *httptest.ResponseRecorder) consentForm {
	t.Helper()
	tag := formTag.FindStringSubmatch(w.Body.String())
	if w.Code != 200 || tag == nil {
		t.Fatalf("no form: %d %v %s", w.Code, w.Header(), w.Body)
	}
	form := consentForm{html.UnescapeString(tag[1]), url.Values{}}
	for _, field := range hiddenTag.FindAllStringSubmatch(w.Body.String(), -1) {
		form.fields.Set(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	return form
}

// fromOtherSite are the header lines of a form that another site sends.
var fromOtherSite = []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}

// decide sends the form of a page, from that page unless header lines tell another origin.
func (s *server) decide(form consentForm, decision string, header ...string) *httptest.ResponseRecorder {
	if len(header) == 0 {
		header = []string{"Origin: " + issuer, "Sec-Fetch-Site: same-origin"}
	}
	form.fields.Set("decision", decision)
	return s.Do("POST", form.action, form.fields.Encode(), append([]string{rig.Browser, rig.Form, s.cookie}, header...)...)
}

// answerOf returns where an answer leads, and its parameters there.
func answerOf(t *testing.T, w *httptest.ResponseRecorder) (place string, values url.Values) {
	t.Helper()
	u, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != 302 && w.Code != 303 {
		t.Fatalf("no redirect: %d %v %s", w.Code, w.Header(), w.Body)
	}
	values = u.Query()
	u.RawQuery = ""
	return u.String(), values
}

// code asks for a code, and allows it if the server asks.
func (s *server) code(t *testing.T, values url.Values) string {
	t.Helper()
	w := s.authorize(values)
	if w.Code == 200 {
		w = s.decide(formOf(t, w), "allow")
	}
	place, answer := answerOf(t, w)
	if !strings.HasPrefix(values.Get("redirect_uri"), place) || answer.Get("code") == "" || answer.Get("iss") != issuer ||
		answer.Get("state") != values.Get("state") {
		t.Fatalf("%s: %v", place, answer)
	}
	return answer.Get("code")
}

// answer is the JSON of the token endpoint.
type answer struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
	Refresh   string `json:"refresh_token"`
	Scope     string `json:"scope"`
	ID        string `json:"id_token"`
	Error     string `json:"error"`
}

// post sends a form to an endpoint for programs.
func (s *server) post(t *testing.T, status int, path string, form url.Values, header ...string) (a answer) {
	t.Helper()
	w := s.Want(status, "POST", path, form.Encode(), append(header, rig.Form)...)
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s: Cache-Control is %q", path, w.Header().Get("Cache-Control"))
	}
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &a))
	return a
}

var asWiki = rig.Basic("wiki", wikiSecret)

// refresh sends a refresh token of wiki.
func (s *server) refresh(t *testing.T, status int, token string) answer {
	t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	return s.post(t, status, "/oauth/token", form, asWiki)
}

// redemption is the form that exchanges a code.
func redemption(code string, change ...string) url.Values {
	values := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {"https://wiki.example.net/cb"},
		"code_verifier": {verifier},
	}
	for i := 0; i+1 < len(change); i += 2 {
		if values.Del(change[i]); change[i+1] != "" {
			values.Set(change[i], change[i+1])
		}
	}
	return values
}

// tokens signs alice in to wiki.
func (s *server) tokens(t *testing.T, change ...string) answer {
	t.Helper()
	return s.post(t, 200, "/oauth/token", redemption(s.code(t, ask(change...))), asWiki)
}
