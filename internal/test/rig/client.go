package rig

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// Header lines and bodies of requests.
const (
	JSON    = "Content-Type: application/json"
	Form    = "Content-Type: application/x-www-form-urlencoded"
	Browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	Phone   = "User-Agent: a phone/1"
	Alice   = `{"username":"alice","password":"wonderland"}`
	Bob     = `{"username":"bob","password":"builder"}`

	AliceForm    = "username=alice&password=wonderland"
	LogoutButton = `<form method="post" action="/logout">`
)

// WebSocket are the header lines that ask for a WebSocket.
var WebSocket = []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket"}

// Handshake completes the opening handshake of a WebSocket.
var Handshake = []string{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}

// ChangeTo returns the body that changes a password.
func ChangeTo(current, next string) string {
	return `{"current":"` + current + `","new":"` + next + `"}`
}

// Basic returns the header line of Basic credentials.
func Basic(username, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// HeaderIf returns a header line, or none if there is no value.
func HeaderIf(name, value string) string {
	if value == "" {
		return ""
	}
	return name + ": " + value
}

// Request makes a request as a server passes it on, with header lines like
// "Accept: text/html". Empty lines are left out.
func Request(method, target, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Host = "gw.example"
	r.RequestURI = target
	r.RemoteAddr = "192.0.2.7:4711"
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

// Client sends requests, and checks what becomes of them.
type Client struct {
	T       testing.TB
	Handler http.Handler
	App     application
}

// application is what own endpoints protect.
type application interface {
	Reached() int     // how many requests have reached it
	LastUser() string // the name of the user of the last one
}

// Serve sends a request.
func (c *Client) Serve(q *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.Handler.ServeHTTP(w, q)
	return w
}

// Do makes a request and sends it.
func (c *Client) Do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	return c.Serve(Request(method, target, body, header...))
}

// Want sends a request. The answer must have the status. A request that is refused
// must not reach an application.
func (c *Client) Want(status int, method, target, body string, header ...string) *httptest.ResponseRecorder {
	c.T.Helper()
	return c.WantOf(status, Request(method, target, body, header...))
}

// WantAt is Want for a host.
func (c *Client) WantAt(
	host string, status int, method, target, body string, header ...string,
) *httptest.ResponseRecorder {
	c.T.Helper()
	q := Request(method, target, body, header...)
	q.Host = host
	return c.WantOf(status, q)
}

// WantOf is Want for a request that is made already.
func (c *Client) WantOf(status int, q *http.Request) *httptest.ResponseRecorder {
	c.T.Helper()
	before := c.App.Reached()
	w := c.Serve(q)
	if reached := c.App.Reached() - before; w.Code != status || status >= 300 && reached > 0 {
		c.T.Errorf("%s %s%s with %.300q: %d %.300s, want %d; %d requests reached the upstream",
			q.Method, q.Host, q.RequestURI, q.Header, w.Code, w.Body, status, reached)
	}
	return w
}

// SignedIn is what a login issued.
type SignedIn struct {
	Cookie  string // as a header line
	Bearer  string // as a header line
	Access  string
	Refresh string
}

// Login signs in with a JSON body.
func (c *Client) Login(body string, header ...string) SignedIn {
	c.T.Helper()
	return ReadLogin(c.T, c.Want(200, "POST", "/login", body, append(header, JSON)...))
}

// ReadLogin reads the answer to a login or a refresh.
func ReadLogin(t testing.TB, w *httptest.ResponseRecorder) SignedIn {
	t.Helper()
	var tokens struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &tokens); err != nil {
		t.Fatalf("the answer to a login is not JSON: %v: %s", err, w.Body)
	}
	jar := JarOf(w)
	in := SignedIn{
		jar.Line("session_id"), "Authorization: Bearer " + tokens.AccessToken, tokens.AccessToken, tokens.RefreshToken,
	}
	if in.Access == "" { // cookies carry the tokens, if there are any
		in.Bearer, in.Refresh = jar.Line("access_token"), jar["refresh_token"]
	}
	return in
}

// Good checks that the credentials of s open everything, or nothing.
func (c *Client) Good(s SignedIn, want bool) {
	c.T.Helper()
	status := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[want]
	c.WantSession(status, s)
	c.Want(status, "POST", "/refresh", RefreshBody(s.Refresh), JSON)
}

// WantSession checks what sessions and access tokens open, without a refresh.
func (c *Client) WantSession(want int, ins ...SignedIn) {
	c.T.Helper()
	for _, in := range ins {
		c.Want(want, "GET", "/session/", "", in.Cookie)
		c.Want(want, "GET", "/bearer/", "", in.Bearer)
	}
}

// RefreshBody returns the body that presents a refresh token.
func RefreshBody(token string) string { return `{"refresh_token":"` + token + `"}` }

// CSRFToken returns the anti-CSRF token of a login.
func (c *Client) CSRFToken(cookie string) string {
	c.T.Helper()
	w := c.Want(200, "GET", "/csrf-token", "", cookie)
	var answer map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer["csrf_token"]) != 43 {
		c.T.Fatalf("GET /csrf-token: %s", w.Body)
	}
	return answer["csrf_token"]
}

// MadeToken is what the creation of an API token answers.
type MadeToken struct {
	ID, Name, Token string
	Roles           []string
	CreatedAt       string `json:"created_at"`
	ExpiresAt       string `json:"expires_at"`
}

// ReadToken reads the answer to the creation of an API token.
func ReadToken(t testing.TB, w *httptest.ResponseRecorder) (made MadeToken) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return made
}

// NewToken makes an API token for an hour, with more members of the order.
func (c *Client) NewToken(cookie, more string) MadeToken {
	c.T.Helper()
	return ReadToken(c.T, c.Want(201, "POST", "/account/tokens", `{"name":"ci","expires_in":3600`+more+`}`, JSON, cookie))
}

// DetailOf returns what an error tells the client.
func DetailOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var p struct{ Detail string }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("the body is not a problem document: %v: %q", err, w.Body)
	}
	return p.Detail
}

// SignInAge returns what an error tells the client about the age of the sign-in, nil for nothing.
func SignInAge(t testing.TB, w *httptest.ResponseRecorder) any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return body["max_age"]
}

// Jar is the cookies of a browser, by their names.
type Jar map[string]string

// JarOf returns the cookies that an answer sets.
func JarOf(w *httptest.ResponseRecorder) Jar {
	j := Jar{}
	j.Take(w)
	return j
}

// Take does what an answer says about cookies.
func (j Jar) Take(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(j, c.Name)
		} else {
			j[c.Name] = c.Value
		}
	}
}

// Line returns the header line with the cookies of those names, or else with all. It is
// empty if there are none.
func (j Jar) Line(names ...string) string {
	var pairs []string
	for name, value := range j {
		if len(names) == 0 || slices.Contains(names, name) {
			pairs = append(pairs, name+"="+value)
		}
	}
	if pairs == nil {
		return ""
	}
	return "Cookie: " + strings.Join(pairs, "; ")
}

// OwnLogin is what /account/sessions says of one login.
type OwnLogin struct {
	ID, Mechanism, Provider, Client string
	Current                         bool
	CreatedAt                       string `json:"created_at"`
	LastUsed                        string `json:"last_used_at"`
	ExpiresAt                       string `json:"expires_at"`
	UserAgent                       string `json:"user_agent"`
}

// Logins returns the logins of the user.
func (c *Client) Logins(header ...string) []OwnLogin {
	c.T.Helper()
	var body struct{ Sessions []OwnLogin }
	w := c.Want(200, "GET", "/account/sessions", "", header...)
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Sessions == nil {
		c.T.Fatalf("%v: %s", err, w.Body)
	}
	return body.Sessions
}

// Another signs alice in from a phone.
func (c *Client) Another() SignedIn {
	c.T.Helper()
	return ReadLogin(c.T, c.Want(200, "POST", "/login", Alice, JSON, Phone))
}

// Post sends a form of the account page, as a Browser does.
func (c *Client) Post(status int, target, form, cookie string) *httptest.ResponseRecorder {
	c.T.Helper()
	return c.Want(status, "POST", target, form,
		Form, Browser, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", cookie)
}

// Refresh returns what a refresh gives.
func (c *Client) Refresh(token string) SignedIn {
	c.T.Helper()
	return ReadLogin(c.T, c.Want(200, "POST", "/refresh", RefreshBody(token), JSON))
}

// WantPage checks that an answer is a page with these parts.
func WantPage(t *testing.T, w *httptest.ResponseRecorder, parts ...string) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("%d with the type %q, want a page", w.Code, got)
	}
	body := w.Body.String()
	if end := strings.Index(body, "</style>"); end >= 0 {
		body = body[end:]
	}
	for _, part := range parts {
		if absent, found := strings.CutPrefix(part, "not "); strings.Contains(body, absent) == found {
			t.Errorf("the page is to have %q:\n%s", part, body)
		}
	}
}

// Cleared returns the names of the cookies that an answer clears.
func Cleared(w *httptest.ResponseRecorder) (names []string) {
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 && c.Value == "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// MaxAge returns how long a cookie lives that an answer sets.
func MaxAge(t testing.TB, w *httptest.ResponseRecorder, name string) time.Duration {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if c.Name == name {
			return time.Duration(c.MaxAge) * time.Second
		}
	}
	t.Errorf("no cookie %s: %q", name, w.Header()["Set-Cookie"])
	return 0
}

// Sites are what browsers tell about the site that makes a request. The origin of
// the rig is https://gw.example.
var Sites = []struct {
	Headers []string
	Foreign bool
}{
	{nil, false}, // no browser
	{[]string{"Sec-Fetch-Site: same-origin", "Origin: https://gw.example"}, false},
	{[]string{"Sec-Fetch-Site: none"}, false}, // typed in
	{[]string{"Sec-Fetch-Site: same-site", "Origin: https://other.gw.example"}, true},
	{[]string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, true},
	{[]string{"Sec-Fetch-Site: cross-site"}, true},
	{[]string{"Sec-Fetch-Site: neighbour"}, true},
	{[]string{"Origin: https://gw.example"}, false}, // an old browser
	{[]string{"Origin: http://gw.example"}, true},
	{[]string{"Origin: https://gw.example:8443"}, true},
	{[]string{"Origin: https://gw.example.evil.example"}, true},
	{[]string{"Origin: null"}, true},
	{[]string{"Origin: ://"}, true},
}
