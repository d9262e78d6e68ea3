package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
)

// Caller is a caller with a token of the gateway.
type Caller struct {
	Name  string
	user  string
	token func(*calling, context.Context) (string, error)
}

// User is a user with a token of their login.
func User() Caller {
	return Caller{"token of a login", "alice", func(c *calling, _ context.Context) (string, error) {
		return c.login.token, nil
	}}
}

// Callers are compared with User: a program of the same user, an agent that acts for that user, and a job.
func Callers() []Caller {
	return []Caller{
		{"token that a user lends", "alice", func(c *calling, ctx context.Context) (string, error) {
			return c.lend(ctx, "/caller")
		}},
		{"exchanged token", "alice", (*calling).exchange}, {"token of a federated client", "client:job", (*calling).federate},
	}
}

var callerConfiguration = Configuration("", `log: {level: warn}
accounts:
  users: [{username: alice, password_hash: "{{.Hash}}", roles: [user]}]
token: {trusted_issuers: [{name: platform, issuer: "{{.Issuer}}"}]}
upstreams:
  resources: {url: "http://{{.Upstream}}"}
policies:
  user: {roles: [user]}
routes:
  - {match: /caller/, upstream: resources, auth: [bearer], policy: user}
  - {match: /agent, upstream: resources, auth: [bearer]}
oauth:
  enabled: true
  clients:
    - {id: program, redirect_uris: [https://program.example.net/], consent: skip}
    - id: agent
      secret: the secret of a program that asks often
      grants: [token_exchange]
      exchange: {from: ["https://{{.Address}}/agent"], to: ["https://{{.Address}}/caller"]}
    - {id: job, roles: [user], grants: [jwt_bearer], federation: [{issuer: platform, claims: {sub: [job]}}]}
`)

// calling is a gateway, with a signed-in user and a platform that it trusts.
type calling struct {
	*Server
	client   client
	login    signedIn
	platform *httptest.Server
	key      *ecdsa.PrivateKey
}

// ForCaller starts authgate, and gets the token of a caller. What the platform has is read then.
func (l *Lab) ForCaller(caller Caller) Starter {
	return func(ctx context.Context, n int) (*Server, error) {
		c := &calling{client: l.Client}
		if err := c.servePlatform(); err != nil {
			return nil, err
		}
		defer c.platform.Close()
		var err error
		values := map[string]string{"Issuer": c.platform.URL}
		if c.Server, err = l.Configured(ctx, callerConfiguration, values, n); err != nil {
			return nil, err
		}
		c.login, err = c.client.SignIn(ctx, c.Base()+"/login", "alice", Password)
		if err == nil {
			c.folder = "caller"
			c.header, err = caller.token(c, ctx)
		}
		if err != nil {
			c.Stop()
			return nil, fmt.Errorf("the token of a caller: %w", err)
		}
		c.header = "Authorization: Bearer " + c.header
		l.guard(c.Server, caller.user)
		return c.Server, nil
	}
}

// servePlatform serves the metadata and the keys of the platform.
func (c *calling) servePlatform() (err error) {
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	c.platform = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any = map[string]string{"issuer": c.platform.URL, "jwks_uri": c.platform.URL + "/keys"}
		if r.URL.Path == "/keys" {
			body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: c.key.Public()}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	}))
	return nil
}

// lend returns a token that the user lends a program for a path.
func (c *calling) lend(ctx context.Context, path string) (string, error) {
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: programID, RedirectURL: programHome,
		Endpoint: oauth2.Endpoint{AuthURL: c.Base() + "/oauth/authorize", TokenURL: c.Base() + "/oauth/token"},
	}
	resource := oauth2.SetAuthURLParam("resource", c.Base()+path)
	asked := config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), resource)
	got, err := c.client.send(ctx, http.MethodGet, asked, "", "Cookie: "+c.login.Cookie)
	if err != nil {
		return "", err
	}
	back, err := url.Parse(got.header.Get("Location"))
	if err != nil {
		return "", err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.client.http)
	token, err := config.Exchange(ctx, back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return "", err
	}
	return token.AccessToken, nil
}

// exchange exchanges what the user lends for a token of the agent.
func (c *calling) exchange(ctx context.Context) (string, error) {
	lent, err := c.lend(ctx, "/agent")
	if err != nil {
		return "", err
	}
	return c.ask(ctx, url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "subject_token": {lent},
		"resource": {c.Base() + "/caller"}, "client_id": {"agent"}, "client_secret": {programSecret},
	})
}

// federate gets a token for the job by one of its platform.
func (c *calling) federate(ctx context.Context) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: c.key}, nil)
	if err != nil {
		return "", err
	}
	now := time.Now()
	assertion, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": c.platform.URL, "sub": "job", "aud": c.Base(), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		return "", err
	}
	return c.ask(ctx, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}})
}

// ask asks for a token by a form.
func (c *calling) ask(ctx context.Context, form url.Values) (string, error) {
	got, err := c.client.send(ctx, http.MethodPost, c.Base()+"/oauth/token", form.Encode(), formType)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || answer.Token == "" {
		return "", fmt.Errorf("%d %s: no token (%w)", got.status, got.body, err)
	}
	return answer.Token, nil
}
