package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"authgate/e2e/bench/process"
	"authgate/e2e/bench/role"
)

// Proxies are nginx, HAProxy and Caddy, as plain proxies or with a gate that they ask.
type Proxies struct{ *Lab }

// program is a proxy of another make.
type program struct {
	configuration *template.Template
	command       func(dir, file string) []string // that runs it in a folder with a configuration
	core          string
	plain         bool // it has no TLS
}

// start starts a program in a new folder, and waits until it answers. Without a gate that it asks,
// it is a plain proxy.
func (l Proxies) start(ctx context.Context, n int, p program, gate *Server) (*Server, error) {
	name := p.configuration.Name()
	dir, err := os.MkdirTemp(l.Dir, strings.ReplaceAll(name, " ", "-")+"-")
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	s := &Server{Address: addresses[0], upstream: l.upstreams[n], plain: p.plain}
	values := map[string]string{"Address": s.Address, "Upstream": s.upstream}
	if !p.plain {
		values["Certificate"], values["Key"], values["Both"] = l.Certificate, l.key, l.both
	}
	var credential []string
	if gate != nil {
		values["Gate"], values["Path"], values["Names"] = gate.Address, gate.path, gate.names
		credential = gate.headers()
	}
	var text strings.Builder
	if err := p.configuration.Execute(&text, values); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "configuration")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	args := p.command(dir, file)
	if args[0], err = findProgram(args[0]); err != nil {
		return nil, err
	}
	cmd := process.Pinned(ctx, p.core, args...)
	cmd.Stderr = os.Stderr
	if s.Process, err = l.startReady(ctx, cmd, s.Base()+role.WhoamiSuffix, credential...); err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", name, err)
	}
	return l.proxy(s), nil
}

// findProgram returns the file of a program. Debian keeps servers out of the PATH of users
// who are not root.
func findProgram(name string) (string, error) {
	file, err := exec.LookPath(name)
	if err == nil {
		return file, nil
	}
	if file, err := exec.LookPath(filepath.Join("/usr/sbin", name)); err == nil {
		return file, nil
	}
	return "", err
}

// nginxHead begins the configurations of nginx: one process with kept connections that
// writes nothing to disk.
const nginxHead = `daemon off;
worker_processes 1;
worker_rlimit_nofile 8192;
pid nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path temporary;
  proxy_temp_path temporary;
  fastcgi_temp_path temporary;
  uwsgi_temp_path temporary;
  scgi_temp_path temporary;
  tcp_nodelay on;
  keepalive_requests 1000000000;
`

// Nginx and HAProxy do the same as the floor: TLS 1.3 with the cipher that Go
// prefers, kept connections, forwarding headers, no log, nothing on disk.
var (
	nginxConfiguration = template.Must(template.New("nginx").Parse(nginxHead + `  upstream resources {
    server {{.Upstream}};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen {{.Address}} ssl http2;
    ssl_certificate {{.Certificate}};
    ssl_certificate_key {{.Key}};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    location / {
      proxy_pass http://resources;
      proxy_http_version 1.1;
      proxy_max_temp_file_size 0;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-Proto https;
    }
  }
}
`))
	haproxyConfiguration = template.Must(template.New("haproxy").Parse(`global
  maxconn 4000
  nbthread 1
  ssl-default-bind-options ssl-min-ver TLSv1.3
  ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
defaults
  mode http
  http-reuse always
  timeout connect 10s
  timeout client 1m
  timeout server 1m
listen proxy
  bind {{.Address}} ssl crt {{.Both}} alpn h2,http/1.1
  option forwardfor
  http-request set-header X-Forwarded-Host %[req.hdr(Host)]
  http-request set-header X-Forwarded-Proto https
  server resources {{.Upstream}}
`))
)

// caddyHead begins the configurations of Caddy: no administration, no access log, and its files in
// the folder of the lab. Go prefers the cipher that the others are told to use.
const caddyHead = `{
	admin off
	auto_https off
	default_sni 127.0.0.1
	log {
		output discard
	}
}
https://{{.Address}} {
	tls {{.Certificate}} {{.Key}} {
		protocols tls1.3
	}
`

var caddyConfiguration = template.Must(template.New("caddy").Parse(caddyHead + "\treverse_proxy {{.Upstream}}\n}\n"))

// nginxCommand runs nginx.
func nginxCommand(dir, file string) []string {
	return []string{"nginx", "-p", dir, "-e", "stderr", "-c", file}
}

// caddyCommand runs Caddy with its folders in dir.
func (l Proxies) caddyCommand(dir, file string) []string {
	return []string{"env", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir,
		l.options.Caddy, "run", "--adapter", "caddyfile", "--config", file}
}

// Nginx starts nginx as a plain proxy.
func (l Proxies) Nginx(ctx context.Context, n int) (*Server, error) {
	return l.start(ctx, n, program{nginxConfiguration, nginxCommand, l.serverCore, false}, nil)
}

// HAProxy starts HAProxy as a plain proxy.
func (l Proxies) HAProxy(ctx context.Context, n int) (*Server, error) {
	command := func(_, file string) []string { return []string{"haproxy", "-db", "-f", file} }
	return l.start(ctx, n, program{haproxyConfiguration, command, l.serverCore, false}, nil)
}

// Caddy starts Caddy as a plain proxy.
func (l Proxies) Caddy(ctx context.Context, n int) (*Server, error) {
	return l.start(ctx, n, program{caddyConfiguration, l.caddyCommand, l.serverCore, false}, nil)
}
