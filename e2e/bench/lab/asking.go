package lab

import (
	"context"
	"fmt"
	"strings"
	"text/template"

	"authgate/e2e/bench/process"
)

// Question has the headers that nginx sends with auth_request, beside the credential.
func Question() []string {
	return []string{
		"Host: app.example.org", "X-Original-Method: GET", "X-Original-URL: https://app.example.org/page?x=1",
		"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: app.example.org",
	}
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

// Verify starts an authgate that other proxies ask, and signs in.
func (l *Lab) Verify(ctx context.Context, n int) (*Server, error) {
	gate, err := l.Configured(ctx, verifyConfiguration, nil, n)
	if err != nil {
		return nil, err
	}
	gate.path, gate.names = "/.authgate/verify", "X-Auth-User"
	l.decide(gate)
	login, err := l.Client.SignIn(ctx, gate.Base()+"/.authgate/login", "alice", Password,
		"X-Forwarded-Proto: https", "X-Forwarded-Host: app.example.org")
	if err != nil {
		gate.Stop()
		return nil, fmt.Errorf("signing in: %w", err)
	}
	gate.header = sessionHeader(login)
	return gate, nil
}

// EmptyHandler starts a gate that does nothing but answer: the least that one in Go can cost.
func (l *Lab) EmptyHandler(ctx context.Context, n int) (*Server, error) {
	p, addresses, err := process.StartRole(ctx, l.serverCore, "gate")
	if err != nil {
		return nil, err
	}
	gate := &Server{Process: p, Address: addresses[0], upstream: l.upstreams[n], header: cookie, path: "/",
		names: "X-Auth-User"}
	l.decide(gate)
	return gate, nil
}

// decide makes a server one that is asked directly, and its check that it decides.
func (l *Lab) decide(gate *Server) {
	gate.plain = true
	gate.check = func(ctx context.Context) error {
		return l.Client.decides(ctx, gate.Base()+gate.path, gate.header, gate.names)
	}
}

var askingConfiguration = template.Must(template.New("asking nginx").Funcs(template.FuncMap{
	"variable": nginxVariable,
}).Parse(nginxHead + `  proxy_http_version 1.1;
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
      auth_request_set $user $upstream_http_{{variable .Names}};
      proxy_pass http://resources;
      proxy_set_header Connection "";
      proxy_set_header X-Auth-User $user;
    }
  }
}
`))

// nginxVariable returns a header as it is in the names of variables of nginx.
func nginxVariable(header string) string {
	return strings.ReplaceAll(strings.ToLower(header), "-", "_")
}

var askingCaddyConfiguration = template.Must(template.New("asking caddy").Parse(caddyHead + `	route {
		request_header -X-Auth-*
		forward_auth {{.Gate}} {
			uri {{.Path}}
			header_up X-Forwarded-Host app.example.org
			copy_headers {{.Names}}>X-Auth-User
		}
		reverse_proxy {{.Upstream}}
	}
}
`))

// BehindNginx starts a gate and an nginx that asks it, on the core of the load. Only the gate counts.
func (l Proxies) BehindNginx(start Starter) Starter {
	nginx := program{askingConfiguration, nginxCommand, l.loadCore, true}
	return l.asking(nginx, start, func(proxy, gate *Server) {
		proxy.path = "/resource"
		proxy.Process, proxy.needs = gate.Process, []*process.Process{proxy.Process}
	})
}

// NginxAsks starts a gate and an nginx with TLS that asks it, which count together.
func (l Proxies) NginxAsks(start Starter) Starter {
	return l.asking(program{askingConfiguration, nginxCommand, l.serverCore, false}, start, countBoth)
}

// CaddyAsks is NginxAsks for Caddy.
func (l Proxies) CaddyAsks(start Starter) Starter {
	return l.asking(program{askingCaddyConfiguration, l.caddyCommand, l.serverCore, false}, start, countBoth)
}

func countBoth(proxy, gate *Server) {
	proxy.folder, proxy.counts = "session", []*process.Process{gate.Process}
}

// asking starts a gate and a proxy that asks it about each request. count tells which of both counts.
func (l Proxies) asking(p program, start Starter, count func(proxy, gate *Server)) Starter {
	return func(ctx context.Context, n int) (*Server, error) {
		gate, err := start(ctx, n)
		if err != nil {
			return nil, err
		}
		proxy, err := l.start(ctx, n, p, gate)
		if err != nil {
			gate.Stop()
			return nil, err
		}
		proxy.header = gate.header
		count(proxy, gate)
		l.guard(proxy, "alice")
		return proxy, nil
	}
}
