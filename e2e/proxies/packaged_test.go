//go:build interop

package proxies

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// packagedProxies are the proxies that Debian does not have and a registry does.
var packagedProxies = map[string]forwardProxy{
	"traefik-kubernetes": {document: "README.md", command: traefikKubernetes},
	"envoy-gateway":      {document: "README.md", command: envoyGateway},
	"gateway-api":        {document: "README.md", command: gatewayAPI, endpoints: externalAuth, exactNames: true},
	"traefik": {document: "traefik.md", command: func(
		t *testing.T, files map[string]string, dir, address string,
	) *exec.Cmd {
		t.Helper()
		site := filepath.Join(dir, "site.pem")
		world.WriteAll(t, dir, map[string]string{
			"dynamic.toml": files["dynamic.toml"] + "\n[[tls.certificates]]\n  certFile = '" + site + "'\n  keyFile = " +
				"'" + site + "'\n",
		})
		return traefik(t, dir, "dynamic.toml", address)
	}},
	"envoy": {document: "envoy.md", command: func(
		t *testing.T, files map[string]string, dir, address string,
	) *exec.Cmd {
		t.Helper()
		config := world.Substituted(t, envoyBootstrap, "SITE", filepath.Join(dir, "site.pem"), "ADDRESS",
			envoyAddress(t, address),
			"FILTERS", indented(files["filter.envoy"], 10), "ROUTE", indented(files["route.envoy"], 14))
		return envoy(t, files, dir, config)
	}},
}

// packagedProxy returns the path of a proxy that .ci/deps has installed.
func packagedProxy(t *testing.T, name string) string {
	t.Helper()
	return world.Path("e2e/interop/proxies/" + name)
}

// envoy runs Envoy with a configuration, in which it writes the addresses of GATE and APP.
func envoy(t *testing.T, files map[string]string, dir, config string) *exec.Cmd {
	t.Helper()
	for _, target := range []string{"GATE", "APP"} {
		config = strings.ReplaceAll(config, target, envoyAddress(t, files[target]))
	}
	world.WriteAll(t, dir, map[string]string{"envoy.yaml": config})
	cmd := exec.Command(packagedProxy(t, "envoy"), "-c", filepath.Join(dir, "envoy.yaml"), "--concurrency", "1",
		"--use-dynamic-base-id", "-l", "warning")
	cmd.Env = append(os.Environ(), "ENVOY_UID=0")
	return cmd
}

// envoyBootstrap is a configuration around the parts that docs/forward-auth/envoy.md shows.
const envoyBootstrap = `
static_resources:
  listeners:
  - address: {socket_address: ADDRESS}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates: [{certificate_chain: {filename: SITE}, private_key: {filename: SITE}}]
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: site
          use_remote_address: true
          upgrade_configs: [{upgrade_type: websocket}]
          common_http_protocol_options: {headers_with_underscores_action: REJECT_REQUEST}
FILTERS
          route_config:
            virtual_hosts:
            - name: gate
              domains: [auth.example.org]
              routes:
              - match: {prefix: /}
                route: {cluster: gate}
                typed_per_filter_config:
                  envoy.filters.http.ext_authz:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
                    disabled: true
            - name: app
              domains: [app.example.org]
              routes:
ROUTE
              - match: {prefix: /}
                route: {cluster: app}
  clusters:
  - {name: gate, type: STATIC, load_assignment: {cluster_name: gate, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: GATE}}}]}]}}
  - {name: app, type: STATIC, load_assignment: {cluster_name: app, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: APP}}}]}]}}
`

// envoyAddress is an address as Envoy writes it.
func envoyAddress(t *testing.T, address string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	world.NoError(t, err)
	return "{address: " + host + ", port_value: " + port + "}"
}

// indented indents the lines of a text.
func indented(text string, spaces int) string {
	indent := strings.Repeat(" ", spaces)
	return indent + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+indent)
}

// TestForwardAuthPackaged is TestForwardAuth with further proxies.
func TestForwardAuthPackaged(t *testing.T) {
	for name, proxy := range packagedProxies {
		t.Run(name, func(t *testing.T) { forwardThrough(t, proxy) })
	}
}

// TestHowToTraefik is TestHowToProxies with a proxy that Debian does not have.
func TestHowToTraefik(t *testing.T) { behindProxy(t, packagedProxies["traefik"]) }
