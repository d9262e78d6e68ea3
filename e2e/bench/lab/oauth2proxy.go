package lab

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"authgate/e2e/bench/process"
)

// OAuth2ProxyVersion is the module that is compared. It is built in the folder of the lab,
// and is not a dependency.
const OAuth2ProxyVersion = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6"

// oauth2ProxyProgram returns the program. It builds it once, unless the options name it.
func (l *Lab) oauth2ProxyProgram(ctx context.Context) (string, error) {
	if l.options.OAuth2Proxy != "" {
		return l.options.OAuth2Proxy, nil
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", OAuth2ProxyVersion)
	download.Dir = l.Dir
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w\n%s", OAuth2ProxyVersion, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	// go does not build a program with replacements from elsewhere.
	source := filepath.Join(l.Dir, "oauth2-proxy-source")
	if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
		return "", err
	}
	program := filepath.Join(l.Dir, "oauth2-proxy")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = source
	build.Env = append(build.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building oauth2-proxy: %w\n%s", err, out)
	}
	l.options.OAuth2Proxy = program
	return program, nil
}

// OAuth2Proxy starts an oauth2-proxy that other proxies ask.
func (l *Lab) OAuth2Proxy(ctx context.Context, n int) (*Server, error) {
	gate, err := l.runOAuth2Proxy(ctx, n, "--http-address",
		"--upstream=static://200", "--reverse-proxy", "--set-xauthrequest")
	if err != nil {
		return nil, err
	}
	gate.path, gate.names = "/oauth2/auth", "X-Auth-Request-User"
	l.decide(gate)
	return gate, nil
}

// OAuth2ProxyInFront starts oauth2-proxy as the proxy itself, with TLS.
func (l *Lab) OAuth2ProxyInFront(ctx context.Context, n int) (*Server, error) {
	gate, err := l.runOAuth2Proxy(ctx, n, "--https-address", "--tls-cert-file="+l.Certificate, "--tls-key-file="+l.key,
		"--tls-min-version=TLS1.3", "--upstream=http://"+l.upstreams[n]+"/", "--api-route=^/")
	if err != nil {
		return nil, err
	}
	gate.folder = "session"
	l.guard(gate, "alice")
	return gate, nil
}

// runOAuth2Proxy runs oauth2-proxy without its logs, which are not measured, and signs
// in for a cookie without tokens of a provider, which is short and thus costs it least.
// listen is the flag of its address.
func (l *Lab) runOAuth2Proxy(ctx context.Context, n int, listen string, args ...string) (*Server, error) {
	program, err := l.oauth2ProxyProgram(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	hash := sha1.Sum([]byte(Password)) // one of the two forms that it reads
	users := filepath.Join(l.Dir, "oauth2-proxy.htpasswd")
	if err := os.WriteFile(users,
		[]byte("alice:{SHA}"+base64.StdEncoding.EncodeToString(hash[:])+"\n"), 0o600); err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	scheme := strings.TrimSuffix(strings.TrimPrefix(listen, "--"), "-address") + "://"
	args = append([]string{
		program, "--http-address=" + addresses[1], listen + "=" + addresses[0],
		"--provider=github", "--client-id=unused", "--client-secret=unused",
		"--cookie-secret=" + base64.URLEncoding.EncodeToString(secret), "--email-domain=*",
		"--htpasswd-file=" + users, "--request-logging=false", "--auth-logging=false", "--standard-logging=false",
	}, args...)
	p, err := l.startReady(ctx, process.Pinned(ctx, l.serverCore, args...), scheme+addresses[0]+"/ping")
	if err != nil {
		return nil, fmt.Errorf("oauth2-proxy does not become ready: %w", err)
	}
	gate := &Server{Process: p, Address: addresses[0], upstream: l.upstreams[n]}
	if gate.header, err = l.Client.signInAtOAuth2Proxy(ctx, scheme+gate.Address); err != nil {
		gate.Stop()
		return nil, fmt.Errorf("signing in at oauth2-proxy: %w", err)
	}
	return gate, nil
}

// signInAtOAuth2Proxy returns the header with the cookie of a login.
func (c client) signInAtOAuth2Proxy(ctx context.Context, base string) (string, error) {
	form := url.Values{"username": {"alice"}, "password": {Password}}.Encode()
	got, err := c.send(ctx, http.MethodPost, base+"/oauth2/sign_in", form, formType)
	if err != nil {
		return "", err
	}
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	if got.status != http.StatusFound || !strings.HasPrefix(cookie, "_oauth2_proxy=") {
		return "", fmt.Errorf("%d and the cookie %.20s", got.status, cookie)
	}
	return "Cookie: " + cookie, nil
}
