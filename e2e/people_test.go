package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// people is the part of a configuration with users: service with the password
// s3rvice for Basic, and the accounts of alice and bob.
const people = `
basic:
  users:
    - {username: service, password_hash: "` + s3rviceHash + `"}
accounts:
  users:
    - {username: alice, name: Alice Example, email: alice@example.org, roles: [user, admin], password_hash: "` + wonderlandHash + `"}
    - {username: bob, roles: [user], password_hash: "` + builderHash + `"}
`

// The hashes have a low cost, so that tests are fast.
const (
	s3rviceHash    = "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"
	wonderlandHash = "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"
	builderHash    = "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"
)

// passwords of the accounts.
var passwords = map[string]string{"alice": "wonderland", "bob": "builder"}

// basicService is the Authorization header of service:s3rvice.
const basicService = "Basic c2VydmljZTpzM3J2aWNl"

// app is the part of a configuration that names one upstream, app.
func app(url string) string { return fmt.Sprintf("upstreams: {app: {url: %q}}\n", url) }

// signIn has the credentials of a login.
type signIn struct {
	session string // the Cookie header
	access  string // the Authorization header
	refresh string // the token
}

// signIn signs alice or bob in, for a session and tokens.
func (g *instance) signIn(c *http.Client, user string) signIn {
	g.t.Helper()
	return g.signInWith(c, user, passwords[user])
}

func (g *instance) signInWith(c *http.Client, user, password string) signIn {
	g.t.Helper()
	s, status, err := g.trySignIn(c, user, password)
	if err != nil || status != http.StatusOK {
		g.t.Fatalf("login of %s: %d, %v\n%s", user, status, err, g.log)
	}
	return s
}

// trySignIn is signInWith for other goroutines. signIn is empty unless the status
// is 200.
func (g *instance) trySignIn(c *http.Client, user, password string) (signIn, int, error) {
	return g.tryTokens(c, "/login", fmt.Sprintf(`{"username":%q,"password":%q}`, user, password))
}

// tryRefresh exchanges a refresh token. signIn is empty unless the status is 200.
func (g *instance) tryRefresh(c *http.Client, token string) (signIn, int, error) {
	return g.tryTokens(c, "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, token))
}

func (g *instance) tryTokens(c *http.Client, path, body string) (signIn, int, error) {
	a, err := g.try(c, "POST", path, body, "Content-Type", typeJSON)
	if err != nil || a.status != http.StatusOK {
		return signIn{}, a.status, err
	}
	s, err := tokens(a)
	s.session = cookieOf(a)
	return s, a.status, err
}

// cookieOf is the first cookie that an answer sets, as name=value.
func cookieOf(a answer) string {
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie
}

// tokens are the tokens in the answer of a login or refresh.
func tokens(a answer) (signIn, error) {
	var body struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	err := json.Unmarshal([]byte(a.body), &body)
	return signIn{access: "Bearer " + body.AccessToken, refresh: body.RefreshToken}, err
}

// status sends a request with headers and returns the status.
func (g *instance) status(c *http.Client, method, path string, headers ...string) int {
	g.t.Helper()
	return g.do(c, method, path, "", headers...).status
}

// stranger is a client that keeps no cookies.
func (g *instance) stranger() *http.Client {
	g.t.Helper()
	c := g.client()
	c.Jar = nil
	return c
}

// stranger11 is a stranger that uses HTTP/1.1.
func (g *instance) stranger11() *http.Client {
	g.t.Helper()
	c := g.stranger()
	c.Transport.(*http.Transport).Protocols = &http.Protocols{}
	c.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	return c
}
