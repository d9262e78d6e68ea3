package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// decisionsPerSecond is how many decisions one core should make for other proxies.
const decisionsPerSecond = 20_000

// question is what nginx sends with auth_request, beside the credential.
var question = []string{
	"Host: app.example.org", "X-Original-Method: GET", "X-Original-URL: https://app.example.org/page?x=1",
	"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: app.example.org",
}

// decisions returns the rows of forward authentication: authgate beside oauth2-proxy, which
// decrypts a cookie for each request. Both are asked directly, then by nginx. Only their
// own time counts, not that of nginx.
func (l *lab) decisions() []comparison {
	var all []comparison
	for _, t := range []struct {
		task
		wrap func(starter) starter
	}{
		{task{name: "forward authentication", load: http1{l, l.script, l.connections}, headers: question, decided: true}, func(s starter) starter { return s }},
		{task{name: "forward authentication by nginx", load: http1{l, l.script, l.connections}, resource: "resource"}, l.behindNginx},
	} {
		all = append(all, comparison{
			task: t.task, subject: "session", other: "oauth2-proxy", rate: decisionsPerSecond, most: l.maxRatio,
			start: [2]starter{t.wrap(l.startVerify), t.wrap(l.startOAuth2Proxy)},
		})
	}
	return all
}

var verifyConfiguration = template.Must(template.New("").Parse(`public_url: https://auth.example.org
listen: {http: "{{.Address}}", admin: "{{.Admin}}", trusted_proxies: [127.0.0.1]}
tls: {mode: "off"}
data_dir: data
log: {level: warn}
endpoints: {prefix: /.authgate/}
accounts:
  users:
    - {username: alice, password_hash: "{{.Hash}}", name: Alice Example, email: alice@example.org, roles: [user, admin]}
policies:
  user: {roles: [user]}
routes:
  - {match: app.example.org/, auth: [session], policy: user}
`))

// startVerify starts an authgate that nginx asks, and signs in.
func (l *lab) startVerify(ctx context.Context, n int) (*server, error) {
	gate, err := l.startConfigured(ctx, verifyConfiguration, map[string]string{}, n)
	if err != nil {
		return nil, err
	}
	login, err := l.signIn(ctx, "http://"+gate.address+"/.authgate/login",
		"X-Forwarded-Proto: https", "X-Forwarded-Host: app.example.org")
	if err != nil {
		gate.stop()
		return nil, fmt.Errorf("signing in: %w", err)
	}
	gate.path, gate.header, gate.names = "/.authgate/verify", "Cookie: "+login.cookie, "X-Auth-User"
	return l.decider(gate), nil
}

// decider returns a server that is asked directly, with the check that it refuses a request
// without the credential, and names the user of one with it.
func (l *lab) decider(gate *server) *server {
	gate.plain = true
	gate.check = func(ctx context.Context) error {
		url := "http://" + gate.address + gate.path
		if status, _, _, err := l.exchange(ctx, url, question...); err != nil || status != http.StatusUnauthorized {
			return fmt.Errorf("%s answers %d without a credential, want 401 (%w)", url, status, err)
		}
		status, head, _, err := l.exchange(ctx, url, append([]string{gate.header}, question...)...)
		if err != nil || status/100 != 2 || head.Get(gate.names) != "alice" {
			return fmt.Errorf("%s answers %d and %q, want 2xx and the user alice (%w)", url, status, head.Get(gate.names), err)
		}
		return nil
	}
	return gate
}

var askingConfiguration = template.Must(template.New("").Parse(nginxHead + `  proxy_http_version 1.1;
  upstream resources { server {{.Upstream}}; keepalive 256; keepalive_requests 1000000000; }
  upstream gate { server {{.Gate}}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen {{.Address}}{{if .Certificate}} ssl http2;
    ssl_certificate {{.Certificate}};
    ssl_certificate_key {{.Key}};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256{{end}};
    location = /question {
      internal;
      proxy_pass http://gate{{.Path}};
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header Connection "";
      proxy_set_header Host app.example.org;
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-URL https://app.example.org$request_uri;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto https;
      proxy_set_header X-Forwarded-Host app.example.org;
    }
    location / {
      auth_request /question;
      auth_request_set $user $upstream_http_{{.Names}};
      proxy_pass http://resources;
      proxy_set_header Connection "";
      proxy_set_header X-Auth-User $user;
    }
  }
}
`))

// behindNginx starts a server and an nginx that asks it, on the core of the load.
func (l *lab) behindNginx(start starter) starter {
	return func(ctx context.Context, n int) (*server, error) {
		gate, err := start(ctx, n)
		if err != nil {
			return nil, err
		}
		nginx, address, err := l.startAsking(ctx, gate, l.loadCore, "", "")
		if err != nil {
			gate.stop()
			return nil, err
		}
		asked := &server{process: gate.process, backing: nginx, address: address, upstream: gate.upstream, header: gate.header, path: "/resource", plain: true}
		asked.check = func(ctx context.Context) error {
			return l.guarded(ctx, "http://"+address+whoamiSuffix, "alice", gate.header)
		}
		return asked, nil
	}
}

// startAsking starts an nginx that asks a gate about each request. It has TLS if there is a
// certificate.
func (l *lab) startAsking(ctx context.Context, gate *server, core int, certificate, key string) (*process, string, error) {
	dir, err := os.MkdirTemp(l.dir, "asking-")
	if err != nil {
		return nil, "", err
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	var text strings.Builder
	err = askingConfiguration.Execute(&text, map[string]string{
		"Address": addresses[0], "Upstream": gate.upstream, "Gate": gate.address, "Path": gate.path,
		"Certificate": certificate, "Key": key,
		"Names": strings.ReplaceAll(strings.ToLower(gate.names), "-", "_"),
	})
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, "", err
	}
	program, err := find("nginx")
	if err != nil {
		return nil, "", err
	}
	cmd := pinned(ctx, core, program, "-p", dir, "-e", "stderr", "-c", file)
	cmd.Stderr = os.Stderr
	nginx, err := start(cmd)
	if err != nil {
		return nil, "", err
	}
	scheme := "http://"
	if certificate != "" {
		scheme = "https://"
	}
	if err := l.ready(ctx, nginx, scheme+addresses[0]+"/resource", gate.header); err != nil {
		nginx.stop()
		return nil, "", fmt.Errorf("nginx does not answer: %w", err)
	}
	return nginx, addresses[0], nil
}
