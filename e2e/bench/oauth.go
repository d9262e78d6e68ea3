package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"golang.org/x/oauth2"
)

// formScript makes wrk post the form that a header has, because only headers differ between
// the two servers of a comparison.
const formScript = `wrk.method = "POST"
wrk.body = wrk.headers["X-Form"]
wrk.headers["X-Form"] = nil
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
`

// refreshScript makes wrk exchange refresh tokens, each for the next one. A header has those to
// begin with: the first half for the first run, and the rest for the second one.
const refreshScript = `local form, list = wrk.headers["X-Form"]:match("^(.*&)refresh_token=(.*)$")
local first, left = wrk.headers["X-Run"] == "1", {}
wrk.headers["X-Form"], wrk.headers["X-Run"] = nil, nil
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
for half, token in list:gmatch("(%d)([^,]+)") do
  if (half == "1") == first then left[#left + 1] = token end
end
function request()
  return wrk.format("POST", nil, nil, form .. "refresh_token=" .. table.remove(left, 1))
end
function response(status, headers, body)
  left[#left + 1] = body:match('"refresh_token":"([^"]+)"')
end
`

// refreshes is the load of clients that exchange refresh tokens.
type refreshes struct {
	http1
	runs *sync.Map // how many there were, by address
}

// run implements load.
func (r refreshes) run(ctx context.Context, to target, lasting time.Duration) (result, error) {
	run := "1"
	if _, again := r.runs.LoadOrStore(to.url, true); again {
		run = "2"
	}
	to.headers = append(slices.Clone(to.headers), "X-Run: "+run)
	return r.http1.run(ctx, to, lasting)
}

// behindTLS is what a proxy that ends TLS adds to the requests of programs.
var behindTLS = []string{"Host: auth.example.org", "X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.7"}

// program is the client of the rows of the authorization server.
var program = url.Values{"client_id": {"program"}, "client_secret": {"the secret of a program that asks often"}}

// programHome is where its users come back to.
const programHome = "https://program.example.net/"

// issuers returns the rows of the authorization server beside oidc-provider, which is
// certified: a program gets a token of its own, asks about one, and renews those of a user. They are measured only if
// -only names them.
func (l *lab) issuers() ([]comparison, error) {
	script := filepath.Join(l.dir, "form.lua")
	if err := os.WriteFile(script, []byte(formScript+doneScript), 0o600); err != nil {
		return nil, err
	}
	var all []comparison
	for _, asks := range []bool{false, true} {
		t := task{name: "oauth, client credentials", load: http1{l, script, l.connections}, headers: behindTLS, decided: true}
		if asks {
			t.name = "oauth, introspection"
		}
		all = append(all, comparison{task: t, subject: "authgate", other: "oidc-provider", start: [2]starter{
			func(ctx context.Context, n int) (*server, error) { return l.issuer(ctx, n, l.startIssuer, asks) },
			func(ctx context.Context, n int) (*server, error) { return l.issuer(ctx, n, l.startCertified, asks) },
		}})
	}
	renewing := filepath.Join(l.dir, "refresh.lua")
	if err := os.WriteFile(renewing, []byte(refreshScript+doneScript), 0o600); err != nil {
		return nil, err
	}
	load := refreshes{http1{l, renewing, l.connections}, &sync.Map{}}
	t := task{name: "oauth, refresh", load: load, headers: behindTLS, decided: true}
	return append(all, comparison{task: t, subject: "authgate", other: "oidc-provider", start: [2]starter{
		func(ctx context.Context, n int) (*server, error) { return l.renewer(ctx, n, l.startIssuer) },
		func(ctx context.Context, n int) (*server, error) { return l.renewer(ctx, n, l.startCertified) },
	}}), nil
}

// endpoints are where an authorization server answers programs.
type endpoints struct {
	token, introspection string
	grant                func(context.Context) (string, error) // returns a refresh token for a user
}

// renewer starts an authorization server, of which programs have as many refresh tokens as two
// runs need.
func (l *lab) renewer(
	ctx context.Context, n int, start func(context.Context, int) (*server, *endpoints, error),
) (*server, error) {
	s, at, err := start(ctx, n)
	if err != nil {
		return nil, err
	}
	form := withProgram("grant_type", "refresh_token") + "&refresh_token="
	var tokens []string
	for i := range 2 * (l.connections + 1) { // wrk makes a request more than it sends, to look at it
		token, err := at.grant(ctx)
		if err != nil {
			s.stop()
			return nil, err
		}
		tokens = append(tokens, fmt.Sprint(1+i%2)+token)
	}
	s.path, s.plain, s.header = at.token, true, "X-Form: "+form+strings.Join(tokens, ",")
	s.check = func(ctx context.Context) error {
		token, err := at.grant(ctx)
		if err == nil {
			_, err = l.newToken(ctx, s.address, at.token, form+token)
		}
		return err
	}
	return s, nil
}

// issuer starts an authorization server. The program gets tokens of it, or asks about one.
func (l *lab) issuer(
	ctx context.Context, n int, start func(context.Context, int) (*server, *endpoints, error), asks bool,
) (*server, error) {
	s, at, err := start(ctx, n)
	if err != nil {
		return nil, err
	}
	form := withProgram("grant_type", "client_credentials")
	s.path, s.plain, s.header = at.token, true, "X-Form: "+form
	s.check = func(ctx context.Context) error {
		_, err := l.newToken(ctx, s.address, at.token, form)
		return err
	}
	token, err := l.newToken(ctx, s.address, at.token, form)
	if err != nil {
		s.stop()
		return nil, err
	}
	if asks {
		form := withProgram("token", token)
		s.path, s.header = at.introspection, "X-Form: "+form
		s.check = func(ctx context.Context) error { return l.active(ctx, s.address, at.introspection, form) }
	}
	return s, nil
}

// withProgram returns a form with one more field than the client's own.
func withProgram(name, value string) string {
	form := url.Values{name: {value}}
	for field, values := range program {
		form[field] = values
	}
	return form.Encode()
}

// newToken gets a token by a form, and checks that a wrong secret gets none.
func (l *lab) newToken(ctx context.Context, address, path, form string) (string, error) {
	var answer struct {
		Token string `json:"access_token"`
	}
	wrong := strings.Replace(form, "often", "never", 1)
	if status, err := l.ask(ctx, address, path, wrong, &answer); err != nil || status != http.StatusUnauthorized {
		return "", fmt.Errorf("%s answers %d to a wrong secret, want 401 (%w)", path, status, err)
	}
	status, err := l.ask(ctx, address, path, form, &answer)
	if err != nil || status != http.StatusOK || answer.Token == "" {
		return "", fmt.Errorf("%s answers %d without a token (%w)", path, status, err)
	}
	return answer.Token, nil
}

// active checks that a server knows the token of a form.
func (l *lab) active(ctx context.Context, address, path, form string) error {
	var answer struct{ Active bool }
	status, err := l.ask(ctx, address, path, form, &answer)
	if err != nil || status != http.StatusOK || !answer.Active {
		return fmt.Errorf("%s answers %d and active %t, want 200 and true (%w)", path, status, answer.Active, err)
	}
	return nil
}

// ask posts a form, and decodes the answer.
func (l *lab) ask(ctx context.Context, address, path, form string, answer any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, strings.NewReader(form))
	if err != nil {
		return 0, err
	}
	for _, line := range append([]string{"Content-Type: application/x-www-form-urlencoded"}, behindTLS...) {
		name, value := header(line)
		request.Header.Set(name, value)
	}
	request.Host = request.Header.Get("Host")
	response, err := l.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, json.Unmarshal(body, answer)
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

// startIssuer starts authgate as an authorization server.
func (l *lab) startIssuer(ctx context.Context, n int) (*server, *endpoints, error) {
	s, err := l.startConfigured(ctx, issuerConfiguration, map[string]string{"Upstream": l.upstreams[n]}, n)
	if err != nil {
		return nil, nil, err
	}
	at := &endpoints{token: "/oauth/token", introspection: "/oauth/introspect"}
	at.grant = func(ctx context.Context) (string, error) { // of a login of its own, as with many users
		in, err := l.signIn(ctx, "http://"+s.address+"/login",
			"X-Forwarded-Proto: https", "X-Forwarded-Host: auth.example.org")
		if err != nil {
			return "", err
		}
		return l.authorize(ctx, s.address, at.token, in.cookie)
	}
	return s, at, nil
}

// authorize returns a refresh token for the user of a session, whose consent is not needed.
func (l *lab) authorize(ctx context.Context, address, path, cookie string) (string, error) {
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: program.Get("client_id"), Endpoint: oauth2.Endpoint{AuthURL: "http://" + address + "/oauth/authorize"},
		RedirectURL: programHome, Scopes: []string{"openid", "offline_access"},
	}
	asked := config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier))
	status, head, _, err := l.exchange(ctx, asked, append([]string{"Cookie: " + cookie}, behindTLS...)...)
	if err != nil {
		return "", err
	}
	back, err := url.Parse(head.Get("Location"))
	if err != nil || back.Query().Get("code") == "" {
		return "", fmt.Errorf("the authorization answers %d and no code (%w)", status, err)
	}
	form := withProgram("grant_type", "authorization_code") + "&" + url.Values{
		"code": {back.Query().Get("code")}, "code_verifier": {verifier}, "redirect_uri": {programHome},
	}.Encode()
	var answer struct {
		Token string `json:"refresh_token"`
	}
	if status, err := l.ask(ctx, address, path, form, &answer); err != nil || answer.Token == "" {
		return "", fmt.Errorf("the code gives %d and no refresh token (%w)", status, err)
	}
	return answer.Token, nil
}

// startCertified starts oidc-provider.
func (l *lab) startCertified(ctx context.Context, n int) (*server, *endpoints, error) {
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat("provider/node_modules/oidc-provider"); err != nil {
		return nil, nil, errors.Join(errors.New("oidc-provider is not installed, run make deps"), err)
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, nil, err
	}
	cmd := pinned(ctx, l.serverCore, "node", "provider/bench.mjs", port)
	cmd.Env = append(os.Environ(), "NODE_ENV=production")
	cmd.Stderr = os.Stderr
	p, err := start(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := l.ready(ctx, p, "http://"+addresses[0]+"/.well-known/openid-configuration"); err != nil {
		p.stop()
		return nil, nil, fmt.Errorf("oidc-provider does not answer: %w", err)
	}
	s := &server{process: p, address: addresses[0], upstream: l.upstreams[n]}
	return s, &endpoints{"/token", "/token/introspection", func(ctx context.Context) (string, error) {
		status, token, err := l.get(ctx, "http://"+s.address+"/mint")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("oidc-provider mints no refresh token: %d %s", status, token)
		}
		return token, err
	}}, nil
}
