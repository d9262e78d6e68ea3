package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// server is one side of a comparison.
type server struct {
	process  *process
	backing  *process // a server that it needs, or nil
	counted  bool     // what backing uses counts too
	address  string   // of its listener
	plain    bool     // the listener has no TLS
	path     string   // the only path that it is asked for; empty: a resource in the folder
	names    string   // the header of its answers that names the user
	upstream string   // the address of the upstream for this server
	folder   string   // before the resource in paths; empty: any will do
	header   string   // its credential, in one line or several; empty: it needs none
	check    func(context.Context) error

	// Of authgate alone:
	admin, config string        // the address of its administration, the file
	started       time.Duration // how long it took until it was ready
}

// starter starts a server in front of the nth address of the upstream.
type starter func(ctx context.Context, n int) (*server, error)

// measured returns the processes whose time and memory count.
func (s *server) measured() []*process {
	if s.counted {
		return []*process{s.process, s.backing}
	}
	return []*process{s.process}
}

// stop ends the server.
func (s *server) stop() {
	s.process.stop()
	if s.backing != nil {
		s.backing.stop()
	}
}

// cookie is the credential for servers that need none, so that their requests are as
// long as those with a session.
const cookie = "Cookie: session_id=0000000000000000000000000000000000000000000"

// imitate makes a server that needs no credential get the same requests as another.
func (s *server) imitate(other *server) {
	if other.header == "" {
		other.header, other.folder = cookie, "session"
	}
	if s.header == "" {
		s.header, s.folder = other.header, other.folder
	}
}

// headers returns the header lines of its credential.
func (s *server) headers() []string { return strings.Split(s.header, "\n") }

// target returns what a task asks of the server.
func (s *server) target(t task) target {
	scheme := "https://"
	if s.plain {
		scheme = "http://"
	}
	path := s.path
	if path == "" {
		path = strings.TrimSuffix("/"+s.folder+"/"+t.resource, "/")
	}
	return target{url: scheme + s.address + path, headers: append(s.headers(), t.headers...)}
}

// startBare starts a bare proxy, the floor.
func (l *lab) startBare(ctx context.Context, n int) (*server, error) {
	return l.startBareFor(ctx, n, "http://")
}

// startBareHTTP2 starts a bare proxy for an upstream that speaks HTTP/2 without TLS.
func (l *lab) startBareHTTP2(ctx context.Context, n int) (*server, error) {
	return l.startBareFor(ctx, n, "h2c://")
}

func (l *lab) startBareFor(ctx context.Context, n int, scheme string) (*server, error) {
	p, addresses, err := startRole(ctx, l.serverCore, "bare",
		"-upstream", scheme+l.upstreams[n], "-certificate", l.certificate, "-key", l.key)
	if err != nil {
		return nil, err
	}
	return l.plainServer(p, addresses[0], n), nil
}

func (l *lab) plainServer(p *process, address string, n int) *server {
	return &server{process: p, address: address, upstream: l.upstreams[n], check: func(ctx context.Context) error { return l.forwards(ctx, "https://"+address) }}
}

// forwards checks that a plain proxy passes a header on.
func (l *lab) forwards(ctx context.Context, base string) error {
	const user = "no gateway checks this"
	status, seen, err := l.get(ctx, base+whoamiSuffix, "X-Auth-User: "+user)
	if err != nil {
		return err
	}
	if status != http.StatusOK || seen != user {
		return fmt.Errorf("%s answers %d and %q, want 200 and that the upstream sees %q", base, status, seen, user)
	}
	return nil
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

// Nginx and HAProxy do what the floor does: TLS 1.3 with the cipher that Go prefers,
// kept connections, forwarding headers, no log, nothing on disk.
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

func (l *lab) startNginx(ctx context.Context, n int) (*server, error) {
	return l.startProgram(ctx, n, nginxConfiguration, nil, func(dir, file string) []string {
		return []string{"nginx", "-p", dir, "-e", "stderr", "-c", file}
	})
}

func (l *lab) startHAProxy(ctx context.Context, n int) (*server, error) {
	return l.startProgram(ctx, n, haproxyConfiguration, nil, func(_, file string) []string { return []string{"haproxy", "-db", "-f", file} })
}

// startProgram starts a proxy of another make in a new folder, and waits until it
// answers. Without a gate that it asks, it is a plain proxy.
func (l *lab) startProgram(ctx context.Context, n int, configuration *template.Template, gate *server, command func(dir, file string) []string) (*server, error) {
	dir, err := os.MkdirTemp(l.dir, configuration.Name()+"-")
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	values := map[string]string{"Address": addresses[0], "Upstream": l.upstreams[n], "Certificate": l.certificate, "Key": l.key, "Both": l.both}
	var credential []string
	if gate != nil {
		values["Gate"], values["Path"], values["Names"] = gate.address, gate.path, gate.names
		credential = []string{gate.header}
	}
	var text strings.Builder
	if err := configuration.Execute(&text, values); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "configuration")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	args := command(dir, file)
	if args[0], err = find(args[0]); err != nil {
		return nil, err
	}
	cmd := pinned(ctx, l.serverCore, args...)
	cmd.Stderr = os.Stderr
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	if err := l.ready(ctx, p, "https://"+addresses[0]+whoamiSuffix, credential...); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s does not answer: %w", configuration.Name(), err)
	}
	return l.plainServer(p, addresses[0], n), nil
}

// find returns the file of a program. Debian keeps servers out of the PATH of users
// who are not root.
func find(name string) (string, error) {
	file, err := exec.LookPath(name)
	if err == nil {
		return file, nil
	}
	if file, err := exec.LookPath(filepath.Join("/usr/sbin", name)); err == nil {
		return file, nil
	}
	return "", err
}
