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
	"strings"
	"text/template"
)

// formScript makes wrk post the form that a header has, because only headers differ between
// the two servers of a comparison.
const formScript = `wrk.method = "POST"
wrk.body = wrk.headers["X-Form"]
wrk.headers["X-Form"] = nil
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
`

// behindTLS is what a proxy that ends TLS adds to the requests of programs.
var behindTLS = []string{"Host: auth.example.org", "X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.7"}

// program is the client of the rows of the authorization server.
var program = url.Values{"client_id": {"program"}, "client_secret": {"the secret of a program that asks often"}}

// issuers returns the rows of the authorization server beside oidc-provider, which is
// certified: a program gets a token of its own, and asks about one. They are measured only if
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
	return all, nil
}

// endpoints are where an authorization server answers programs.
type endpoints struct{ token, introspection string }

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
    - {id: program, secret: the secret of a program that asks often, grants: [client_credentials]}
`))

// startIssuer starts authgate as an authorization server.
func (l *lab) startIssuer(ctx context.Context, n int) (*server, *endpoints, error) {
	s, err := l.startConfigured(ctx, issuerConfiguration, map[string]string{"Upstream": l.upstreams[n]}, n)
	return s, &endpoints{"/oauth/token", "/oauth/introspect"}, err
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
	return s, &endpoints{"/token", "/token/introspection"}, nil
}
