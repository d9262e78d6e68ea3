package main

import (
	"bytes"
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
)

// oauth2ProxyVersion is the module that is compared. It is built in the folder of the lab,
// and is not a dependency.
const oauth2ProxyVersion = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6"

// oauth2ProxyProgram returns the program. It builds it once, unless the options name it.
func (l *lab) oauth2ProxyProgram(ctx context.Context) (string, error) {
	if l.oauth2Proxy != "" {
		return l.oauth2Proxy, nil
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", oauth2ProxyVersion)
	download.Dir = l.dir
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w\n%s", oauth2ProxyVersion, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	source := filepath.Join(l.dir, "oauth2-proxy-source") // go does not build a program with replacements from elsewhere
	if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
		return "", err
	}
	program := filepath.Join(l.dir, "oauth2-proxy")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = source
	build.Env = append(build.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building oauth2-proxy: %w\n%s", err, out)
	}
	l.oauth2Proxy = program
	return program, nil
}

// startOAuth2Proxy starts an oauth2-proxy that other proxies ask.
func (l *lab) startOAuth2Proxy(ctx context.Context, n int) (*server, error) {
	gate, err := l.runOAuth2Proxy(ctx, n, "--http-address", "--upstream=static://200", "--reverse-proxy", "--set-xauthrequest")
	if err != nil {
		return nil, err
	}
	gate.path, gate.names = "/oauth2/auth", "X-Auth-Request-User"
	return l.decider(gate), nil
}

// runOAuth2Proxy runs oauth2-proxy without its logs, which are not measured, and signs
// in for a cookie without tokens of a provider, which is short and thus costs it least.
// listen is the flag of its address.
func (l *lab) runOAuth2Proxy(ctx context.Context, n int, listen string, args ...string) (*server, error) {
	program, err := l.oauth2ProxyProgram(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	hash := sha1.Sum([]byte(password)) // one of the two forms that it reads
	users := filepath.Join(l.dir, "oauth2-proxy.htpasswd")
	if err := os.WriteFile(users, []byte("alice:{SHA}"+base64.StdEncoding.EncodeToString(hash[:])+"\n"), 0o600); err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	scheme := strings.TrimSuffix(strings.TrimPrefix(listen, "--"), "-address") + "://"
	args = append([]string{
		program, "--http-address=" + addresses[1], listen + "=" + addresses[0], "--provider=github", "--client-id=unused", "--client-secret=unused",
		"--cookie-secret=" + base64.URLEncoding.EncodeToString(secret), "--email-domain=*",
		"--htpasswd-file=" + users, "--request-logging=false", "--auth-logging=false", "--standard-logging=false",
	}, args...)
	p, err := start(pinned(ctx, l.serverCore, args...))
	if err != nil {
		return nil, err
	}
	gate := &server{process: p, address: addresses[0], upstream: l.upstreams[n]}
	if err := l.ready(ctx, p, scheme+addresses[0]+"/ping"); err != nil {
		gate.stop()
		return nil, fmt.Errorf("oauth2-proxy does not become ready: %w", err)
	}
	if gate.header, err = l.signInAtOAuth2Proxy(ctx, scheme+gate.address); err != nil {
		gate.stop()
		return nil, fmt.Errorf("signing in at oauth2-proxy: %w", err)
	}
	return gate, nil
}

// signInAtOAuth2Proxy returns the header with the cookie of a login.
func (l *lab) signInAtOAuth2Proxy(ctx context.Context, base string) (string, error) {
	form := url.Values{"username": {"alice"}, "password": {password}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/oauth2/sign_in", bytes.NewReader([]byte(form)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := l.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	cookie, _, _ := strings.Cut(response.Header.Get("Set-Cookie"), ";")
	if response.StatusCode != http.StatusFound || !strings.HasPrefix(cookie, "_oauth2_proxy=") {
		return "", fmt.Errorf("%s and the cookie %.20s", response.Status, cookie)
	}
	return "Cookie: " + cookie, nil
}
