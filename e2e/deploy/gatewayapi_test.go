package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"authgate/internal/test/must"
)

// experimentalRoutes returns the schema of HTTPRoute in the experimental channel of the Gateway API.
func experimentalRoutes(t *testing.T) *jsonschema.Schema {
	t.Helper()
	folder := must.Get(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output())(t)
	file := filepath.Join(strings.TrimSpace(string(folder)),
		"config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml")
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile(file))(t), &definition))
	compiler := jsonschema.NewCompiler()
	for _, version := range definition.Spec.Versions {
		if version.Name == "v1" {
			must.Do(t, compiler.AddResource("httproute", version.Schema.OpenAPIV3Schema))
		}
	}
	return must.Get(compiler.Compile("httproute"))(t)
}

// TestGatewayAPISchema checks the example for the Gateway API against the schema of its
// experimental channel, which finds mistakes. TestKubernetesForwardAuth decodes the objects
// strictly, so that no field is unknown.
func TestGatewayAPISchema(t *testing.T) {
	schema := experimentalRoutes(t)
	text := read(t, shipped+forwardAuthFolder+"/gateway-api.yaml")
	judge := func(document string) error {
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(must.Get(yaml.YAMLToJSON([]byte(document)))(t)))
		must.Do(t, err)
		return schema.Validate(parsed)
	}
	documents := strings.Split(text, "\n---\n")
	if len(documents) != 2 {
		t.Fatalf("there are %d objects", len(documents))
	}
	for _, document := range documents {
		if err := judge(document); err != nil {
			t.Error(err)
		}
	}
	for right, wrong := range map[string]string{
		"type: ExternalAuth": "type: ExtAuth", "protocol: HTTP": "protocol: HTTPS", "/.authgate/verify": "/.authgate/ver ify",
		"{name: authgate, port: 8080}": "{port: 8080}", "[app.example.org]": "[App]",
	} {
		if mistake := strings.Replace(documents[0], right, wrong, 1); mistake == documents[0] || judge(mistake) == nil {
			t.Errorf("the mistake %q is not found", wrong)
		}
	}
}

// gatewayAPISays reads the HTTPRoutes of the example.
func gatewayAPISays(t *testing.T, all *manifests) said {
	t.Helper()
	s := said{service: map[string]int32{}}
	for _, name := range []string{"app", "authgate"} {
		route := object[*gatewayv1.HTTPRoute](all, name).Spec
		same(t, "the Gateway", string(route.ParentRefs[0].Name), "public")
		same(t, "the listener", string(*route.ParentRefs[0].SectionName), "https") // never in the clear
		for _, rule := range route.Rules {
			for _, backend := range rule.BackendRefs {
				s.service[string(backend.Name)] = int32(*backend.Port)
			}
			switch filter := rule.Filters[0]; {
			case len(rule.Filters) != 1:
				t.Errorf("a rule has the filters %v", rule.Filters)
			case name == "app":
				same(t, "the filter of the application", filter.Type, gatewayv1.HTTPRouteFilterExternalAuth)
				s.ask(t, filter.ExternalAuth)
			case filter.Type == gatewayv1.HTTPRouteFilterRequestRedirect:
				same(t, "the path that clients must not ask", *rule.Matches[0].Path.Value, examplePrefix+"verify")
				same(t, "where they are led", *filter.RequestRedirect.Path.ReplaceFullPath, examplePrefix+"account")
			default:
				same(t, "what clients must not say", filter.RequestHeaderModifier.Remove, []string{"Forwarded", "X-Forwarded-Host",
					"X-Forwarded-Method", "X-Forwarded-Uri", "X-Original-Method", "X-Original-URL"})
				for _, host := range route.Hostnames {
					s.own = append(s.own, string(host)+*rule.Matches[0].Path.Value)
				}
			}
		}
	}
	return s
}

// ask records what a filter asks.
func (s *said) ask(t *testing.T, filter *gatewayv1.HTTPExternalAuthFilter) {
	t.Helper()
	same(t, "the protocol", filter.ExternalAuthProtocol, gatewayv1.HTTPRouteExternalAuthHTTPProtocol)
	same(t, "who is asked", string(filter.BackendRef.Name), "authgate")
	same(t, "the port", int(*filter.BackendRef.Port), 8080)
	s.asked = strings.Replace(exampleVerify, examplePrefix+"verify", filter.HTTPAuthConfig.Path, 1)
	s.headers = filter.HTTPAuthConfig.AllowedResponseHeaders
	for _, name := range []string{"Cookie", "Origin", "X-Forwarded-Proto", "X-Forwarded-For"} {
		if !slices.Contains(filter.HTTPAuthConfig.AllowedRequestHeaders, name) {
			t.Errorf("the question does not have %s", name)
		}
	}
	if filter.ForwardBody != nil {
		t.Error("the question has the body, which the gateway does not read")
	}
}
