package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"authgate/internal/test/must"
)

const (
	forwardAuthFolder = "/kubernetes-forward-auth"
	examplePrefix     = "/.authgate/"
	exampleVerify     = "http://authgate.default.svc.cluster.local:8080" + examplePrefix + "verify"
)

// identityNames are the headers of an identity, as identity_headers names them by default.
var identityNames = []string{"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email", "X-Auth-Roles",
	"X-Auth-Mechanism", "X-Auth-Provider", "X-Auth-Actor"}

// kustomized builds a folder of the examples as `kubectl apply -k` does, after the edits of
// its kustomization: pairs of what is there and what is written instead.
func kustomized(t *testing.T, folder string, edits ...string) *manifests {
	t.Helper()
	root := t.TempDir()
	must.Do(t, os.CopyFS(root, os.DirFS(shipped)))
	name := filepath.Join(root, folder, "kustomization.yaml")
	text := read(t, name)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("%s has no %q", folder, edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	build := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
	built, err := build.Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	all := &manifests{t: t, workloads: map[string]*workload{}}
	all.read(folder, string(must.Get(built.AsYaml())(t)))
	return all
}

// TestKubernetesKustomization checks that a kustomization has every object of the folder
// but the Secret, and that it changes nothing but the image.
func TestKubernetesKustomization(t *testing.T) {
	plain := kubernetes(t)
	const image = "registry.example.com/gates/authgate:2"
	built := kustomized(t, "/kubernetes",
		"newName: registry.example.org/authgate", "newName: registry.example.com/gates/authgate",
		`newTag: "1.0"`, `newTag: "2"`, "# components: [podmonitor]", "components: [podmonitor]")
	same(t, "the image", built.workloads["authgate"].container().Image, image)
	built.workloads["authgate"].container().Image = plain.workloads["authgate"].container().Image
	same(t, "the pod", built.workloads["authgate"].pod, plain.workloads["authgate"].pod)
	secrets := len(objectsOf[*corev1.Secret](plain))
	if want := len(plain.objects) - secrets + 1; len(built.objects) != want || len(objectsOf[*corev1.Secret](built)) > 0 {
		t.Errorf("the kustomization has %d objects, expected %d and no Secret", len(built.objects), want)
	}
	monitor := object[*monitoringv1.PodMonitor](built, "authgate").Spec
	same(t, "the pods that the PodMonitor selects", &monitor.Selector, selectorOf("authgate"))
	for _, endpoint := range monitor.PodMetricsEndpoints {
		if port := *endpoint.Port; built.workloads["authgate"].port(port) == 0 || endpoint.Path != "/metrics" {
			t.Errorf("the PodMonitor asks for %s at the port %s", endpoint.Path, port)
		}
	}
}

// controllers are the files for each ingress controller, the namespace that people run it in,
// and what its objects say: which URL is asked, which headers of the answer the application
// gets, at which hosts and paths the gateway itself is, and where the application is.
var controllers = map[string]func(t *testing.T, all *manifests) said{
	"traefik.yaml": traefikSays, "ingress-nginx.yaml": ingressNginxSays, "envoy-gateway.yaml": envoyGatewaySays,
	"gateway-api.yaml": gatewayAPISays,
}

type said struct {
	asked   string
	headers []string
	own     []string // hosts and paths of the gateway
	service map[string]int32
}

// TestKubernetesForwardAuth compares the objects for each ingress controller with the
// gateways and their configuration.
func TestKubernetesForwardAuth(t *testing.T) {
	for file, says := range controllers {
		t.Run(file, func(t *testing.T) {
			all := kustomized(t, forwardAuthFolder, "traefik.yaml", file)
			all.read("the Secret", read(t, shipped+"/kubernetes/secret.yaml.example"))
			replacePlaceholders(all)
			m := all.inside(all.workloads["authgate"])
			cfg := m.configuration("/etc/authgate/config.yaml")
			checkShared(t, cfg)
			same(t, "tls.mode", string(cfg.TLS.Mode), "off")
			same(t, "the prefix", cfg.Endpoints.Prefix, examplePrefix)
			checkForwardPorts(t, all, cfg.Listen.HTTP)

			got := says(t, all)
			same(t, "where the controller asks", got.asked, exampleVerify)
			same(t, "the headers of the answer that the application gets", got.headers, identityNames)
			slices.Sort(got.own)
			app, _, _ := strings.Cut(cfg.Routes[0].Match, "/")
			own, home := strings.Join(got.own, " "), cfg.PublicURL.Host+"/"
			if !strings.Contains(own, app+examplePrefix) || !strings.Contains(own, home) {
				t.Errorf("the gateway is at %q; people need it at %s and %s", own, home, app)
			}
			same(t, "the Services", got.service, map[string]int32{"app": 3000, "authgate": 8080})
		})
	}
}

// replacePlaceholders gives the Secret of the example secrets.
func replacePlaceholders(all *manifests) {
	secrets := object[*corev1.Secret](all, "authgate").StringData
	for name, value := range secrets {
		replaced := strings.Repeat("s", 64)
		if strings.Contains(value, "password_hash") {
			replaced = hash
		}
		secrets[name] = strings.ReplaceAll(value, placeholder, replaced)
	}
}

// checkForwardPorts checks the ports of the gateways, and that the controller alone, beside
// Prometheus, reaches them and the application.
func checkForwardPorts(t *testing.T, all *manifests, listen string) {
	t.Helper()
	w, service := all.workloads["authgate"], object[*corev1.Service](all, "authgate").Spec
	if w.port("https") != 0 || listen != ":8080" || w.port("http") != 8080 {
		t.Errorf("the gateway listens at %s, its pod at %+v", listen, w.container().Ports)
	}
	if len(service.Ports) != 1 || service.Ports[0].Port != 8080 || service.Ports[0].TargetPort.StrVal != "http" ||
		service.Type != corev1.ServiceTypeClusterIP || service.ExternalTrafficPolicy != "" {
		t.Errorf("the Service is %+v", service)
	}
	const of = "from <none> of namespaces kubernetes.io/metadata.name="
	for name, want := range map[string][]string{
		"authgate": {of + "traefik at 8080", of + "monitoring at 9090"}, "app": {of + "traefik at 3000"},
	} {
		var got []string
		for _, rule := range object[*networkingv1.NetworkPolicy](all, name).Spec.Ingress {
			got = append(got, all.flows("from", rule.From, "authgate", rule.Ports)...)
		}
		same(t, "who reaches "+name, got, want)
	}
	if replicas := *object[*appsv1.Deployment](all, "authgate").Spec.Replicas; replicas < 2 {
		t.Errorf("there are %d gateways", replicas)
	}
}

// as reads the part spec of an object that this test has no types for. Unknown fields are
// errors.
func as[T any](t *testing.T, all *manifests, kind, name string) (spec T) {
	t.Helper()
	raw, found := all.custom[kind+" "+name]
	if !found {
		t.Fatalf("there is no %s %s in %v", kind, name, slices.Sorted(maps.Keys(all.custom)))
	}
	var whole struct {
		Spec T `json:"spec"`
	}
	var head struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       any            `json:"spec"`
	}
	must.Do(t, yaml.UnmarshalStrict([]byte(raw), &head))
	only := must.Get(yaml.Marshal(map[string]any{"spec": head.Spec}))(t)
	if err := yaml.UnmarshalStrict(only, &whole); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return whole.Spec
}

// The types of Traefik 3.7.13, as far as the example has fields of them.
type (
	traefikService struct {
		Name string `json:"name"`
		Port int32  `json:"port"`
	}
	traefikMiddleware struct {
		ForwardAuth struct {
			Address                  string   `json:"address"`
			TrustForwardHeader       bool     `json:"trustForwardHeader"`
			AuthResponseHeaders      []string `json:"authResponseHeaders"`
			AddAuthCookiesToResponse []string `json:"addAuthCookiesToResponse"`
		} `json:"forwardAuth"`
	}
	traefikRoute struct {
		EntryPoints []string `json:"entryPoints"`
		Routes      []struct {
			Match       string                  `json:"match"`
			Kind        string                  `json:"kind"`
			Priority    int                     `json:"priority"`
			Middlewares []struct{ Name string } `json:"middlewares"`
			Services    []traefikService        `json:"services"`
		} `json:"routes"`
		TLS struct{ SecretName string } `json:"tls"`
	}
)

func traefikSays(t *testing.T, all *manifests) said {
	t.Helper()
	ask := as[traefikMiddleware](t, all, "Middleware", "authgate").ForwardAuth
	app := as[traefikRoute](t, all, "IngressRoute", "app").Routes[0]
	gate := as[traefikRoute](t, all, "IngressRoute", "authgate").Routes[0]
	if ask.TrustForwardHeader || len(app.Middlewares) != 1 || app.Middlewares[0].Name != "authgate" ||
		len(gate.Middlewares) > 0 || gate.Priority == 0 ||
		!strings.HasSuffix(gate.Match, "&& !Path(`"+examplePrefix+"verify`)") {
		t.Errorf("the application is not asked about, or the gateway is: %+v, %+v", app, gate)
	}
	same(t, "the cookies of a 200", ask.AddAuthCookiesToResponse, []string{"session_id", "session"})
	s := said{asked: ask.Address, headers: ask.AuthResponseHeaders, service: map[string]int32{}}
	for _, r := range []traefikService{app.Services[0], gate.Services[0]} {
		s.service[r.Name] = r.Port
	}
	places := regexp.MustCompile("Host\\(`([^`]+)`\\)(?: && PathPrefix\\(`([^`]+)`\\))?")
	for _, found := range places.FindAllStringSubmatch(gate.Match, -1) {
		s.own = append(s.own, found[1]+max(found[2], "/"))
	}
	return s
}

func ingressNginxSays(t *testing.T, all *manifests) said {
	t.Helper()
	const annotation = "nginx.ingress.kubernetes.io/"
	app := object[*networkingv1.Ingress](all, "app")
	// $host: a whole URL in the first line of a request leads to the host of that URL. Empty values
	// remove what the client says.
	// Without the namespace, ingress-nginx finds no ConfigMap, and answers every request with 503.
	namespace, name, _ := strings.Cut(app.Annotations[annotation+"auth-proxy-set-headers"], "/")
	if !strings.HasPrefix(exampleVerify, "http://authgate."+namespace+".svc.") {
		t.Errorf("the ConfigMap of the question is in the namespace %q, the gateway is at %s", namespace, exampleVerify)
	}
	question := object[*corev1.ConfigMap](all, name)
	same(t, "the headers of the question", question.Data,
		map[string]string{"X-Forwarded-Host": "$host", "X-Forwarded-Method": "", "X-Forwarded-Uri": ""})
	same(t, "the cookies of refusals", app.Annotations[annotation+"auth-always-set-cookie"], "true")
	same(t, "where people sign in",
		app.Annotations[annotation+"auth-signin"]+"?"+app.Annotations[annotation+"auth-signin-redirect-param"],
		"https://$host"+examplePrefix+"signin?return_to")
	s := said{asked: app.Annotations[annotation+"auth-url"], service: map[string]int32{},
		headers: strings.Split(app.Annotations[annotation+"auth-response-headers"], ",")}
	for _, name := range []string{"app", "authgate", "authgate-verify"} {
		ingress := object[*networkingv1.Ingress](all, name)
		for _, rule := range ingress.Spec.Rules {
			for _, p := range rule.HTTP.Paths {
				s.service[p.Backend.Service.Name] = p.Backend.Service.Port.Number
				if p.Backend.Service.Name == "authgate" && name == "authgate" {
					s.own = append(s.own, rule.Host+p.Path)
				}
				closed := ingress.Annotations[annotation+"denylist-source-range"] == "0.0.0.0/0,::/0"
				if verify := p.Path == examplePrefix+"verify"; verify != closed || verify && string(*p.PathType) != "Exact" {
					t.Errorf("%s: %s is closed: %t", name, p.Path, closed)
				}
			}
		}
	}
	return s
}
