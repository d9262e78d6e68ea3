package world

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/authenticator"
)

// People is the part of a configuration with users: service with the password
// s3rvice for Basic, and the accounts of alice and bob.
const People = `
basic:
  users:
    - {username: service, password_hash: "` + ServiceHash + `"}
accounts:
  users:
    - {username: alice, name: Alice Example, email: alice@example.org, roles: [user, admin],
       password_hash: "` + WonderlandHash + `"}
    - {username: bob, roles: [user], password_hash: "` + BuilderHash + `"}
`

// The hashes have the lowest cost of argon2id, so that tests are fast.
const (
	ServiceHash    = "$argon2id$v=19$m=8,t=1,p=1$WUFaMkRJUk5MQjdIS0RaSw$4oNqBggx4SpFQq75GVN4Ao63g75xHKrC6cyiKHv3ucs"
	WonderlandHash = "$argon2id$v=19$m=8,t=1,p=1$Uk5QSUtLNk82SEpTWDVURw$oYVEvpSIBS2QulmyyDtJHD7NjjqljjV/GmhCpXmAnDo"
	BuilderHash    = "$argon2id$v=19$m=8,t=1,p=1$TklSNjZYUEtJNFhFTVZPSw$hhf3CE3VNq0u7a7mCtkMjYgZuvPGoKSSGgSFwO2/wTs"
)

// Passwords of the accounts.
var Passwords = map[string]string{"alice": "wonderland", "bob": "builder", "carol": "wonderland"}

// BasicService is the Authorization header of service:s3rvice.
const BasicService = "Basic c2VydmljZTpzM3J2aWNl"

// Types of bodies, the Accept of a browser, and the body of a login.
const (
	TypeJSON    = "application/json"
	TypeForm    = "application/x-www-form-urlencoded"
	AcceptsPage = "text/html,application/xhtml+xml,*/*;q=0.8"
	AliceJSON   = `{"username":"alice","password":"wonderland"}`
)

// App is the part of a configuration that names one upstream, app.
func App(url string) string { return fmt.Sprintf("upstreams: {app: {url: %q}}\n", url) }

// Login has the credentials of a login.
type Login struct {
	Session string // the Cookie header
	Access  string // the Authorization header
	Refresh string // the token
}

// SignIn signs alice or bob in, for a session and tokens.
func (g *Instance) SignIn(c *http.Client, user string) Login {
	g.T.Helper()
	return g.SignInWith(c, user, Passwords[user])
}

// SignInWith is SignIn with another password than that of Passwords.
func (g *Instance) SignInWith(c *http.Client, user, password string) Login {
	g.T.Helper()
	s, status, err := g.TrySignIn(c, user, password)
	if err != nil || status != http.StatusOK {
		g.T.Fatalf("login of %s: %d, %v\n%s", user, status, err, g.Log)
	}
	return s
}

// TrySignIn is SignInWith for other goroutines. Login is empty unless the status
// is 200.
func (g *Instance) TrySignIn(c *http.Client, user, password string) (Login, int, error) {
	return g.tryTokens(c, g.Own("login"), fmt.Sprintf(`{"username":%q,"password":%q}`, user, password))
}

// TryRefresh exchanges a refresh token. Login is empty unless the status is 200.
func (g *Instance) TryRefresh(c *http.Client, token string) (Login, int, error) {
	return g.tryTokens(c, g.Own("refresh"), fmt.Sprintf(`{"refresh_token":%q}`, token))
}

func (g *Instance) tryTokens(c *http.Client, path, body string) (Login, int, error) {
	a, err := g.Try(c, "POST", path, body, "Content-Type", TypeJSON)
	if err != nil || a.Status != http.StatusOK {
		return Login{}, a.Status, err
	}
	s, err := Tokens(a)
	s.Session = CookieOf(a)
	return s, a.Status, err
}

// CookieOf is the first cookie that an answer sets, as name=value.
func CookieOf(a Answer) string {
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return cookie
}

// Tokens are the tokens in the answer of a login or refresh.
func Tokens(a Answer) (Login, error) {
	var body struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	err := json.Unmarshal([]byte(a.Body), &body)
	return Login{Access: "Bearer " + body.AccessToken, Refresh: body.RefreshToken}, err
}

// Status sends a request with headers and returns the status.
func (g *Instance) Status(c *http.Client, method, path string, headers ...string) int {
	g.T.Helper()
	return g.Do(c, method, path, "", headers...).Status
}

// Stranger is a client that keeps no cookies.
func (g *Instance) Stranger() *http.Client {
	g.T.Helper()
	c := g.Client()
	c.Jar = nil
	return c
}

// Stranger11 is a Stranger that uses HTTP/1.1.
func (g *Instance) Stranger11() *http.Client {
	g.T.Helper()
	c := g.Stranger()
	c.Transport.(*http.Transport).Protocols = &http.Protocols{}
	c.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	return c
}

// APIToken signs a user in, and returns a new API token.
func (g *Instance) APIToken(user string) string {
	g.T.Helper()
	c := g.Stranger()
	in := g.SignIn(c, user)
	a := g.Do(c, "POST", g.Own("account/tokens"), `{"name":"a program","expires_in":3600}`,
		"Content-Type", TypeJSON, "Cookie", in.Session, "Origin", g.Base)
	var made struct{ Token string }
	err := json.Unmarshal([]byte(a.Body), &made)
	if err != nil || a.Status != http.StatusCreated || !strings.HasPrefix(made.Token, "agt_") {
		g.T.Fatalf("the API token: %d %s, %v", a.Status, a.Body, err)
	}
	return made.Token
}

// Lend gets tokens for an OAuth client without a secret and without consent, for a resource, with the session of
// a user.
func (g *Instance) Lend(session, client, redirect, resource string) Login {
	g.T.Helper()
	const verifier = "a-verifier-of-forty-three-characters-or-more-than-that"
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "state": {"s"}, "resource": {resource},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	a := g.Do(g.Stranger(), "GET", g.Own("oauth/authorize?")+query.Encode(), "", "Cookie", session)
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "redirect_uri": {redirect}, "code_verifier": {verifier},
		"code": {QueryOf(a.Header.Get("Location")).Get("code")},
	}
	a = g.Do(g.Stranger(), "POST", g.Own("oauth/token"), form.Encode(), "Content-Type", TypeForm)
	if a.Status != http.StatusOK {
		g.T.Fatalf("a code: %d %s", a.Status, a.Body)
	}
	return Must(Tokens(a))(g.T)
}

// AddTOTP adds an app for one-time codes to the account of a user, and returns its secret.
func (g *Instance) AddTOTP(user string) (secret string) {
	g.T.Helper()
	c := g.Stranger()
	line := []string{"Cookie", g.SignIn(c, user).Session, "Content-Type", TypeJSON, "Origin", g.Public}
	begun := g.Do(c, "POST", "/account/totp", "{}", line...)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(begun.Body), &made); err != nil || begun.Status != http.StatusCreated {
		g.T.Fatalf("a new secret: %d %s", begun.Status, begun.Body)
	}
	code := Must(authenticator.Code(made.Secret, time.Now()))(g.T)
	confirmed := g.Do(c, "POST", "/account/totp/confirm", fmt.Sprintf(`{"code":%q}`, code), line...)
	WantStatus(g.T, "the first code", confirmed, http.StatusOK)
	return made.Secret
}

// BasicOf is the Authorization header of a user name and password, as name:password.
func BasicOf(credential string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
}

// CookieNamed returns the one cookie of a name that an answer sets.
func CookieNamed(t testing.TB, a Answer, name string) *http.Cookie {
	t.Helper()
	var found []*http.Cookie
	for _, c := range (&http.Response{Header: a.Header}).Cookies() {
		if c.Name == name {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the cookie %s is set %d times: %q", name, len(found), a.Header["Set-Cookie"])
	}
	return found[0]
}

// QueryOf is the query of an address, or nil.
func QueryOf(address string) url.Values {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	return u.Query()
}

// ClaimsOf returns the claims of a token without a look at its signature.
func ClaimsOf(t testing.TB, token string) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// Page loads a page of one of the gateway's hosts, and returns the response without its
// body.
func (g *Instance) Page(c *http.Client, host, target string, cookies ...string) *http.Response {
	g.T.Helper()
	request := Must(http.NewRequest("GET", g.Base+target, nil))(g.T)
	request.Host = host
	request.Header.Set("Accept", "text/html")
	request.Header.Set("Cookie", strings.Join(cookies, "; "))
	response := Must(c.Do(request))(g.T)
	response.Body.Close()
	return response
}
