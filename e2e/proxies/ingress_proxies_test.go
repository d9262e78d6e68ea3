//go:build interop

package proxies

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/goccy/go-yaml"
)

// traefik runs Traefik with a file of routers.
func traefik(t *testing.T, dir, file, address string) *exec.Cmd {
	t.Helper()
	world.WriteAll(t, dir, map[string]string{
		"traefik.toml": "[entryPoints.websecure]\n  address = '" + address + "'\n[providers.file]\n  filename = " +
			"'" + filepath.Join(dir, file) +
			"'\n[global]\n  checkNewVersion = false\n  sendAnonymousUsage = false\n",
	})
	return exec.Command(packagedProxy(t, "traefik"), "--configFile="+filepath.Join(dir, "traefik.toml"))
}

// traefikKubernetes runs Traefik with the Middleware and the IngressRoutes, whose keys are
// those of its files.
func traefikKubernetes(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
	t.Helper()
	objects := ingressObjects(t, "traefik.yaml")
	ask := spec[struct {
		ForwardAuth map[string]any `yaml:"forwardAuth"`
	}](t, objects["Middleware authgate"]).ForwardAuth
	ask["address"] = asked(t, ask["address"].(string), files["GATE"])
	routers, services := map[string]any{}, map[string]any{}
	for name, server := range map[string]string{"app": files["APP"], "authgate": files["GATE"]} {
		r := spec[struct {
			EntryPoints []string `yaml:"entryPoints"`
			Routes      []struct {
				Match       string
				Priority    int
				Middlewares []struct{ Name string }
				Services    []struct{ Name string }
			}
		}](t, objects["IngressRoute "+name])
		middlewares := []string{}
		for _, m := range r.Routes[0].Middlewares {
			middlewares = append(middlewares, m.Name)
		}
		routers[name] = map[string]any{"entryPoints": r.EntryPoints, "rule": r.Routes[0].Match,
			"priority": r.Routes[0].Priority, "middlewares": middlewares, "service": r.Routes[0].Services[0].Name,
			"tls": map[string]any{}}
		servers := []any{map[string]any{"url": "http://" + server}}
		services[name] = map[string]any{"loadBalancer": map[string]any{"servers": servers}}
	}
	site := filepath.Join(dir, "site.pem")
	content := world.Must(yaml.Marshal(map[string]any{
		"http": map[string]any{"routers": routers, "services": services,
			"middlewares": map[string]any{"authgate": map[string]any{"forwardAuth": ask}}},
		"tls": map[string]any{"certificates": []any{map[string]any{"certFile": site, "keyFile": site}}},
	}))(t)
	world.WriteAll(t, dir, map[string]string{"dynamic.yaml": string(content)})
	return traefik(t, dir, "dynamic.yaml", address)
}

// envoyGateway runs Envoy with what Envoy Gateway 1.9.1 makes of the policies, by its source.
func envoyGateway(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
	t.Helper()
	objects := ingressObjects(t, "envoy-gateway.yaml")
	ask := spec[struct {
		ExtAuth struct {
			HeadersToExtAuth []string `yaml:"headersToExtAuth"`
			HTTP             struct {
				PathOverride     string   `yaml:"pathOverride"`
				HeadersToBackend []string `yaml:"headersToBackend"`
			}
		} `yaml:"extAuth"`
	}](t, objects["SecurityPolicy app"]).ExtAuth
	clients := spec[struct {
		Headers struct {
			EarlyRequestHeaders struct {
				Set           []struct{ Name, Value string }
				RemoveOnMatch []struct{ Type, Value string } `yaml:"removeOnMatch"`
			} `yaml:"earlyRequestHeaders"`
		}
	}](t, objects["ClientTrafficPolicy authgate"]).Headers.EarlyRequestHeaders
	mutations := ""
	for _, set := range clients.Set {
		mutations += fmt.Sprintf("- {append: {header: {key: %q, value: %q}, append_action: "+
			"OVERWRITE_IF_EXISTS_OR_ADD}}\n", set.Name, set.Value)
	}
	for _, m := range clients.RemoveOnMatch {
		mutations += fmt.Sprintf("- {remove_on_match: {key_matcher: {safe_regex: {regex: %q}}}}\n", m.Value)
	}
	config := world.Substituted(t, envoyBootstrap, "SITE", filepath.Join(dir, "site.pem"),
		"ADDRESS", envoyAddress(t, address),
		"          upgrade_configs:", indented(`normalize_path: true
merge_slashes: false
path_with_escaped_slashes_action: KEEP_UNCHANGED
early_header_mutation_extensions:
- name: envoy.http.early_header_mutation.header_mutation
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
    mutations:
`+indented(mutations, 4), 10)+"\n          upgrade_configs:",
		"FILTERS", askingFilters("path_override: "+ask.HTTP.PathOverride, ask.HTTP.HeadersToBackend, ask.HeadersToExtAuth),
		"ROUTE", indented(`- match: {path: /.authgate/verify}
  direct_response: {status: 404}
  typed_per_filter_config: &open
    envoy.filters.http.ext_authz:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
      disabled: true
- match: {path_separated_prefix: /.authgate}
  route: {cluster: gate}
  typed_per_filter_config: *open
`, 14))
	return envoy(t, files, dir, config)
}

// askingFilters are the filters of a listener that asks the gate, at a place: with the headers allowed, of whose
// answer the application gets those of result.
func askingFilters(place string, result, allowed []string) string {
	return indented(`http_filters:
- name: envoy.filters.http.ext_authz
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
    http_service:
      server_uri: {uri: "http://authgate", cluster: gate, timeout: 10s}
      `+place+`
      authorization_response: {allowed_upstream_headers: {patterns: [`+exactly(result)+`]}}
    allowed_headers: {patterns: [`+exactly(allowed)+`]}
- name: envoy.filters.http.router
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
`, 10)
}

// exactly is matchers of Envoy for some names of headers.
func exactly(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("{exact: %q, ignore_case: true}", name))
	}
	return strings.Join(all, ", ")
}

// gatewayAPI runs Envoy with the filter that the HTTPRoutes of the Gateway API ask for.
func gatewayAPI(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
	t.Helper()
	ask := externalAuthAsked(t)
	own := spec[struct {
		Rules []struct {
			Filters []struct {
				RequestHeaderModifier struct{ Remove []string } `yaml:"requestHeaderModifier"`
			}
		}
	}](t, ingressObjects(t, "gateway-api.yaml")["HTTPRoute authgate"]).Rules[1].Filters[0].RequestHeaderModifier
	removed := "request_headers_to_remove: [" + strings.Join(own.Remove, ", ") + "]"
	config := world.Substituted(t, envoyBootstrap, "SITE", filepath.Join(dir, "site.pem"),
		"ADDRESS", envoyAddress(t, address),
		"domains: [auth.example.org]", "domains: [auth.example.org]\n"+indented(removed, 14),
		"FILTERS", askingFilters("path_prefix: "+ask.Path, ask.AllowedResponseHeaders, ask.AllowedHeaders),
		"ROUTE", indented(`- match: {path_separated_prefix: /.authgate/verify}
  redirect: {path_redirect: /.authgate/account, response_code: FOUND}
  typed_per_filter_config: &open
    envoy.filters.http.ext_authz:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
      disabled: true
- match: {path_separated_prefix: /.authgate}
  route: {cluster: gate}
  `+removed+`
  typed_per_filter_config: *open
`, 14))
	return envoy(t, files, dir, config)
}
