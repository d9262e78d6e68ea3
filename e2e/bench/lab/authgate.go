package lab

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"authgate/e2e/bench/process"
)

// Mechanism is an authentication mechanism to measure.
type Mechanism struct {
	Name      string
	Algorithm string // of tokens
	route     string // the folder whose route accepts only this mechanism
	user      string // the identity that the upstream must get
	header    func(signedIn) string
	accessLog bool
	http3     bool // it listens for HTTP/3 too
}

// Password is that of alice and of the service; authgate makes its hash.
const Password = "correct horse battery staple"

// BasicHeader is the header line of the service.
func BasicHeader() string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("service:"+Password))
}

func sessionHeader(s signedIn) string { return "Cookie: " + s.Cookie }

func bearerHeader(s signedIn) string { return "Authorization: Bearer " + s.token }

// Session is the mechanism of sessions.
func Session() Mechanism {
	return Mechanism{Name: "session", Algorithm: "HS256", route: "session", user: "alice", header: sessionHeader}
}

// Logged returns a mechanism whose gateway writes its access log.
func (m Mechanism) Logged() Mechanism {
	m.Name, m.accessLog = m.Name+", access log", true
	return m
}

// OverHTTP3 returns a mechanism whose gateway listens for HTTP/3 too.
func (m Mechanism) OverHTTP3() Mechanism {
	m.http3 = true
	return m
}

// Mechanisms are those that are compared.
func Mechanisms() []Mechanism {
	basic := func(signedIn) string { return BasicHeader() }
	return []Mechanism{
		{Name: "Basic", Algorithm: "HS256", route: "basic", user: "service", header: basic},
		Session(),
		{Name: "bearer HS256", Algorithm: "HS256", route: "bearer", user: "alice", header: bearerHeader},
		{Name: "bearer RS256", Algorithm: "RS256", route: "bearer", user: "alice", header: bearerHeader},
	}
}

// Authgate starts authgate on the default store for a mechanism, and signs in.
func (l *Lab) Authgate(m Mechanism) Starter {
	return func(ctx context.Context, n int) (*Server, error) {
		return l.startSignedIn(ctx, m, "{driver: sqlite}", n)
	}
}

// Configuration returns a template of a configuration with TLS. It adds keys to the section
// listen, and then the other sections.
func Configuration(listen, sections string) *template.Template {
	return template.Must(template.New("").Parse(`public_url: https://{{.Address}}
listen: {https: "{{.Address}}", http: "", admin: "{{.Admin}}"` + listen + `}
tls: {mode: files, certificate: "{{.Certificate}}", key: "{{.Key}}"}
` + sections))
}

var mechanismConfiguration = Configuration(`{{if .HTTP3}}, http3: "{{.Address}}"{{end}}`, `data_dir: data
log: {level: {{.Level}}}
basic:
  users:
    - {username: service, password_hash: "{{.Hash}}"}
accounts:
  users:
    - {username: alice, password_hash: "{{.Hash}}",
       name: Alice Example, email: alice@example.org, roles: [user, admin]}
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
`)

// startSignedIn starts authgate for a mechanism on a store, and signs in.
func (l *Lab) startSignedIn(ctx context.Context, m Mechanism, store string, n int) (*Server, error) {
	values := map[string]string{"Algorithm": m.Algorithm, "Level": "warn", "Store": store}
	if m.accessLog {
		values["Level"] = "info" // that of the access log
	}
	if m.http3 {
		values["HTTP3"] = "true"
	}
	gateway, err := l.Configured(ctx, mechanismConfiguration, values, n)
	if err != nil {
		return nil, err
	}
	login, err := l.Client.SignIn(ctx, gateway.Base()+"/login", "alice", Password)
	if err != nil {
		gateway.Stop()
		return nil, fmt.Errorf("signing in: %w", err)
	}
	gateway.folder, gateway.header = m.route, m.header(login)
	l.guard(gateway, m.user)
	return gateway, nil
}

// Configured starts authgate in a new folder with a configuration, and waits until it answers. It
// adds the certificate, the addresses and the hash of the password to the values, and the nth
// address of the upstream, unless they name another upstream.
func (l *Lab) Configured(
	ctx context.Context, configuration *template.Template, values map[string]string, n int,
) (*Server, error) {
	dir, err := os.MkdirTemp(l.Dir, "gateway-")
	if err != nil {
		return nil, err
	}
	hash, err := l.Tool(ctx, Password+"\n", "hash-password")
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		"Address": addresses[0], "Admin": addresses[1], "Hash": strings.TrimSpace(hash),
		"Certificate": l.Certificate, "Key": l.key, "Upstream": l.upstreams[n],
	}
	maps.Copy(all, values)
	var text bytes.Buffer
	if err := configuration.Execute(&text, all); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	if _, err := l.Tool(ctx, "", "validate", "--config", config); err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := l.serveGateway(ctx, config, addresses[1])
	if err != nil {
		return nil, err
	}
	return &Server{Process: p, Address: addresses[0], Admin: addresses[1], Config: config, Started: time.Since(began),
		upstream: l.upstreams[n]}, nil
}

// serveGateway runs authgate until it is ready, for which it may make a key for RS256.
func (l *Lab) serveGateway(ctx context.Context, config, admin string) (*process.Process, error) {
	logFile, err := os.OpenFile(l.options.AuthgateLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the process has its own
	cmd := process.Pinned(ctx, l.cores, l.options.Authgate, "serve", "--config", config)
	cmd.Stderr = logFile
	p, err := l.startReady(ctx, cmd, "http://"+admin+"/readyz")
	if err != nil {
		return nil, fmt.Errorf("authgate does not become ready (-log FILE has its log): %w", err)
	}
	return p, nil
}

// startReady starts a server, and waits until url answers 200, for at most half a minute.
func (l *Lab) startReady(ctx context.Context, cmd *exec.Cmd, url string, headers ...string) (*process.Process, error) {
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	err = p.Await(ctx, 30*time.Second, func(ctx context.Context) error {
		status, answer, err := l.Client.Get(ctx, url, headers...)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s answers %d: %s", url, status, answer)
		}
		return err
	})
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Tool runs a subcommand of authgate and returns its output.
func (l *Lab) Tool(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.options.Authgate, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("authgate %s: %w\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out), nil
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
