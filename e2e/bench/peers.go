package main

import (
	"context"
	"errors"
	"text/template"
)

// peers returns the rows of docs/comparison.md: what a request of a signed-in user costs
// with other programs, each with TLS, over the same floor. They are measured only if -only
// names them. Where a proxy asks a gate, both count.
func (l *lab) peers() []comparison {
	t := task{name: "peers", load: http1{l, l.script, l.connections}, resource: "resource"}
	asking := func(front frontStarter, gate starter) starter {
		return func(ctx context.Context, n int) (*server, error) { return l.startBehind(ctx, n, front, gate) }
	}
	all := []comparison{
		{subject: "floor", start: [2]starter{l.startBare, l.startBare}, noise: l.maxNoise},
		{subject: "authgate", start: [2]starter{l.authgateFor(session()), l.startBare}, goal: 1, most: l.maxRatio},
		{subject: "oauth2-proxy", start: [2]starter{l.startOAuth2ProxyInFront, l.startBare}},
		{subject: "nginx, no sign-in", start: [2]starter{l.startNginx, l.startBare}},
		{subject: "HAProxy, no sign-in", start: [2]starter{l.startHAProxy, l.startBare}},
		{subject: "Caddy, no sign-in", start: [2]starter{l.startCaddy, l.startBare}},
		{subject: "nginx asks authgate", start: [2]starter{asking(l.startAskingNginx, l.startVerify), l.startBare}},
		{subject: "nginx asks oauth2-proxy", start: [2]starter{asking(l.startAskingNginx, l.startOAuth2Proxy), l.startBare}},
		{subject: "Caddy asks authgate", start: [2]starter{asking(l.startAskingCaddy, l.startVerify), l.startBare}},
		{subject: "Caddy asks oauth2-proxy", start: [2]starter{asking(l.startAskingCaddy, l.startOAuth2Proxy), l.startBare}},
	}
	for i := range all {
		all[i].task, all[i].other = t, "floor"
	}
	return all
}

// frontStarter starts a proxy with TLS that asks a gate about each request, on the core of
// the servers.
type frontStarter func(ctx context.Context, n int, gate *server) (*server, error)

// startBehind starts a gate and a proxy that asks it, which count together.
func (l *lab) startBehind(ctx context.Context, n int, front frontStarter, start starter) (*server, error) {
	gate, err := start(ctx, n)
	if err != nil {
		return nil, err
	}
	proxy, err := front(ctx, n, gate)
	if err != nil {
		gate.stop()
		return nil, err
	}
	proxy.backing, proxy.counted = gate.process, true
	proxy.header, proxy.folder = gate.header, "session"
	proxy.check = func(ctx context.Context) error {
		return l.guarded(ctx, "https://"+proxy.address+"/session"+whoamiSuffix, "alice", gate.header)
	}
	return proxy, nil
}

func (l *lab) startAskingNginx(ctx context.Context, n int, gate *server) (*server, error) {
	asking, address, err := l.startAsking(ctx, gate, l.serverCore, l.certificate, l.key)
	if err != nil {
		return nil, err
	}
	return &server{process: asking, address: address, upstream: l.upstreams[n]}, nil
}

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

var (
	caddyConfiguration       = template.Must(template.New("caddy").Parse(caddyHead + "\treverse_proxy {{.Upstream}}\n}\n"))
	askingCaddyConfiguration = template.Must(template.New("asking caddy").Parse(caddyHead + `	route {
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
)

func (l *lab) startCaddy(ctx context.Context, n int) (*server, error) {
	return l.startProgram(ctx, n, caddyConfiguration, nil, l.caddyCommand)
}

func (l *lab) startAskingCaddy(ctx context.Context, n int, gate *server) (*server, error) {
	return l.startProgram(ctx, n, askingCaddyConfiguration, gate, l.caddyCommand)
}

// caddyCommand runs Caddy with its folders in dir.
func (l *lab) caddyCommand(dir, file string) []string {
	return []string{"env", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir, l.caddy, "run", "--adapter", "caddyfile", "--config", file}
}

// startOAuth2ProxyInFront starts oauth2-proxy as the proxy itself, with TLS.
func (l *lab) startOAuth2ProxyInFront(ctx context.Context, n int) (*server, error) {
	gate, err := l.runOAuth2Proxy(ctx, n, "--https-address", "--tls-cert-file="+l.certificate, "--tls-key-file="+l.key, "--tls-min-version=TLS1.3",
		"--upstream=http://"+l.upstreams[n]+"/", "--api-route=^/")
	if err != nil {
		return nil, err
	}
	gate.folder = "session"
	gate.check = func(ctx context.Context) error {
		return l.guarded(ctx, "https://"+gate.address+"/session"+whoamiSuffix, "alice", gate.header)
	}
	if err := gate.check(ctx); err != nil {
		gate.stop()
		return nil, errors.Join(errors.New("oauth2-proxy in front"), err)
	}
	return gate, nil
}
