package rig

import (
	"encoding/json"
	"net/http"
	"net/url"

	"authgate/internal/test/must"
)

// OAuthSecret is the secret of the clients of OAuthConfig and OAuthClient.
const OAuthSecret = "4dae4b72f33a40dcb9d0d7c1d2f3a98e"

// OAuthConfig has resources of each kind: at all hosts, at one, and at those below a wildcard.
const OAuthConfig = `public_url: https://gw.example:8443
listen: {trusted_proxies: [10.0.0.0/8]}
accounts: {users: [{username: alice, roles: [user], password_hash: "` + AliceHash + `"}]}
basic: {users: [{username: bob, password_hash: "` + AliceHash + `"}]}
upstreams: {app: {url: "http://app.invalid"}}
policies:
  user: {roles: [user]}
  reads: {roles: [user], scopes: [read]}
routes:
  - {match: /open/, upstream: app, auth: [none]}
  - {match: /api/, upstream: app, auth: [bearer], policy: user}
  - {match: /reads/, upstream: app, auth: [basic, bearer], policy: reads}
  - {match: /fresh/, upstream: app, auth: [bearer], policy: {max_age: 15m}}
  - {match: /docker/, upstream: app, auth: [bearer], basic_challenge: true}
  - {match: tools.example/mcp/, upstream: app, auth: [bearer]}
  - {match: "*.team.example/w/", upstream: app, auth: [bearer]}
oauth:
  enabled: true
  scopes: {read: [user], write: [user], nothing: []}
  clients:
    - {id: job, secret: "` + OAuthSecret + `", grants: [client_credentials], roles: [user]}
`

// SharingRoutes has routes that share a resource: one with an address, and one with a name alone.
// They come before the key oauth of OAuthConfig.
const SharingRoutes = `
  - {match: api.example/orders/, upstream: app, auth: [bearer], policy: reads, resource: "https://API.example:8443/"}
  - {match: api.example/items/, upstream: app, auth: [bearer], resource: "https://api.example:8443"}
  - {match: /files/, upstream: app, auth: [bearer], resource: files}
  - {match: "*.team.example/files/", upstream: app, auth: [bearer], resource: files}
oauth:`

// Credentials returns an access token of the client job of OAuthConfig, as a header line.
func (c *Client) Credentials(scope, resource string) string {
	c.T.Helper()
	return c.CredentialsAt("gw.example:8443", scope, resource)
}

// CredentialsAt is Credentials for a gateway at a host.
func (c *Client) CredentialsAt(host, scope, resource string) string {
	c.T.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}, "resource": {resource}}
	w := c.WantAt(host, 200, "POST", "/oauth/token", form.Encode(), Form, Basic("job", OAuthSecret))
	var answer Lent
	must.Do(c.T, json.Unmarshal(w.Body.Bytes(), &answer))
	return "Authorization: Bearer " + answer.Access
}

// OAuthClient has the client wiki of users.
const OAuthClient = "oauth: {enabled: true, clients: [{id: wiki, secret: \"" + OAuthSecret + "\", consent: skip, " +
	"redirect_uris: [\"https://wiki.example.net/cb\"]}]}\n"

// Lent are the tokens that a client got from a user.
type Lent struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
}

// AsWiki sends a form as the client wiki.
func (c *Client) AsWiki(path string, form url.Values) (tokens Lent) {
	c.T.Helper()
	w := c.Want(200, "POST", path, form.Encode(), Form, Basic("wiki", OAuthSecret))
	must.Do(c.T, json.Unmarshal(w.Body.Bytes(), &tokens))
	return tokens
}

// Lend signs the user of a session in to the client wiki, with scopes, for a resource; "": those
// of the gateway.
func (c *Client) Lend(cookie, scope, resource string) Lent {
	c.T.Helper()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of RFC 7636, appendix B
	asked := url.Values{
		"response_type": {"code"}, "client_id": {"wiki"}, "redirect_uri": {"https://wiki.example.net/cb"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	for name, value := range map[string]string{"scope": scope, "resource": resource} {
		if value != "" {
			asked.Set(name, value)
		}
	}
	w := c.Want(http.StatusFound, "GET", "/oauth/authorize?"+asked.Encode(), "", Browser, cookie)
	answer := must.Get(url.Parse(w.Header().Get("Location")))(c.T)
	return c.AsWiki("/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": answer.Query()["code"], "code_verifier": {verifier},
	})
}
