package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// mechanism is an authentication mechanism to measure.
type mechanism struct {
	name      string
	algorithm string // of tokens
	route     string // the folder whose route accepts only this mechanism
	user      string // the identity that the upstream must get
	header    func(signedIn) string
	accessLog bool
	http3     bool // it listens for HTTP/3 too
}

// signedIn has the credentials of a login.
type signedIn struct{ token, cookie string }

// password of both users; authgate makes its hash.
const password = "correct horse battery staple"

func basicHeader(signedIn) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("service:"+password))
}

func sessionHeader(s signedIn) string { return "Cookie: " + s.cookie }

func bearerHeader(s signedIn) string { return "Authorization: Bearer " + s.token }

// session is the mechanism of sessions.
func session() mechanism {
	return mechanism{name: "session", algorithm: "HS256", route: "session", user: "alice", header: sessionHeader}
}

// logged returns a mechanism whose gateway writes its access log.
func logged(m mechanism) mechanism {
	m.name, m.accessLog = m.name+", access log", true
	return m
}

func mechanisms() []mechanism {
	return []mechanism{
		{name: "Basic", algorithm: "HS256", route: "basic", user: "service", header: basicHeader},
		session(),
		{name: "bearer HS256", algorithm: "HS256", route: "bearer", user: "alice", header: bearerHeader},
		{name: "bearer RS256", algorithm: "RS256", route: "bearer", user: "alice", header: bearerHeader},
	}
}

// authgateFor starts authgate on the default store for a mechanism.
func (l *lab) authgateFor(m mechanism) starter {
	return func(ctx context.Context, n int) (*server, error) { return l.startSignedIn(ctx, m, onSQLite, n) }
}

// startSignedIn starts authgate on a store and signs in.
func (l *lab) startSignedIn(ctx context.Context, m mechanism, store string, n int) (*server, error) {
	gateway, err := l.startAuthgate(ctx, m, store, n)
	if err != nil {
		return nil, err
	}
	login, err := l.signIn(ctx, "https://"+gateway.address+"/login")
	if err != nil {
		gateway.process.stop()
		return nil, fmt.Errorf("signing in: %w", err)
	}
	gateway.folder, gateway.header = m.route, m.header(login)
	gateway.check = func(ctx context.Context) error {
		return l.guarded(ctx, "https://"+gateway.address+"/"+m.route+whoamiSuffix, m.user, gateway.header)
	}
	return gateway, nil
}

// guarded checks that a route answers 401 without the credential, and that with it
// the upstream gets the user.
func (l *lab) guarded(ctx context.Context, url, user, header string) error {
	status, _, err := l.get(ctx, url)
	if err != nil {
		return err
	}
	if status != http.StatusUnauthorized {
		return fmt.Errorf("%s answers %d without a credential, want 401", url, status)
	}
	status, seen, err := l.get(ctx, url, header)
	if err != nil {
		return err
	}
	if status != http.StatusOK || seen != user {
		return fmt.Errorf("%s answers %d and %q, want 200 and that the upstream sees %q", url, status, seen, user)
	}
	return nil
}

var configuration = template.Must(template.New("").Parse(`public_url: https://{{.Address}}
listen: {https: "{{.Address}}", http: "", {{if .HTTP3}}http3: "{{.Address}}", {{end}}admin: "{{.Admin}}"}
tls: {mode: files, certificate: "{{.Certificate}}", key: "{{.Key}}"}
data_dir: data
log: {level: {{.Level}}}
basic:
  users:
    - {username: service, password_hash: "{{.Hash}}"}
accounts:
  users:
    - {username: alice, password_hash: "{{.Hash}}", name: Alice Example, email: alice@example.org, roles: [user, admin]}
token: {algorithm: {{.Algorithm}}{{if eq .Algorithm "HS256"}}, secret: "the key that signs tokens in the benchmark"{{end}}}
store: {{.Store}}
upstreams:
  resources: {url: "http://{{.Upstream}}"}
  grpc: {url: "h2c://{{.Upstream}}"}
policies:
  user: {roles: [user]}
routes:
  - {match: /basic/, upstream: resources, auth: [basic]}
  - {match: /session/, upstream: resources, auth: [session], policy: user}
  - {match: /session/grpc, upstream: grpc, auth: [session], policy: user}
  - {match: /bearer/, upstream: resources, auth: [bearer], policy: user}
`))

// onSQLite is the configuration of the default store.
const onSQLite = "{driver: sqlite}"

// startAuthgate starts authgate for a mechanism on a store, with the nth address of
// the upstream.
func (l *lab) startAuthgate(ctx context.Context, m mechanism, store string, n int) (*server, error) {
	level := "warn" // the access log has the level info
	if m.accessLog {
		level = "info"
	}
	values := map[string]string{
		"Certificate": l.certificate, "Key": l.key, "Algorithm": m.algorithm, "Level": level, "Store": store,
		"Upstream": l.upstreams[n],
	}
	if m.http3 {
		values["HTTP3"] = "true"
	}
	return l.startConfigured(ctx, configuration, values, n)
}

// startConfigured starts authgate in a new folder with a configuration, and waits until it
// answers. It adds the addresses and the hash of the password to the values.
func (l *lab) startConfigured(ctx context.Context, configuration *template.Template, values map[string]string, n int) (*server, error) {
	dir, err := os.MkdirTemp(l.dir, "gateway-")
	if err != nil {
		return nil, err
	}
	hash, err := l.tool(ctx, password+"\n", "hash-password")
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	values["Address"], values["Admin"], values["Hash"] = addresses[0], addresses[1], strings.TrimSpace(hash)
	var text bytes.Buffer
	if err := configuration.Execute(&text, values); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	if _, err := l.tool(ctx, "", "validate", "--config", config); err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := l.runAuthgate(ctx, config, addresses[1])
	if err != nil {
		return nil, err
	}
	return &server{process: p, address: addresses[0], admin: addresses[1], config: config, started: time.Since(began),
		upstream: l.upstreams[n]}, nil
}

// runAuthgate runs authgate until it is ready.
func (l *lab) runAuthgate(ctx context.Context, config, admin string) (*process, error) {
	logFile, err := os.OpenFile(l.authgateLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the process has its own
	cores := cmp.Or(l.serverCores, strconv.Itoa(l.serverCore))
	cmd := pinnedTo(ctx, cores, l.authgate, "serve", "--config", config)
	cmd.Stderr = logFile
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	if err := l.ready(ctx, p, "http://"+admin+"/readyz"); err != nil {
		p.stop()
		return nil, fmt.Errorf("authgate does not become ready (-log FILE has its log): %w", err)
	}
	return p, nil
}

// tool runs a subcommand of authgate and returns what it prints.
func (l *lab) tool(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.authgate, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("authgate %s: %w\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out), nil
}

// ready waits until url answers 200, for at most half a minute, as authgate makes a key
// for RS256 first.
func (l *lab) ready(ctx context.Context, p *process, url string, headers ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		status, answer, err := l.get(ctx, url, headers...)
		if err == nil && status == http.StatusOK {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s answers %d: %s", url, status, answer)
		}
		select {
		case <-p.ended:
			return errors.New("the process has ended")
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// signIn signs alice in at url for a session, and a token where there are tokens. Each
// header is a line.
func (l *lab) signIn(ctx context.Context, url string, headers ...string) (signedIn, error) {
	return l.signInAs(ctx, url, "alice", password, headers...)
}

// signInAs is signIn for a user.
func (l *lab) signInAs(ctx context.Context, url, username, password string, headers ...string) (signedIn, error) {
	var s signedIn
	body := bytes.NewReader(passwordJSON(username, password))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return s, err
	}
	request.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		request.Header.Set(header(line))
	}
	response, err := l.client.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return s, err
	}
	var tokens struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(answer, &tokens); err != nil || response.StatusCode != http.StatusOK {
		return s, fmt.Errorf("POST /login: %s: %s", response.Status, answer)
	}
	s.token = tokens.AccessToken
	for _, cookie := range response.Cookies() {
		if cookie.Name == "session_id" {
			s.cookie = cookie.Name + "=" + cookie.Value
		}
	}
	if s.cookie == "" {
		return s, errors.New("POST /login gave no session cookie")
	}
	return s, nil
}

func passwordJSON(username, password string) []byte {
	text, _ := json.Marshal(map[string]string{"username": username, "password": password}) // cannot fail
	return text
}

// freeAddresses returns n loopback addresses on which no program listens.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all are in use until the last is found
		addresses[i] = listener.Addr().String()
	}
	return addresses, nil
}
