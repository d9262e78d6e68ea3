package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/template"

	"golang.org/x/oauth2"

	"authgate/e2e/bench/process"
)

// formType is the header line of forms.
const formType = "Content-Type: application/x-www-form-urlencoded"

// BehindTLS has the headers that a proxy that ends TLS adds to the requests of programs.
func BehindTLS() []string {
	return []string{"Host: auth.example.org", "X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.7"}
}

// The client of a program at the authorization servers, and where its users come back to.
const (
	programID     = "program"
	programSecret = "the secret of a program that asks often"
	programHome   = "https://program.example.net/"
)

// withProgram returns a form with one more field than the program's own.
func withProgram(name, value string) string {
	return url.Values{name: {value}, "client_id": {programID}, "client_secret": {programSecret}}.Encode()
}

// issuer is an authorization server.
type issuer struct {
	*Server
	client               client
	token, introspection string                                // its endpoints
	grant                func(context.Context) (string, error) // returns a refresh token for a user
}

// Issuers are authgate and oidc-provider, which is certified, as authorization servers.
type Issuers struct{ *Lab }

// Granting start both. A program gets tokens of its own.
func (l Issuers) Granting() [2]Starter {
	return l.both(func(_ context.Context, s *issuer) error {
		s.takes(s.token, withProgram("grant_type", "client_credentials"))
		return nil
	})
}

// Introspecting start both. A program asks about a token of its own.
func (l Issuers) Introspecting() [2]Starter {
	return l.both(func(ctx context.Context, s *issuer) error {
		token, err := s.newToken(ctx, withProgram("grant_type", "client_credentials"))
		if err != nil {
			return err
		}
		form := withProgram("token", token)
		s.takes(s.introspection, form)
		s.check = func(ctx context.Context) error { return s.active(ctx, form) }
		return nil
	})
}

// Refreshing start both. Programs have as many refresh tokens as two runs of
// load.Generator.Refreshes need.
func (l Issuers) Refreshing(connections int) [2]Starter {
	return l.both(func(ctx context.Context, s *issuer) error {
		form := withProgram("grant_type", "refresh_token") + "&refresh_token="
		var tokens []string
		for i := range 2 * (connections + 1) {
			token, err := s.grant(ctx)
			if err != nil {
				return err
			}
			tokens = append(tokens, fmt.Sprint(1+i%2)+token)
		}
		s.takes(s.token, form+strings.Join(tokens, ","))
		s.check = func(ctx context.Context) error {
			token, err := s.grant(ctx)
			if err == nil {
				_, err = s.newToken(ctx, form+token)
			}
			return err
		}
		return nil
	})
}

// both start both, each prepared for its load.
func (l Issuers) both(prepare func(context.Context, *issuer) error) [2]Starter {
	prepared := func(start func(context.Context, int) (*issuer, error)) Starter {
		return func(ctx context.Context, n int) (*Server, error) {
			s, err := start(ctx, n)
			if err != nil {
				return nil, err
			}
			if err := prepare(ctx, s); err != nil {
				s.Stop()
				return nil, err
			}
			return s.Server, nil
		}
	}
	return [2]Starter{prepared(l.authgate), prepared(l.oidcProvider)}
}

// takes makes a load post a form at a path. The check is that the form gets a token.
func (s *issuer) takes(path, form string) {
	s.path, s.header = path, "X-Form: "+form
	s.check = func(ctx context.Context) error {
		_, err := s.newToken(ctx, form)
		return err
	}
}

// newToken gets a token by a form, and checks that a wrong secret gets none.
func (s *issuer) newToken(ctx context.Context, form string) (string, error) {
	var answer struct {
		Token string `json:"access_token"`
	}
	wrong := strings.Replace(form, "often", "never", 1)
	if status, err := s.ask(ctx, s.token, wrong, &answer); err != nil || status != http.StatusUnauthorized {
		return "", fmt.Errorf("%s answers %d to a wrong secret, want 401 (%w)", s.token, status, err)
	}
	status, err := s.ask(ctx, s.token, form, &answer)
	if err != nil || status != http.StatusOK || answer.Token == "" {
		return "", fmt.Errorf("%s answers %d without a token (%w)", s.token, status, err)
	}
	return answer.Token, nil
}

// active checks that the server knows the token of a form.
func (s *issuer) active(ctx context.Context, form string) error {
	var answer struct{ Active bool }
	status, err := s.ask(ctx, s.introspection, form, &answer)
	if err != nil || status != http.StatusOK || !answer.Active {
		return fmt.Errorf("%s answers %d and active %t, want 200 and true (%w)",
			s.introspection, status, answer.Active, err)
	}
	return nil
}

// ask posts a form, and decodes the answer.
func (s *issuer) ask(ctx context.Context, path, form string, answer any) (int, error) {
	got, err := s.client.send(ctx, http.MethodPost, s.Base()+path, form, append(BehindTLS(), formType)...)
	if err != nil {
		return 0, err
	}
	return got.status, json.Unmarshal([]byte(got.body), answer)
}

var issuerConfiguration = template.Must(template.New("").Parse(`public_url: https://auth.example.org
listen: {http: "{{.Address}}", admin: "{{.Admin}}", trusted_proxies: [127.0.0.1]}
tls: {mode: "off"}
data_dir: data
log: {level: warn}
accounts:
  users:
    - {username: alice, password_hash: "{{.Hash}}"}
upstreams: {app: {url: "http://{{.Upstream}}"}}
routes:
  - {match: /, upstream: app, auth: [bearer]}
oauth:
  enabled: true
  clients:
    - id: program
      secret: the secret of a program that asks often
      grants: [client_credentials, authorization_code, refresh_token]
      redirect_uris: [https://program.example.net/]
      consent: skip
`))

// authgate starts authgate. Each refresh token is of a login of its
// own, as with many users.
func (l Issuers) authgate(ctx context.Context, n int) (*issuer, error) {
	server, err := l.Configured(ctx, issuerConfiguration, nil, n)
	if err != nil {
		return nil, err
	}
	server.plain = true
	s := &issuer{Server: server, client: l.Client, token: "/oauth/token", introspection: "/oauth/introspect"}
	s.grant = func(ctx context.Context) (string, error) {
		in, err := l.Client.SignIn(ctx, s.Base()+"/login", "alice", Password,
			"X-Forwarded-Proto: https", "X-Forwarded-Host: auth.example.org")
		if err != nil {
			return "", err
		}
		return s.authorize(ctx, in.Cookie)
	}
	return s, nil
}

// authorize returns a refresh token for the user of a session, whose consent is not needed.
func (s *issuer) authorize(ctx context.Context, cookie string) (string, error) {
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: programID, Endpoint: oauth2.Endpoint{AuthURL: s.Base() + "/oauth/authorize"},
		RedirectURL: programHome, Scopes: []string{"openid", "offline_access"},
	}
	asked := config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier))
	got, err := s.client.send(ctx, http.MethodGet, asked, "", append(BehindTLS(), "Cookie: "+cookie)...)
	if err != nil {
		return "", err
	}
	back, err := url.Parse(got.header.Get("Location"))
	if err != nil || back.Query().Get("code") == "" {
		return "", fmt.Errorf("the authorization answers %d and no code (%w)", got.status, err)
	}
	form := withProgram("grant_type", "authorization_code") + "&" + url.Values{
		"code": {back.Query().Get("code")}, "code_verifier": {verifier}, "redirect_uri": {programHome},
	}.Encode()
	var answer struct {
		Token string `json:"refresh_token"`
	}
	if status, err := s.ask(ctx, s.token, form, &answer); err != nil || answer.Token == "" {
		return "", fmt.Errorf("the code gives %d and no refresh token (%w)", status, err)
	}
	return answer.Token, nil
}

// oidcProvider starts oidc-provider.
func (l Issuers) oidcProvider(ctx context.Context, n int) (*issuer, error) {
	if _, err := os.Stat("provider/node_modules/oidc-provider"); err != nil {
		return nil, errors.Join(errors.New("oidc-provider is not installed, run make deps"), err)
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, err
	}
	server := &Server{Address: addresses[0], plain: true, upstream: l.upstreams[n]}
	cmd := process.Pinned(ctx, l.serverCore, "node", "provider/bench.mjs", port)
	cmd.Env = append(os.Environ(), "NODE_ENV=production")
	cmd.Stderr = os.Stderr
	server.Process, err = l.startReady(ctx, cmd, server.Base()+"/.well-known/openid-configuration")
	if err != nil {
		return nil, fmt.Errorf("oidc-provider does not answer: %w", err)
	}
	grant := func(ctx context.Context) (string, error) {
		status, token, err := l.Client.Get(ctx, server.Base()+"/mint")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("oidc-provider mints no refresh token: %d %s", status, token)
		}
		return token, err
	}
	return &issuer{server, l.Client, "/token", "/token/introspection", grant}, nil
}
