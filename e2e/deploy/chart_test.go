package deploy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"

	"authgate/e2e/world"
	"authgate/internal/test/must"
)

const chartFolder = "packaging/chart"

// chartLabels are the labels that objects of a chart have and manifests do not.
var chartLabels = []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}

// rendered returns the output of `helm template` with some values, by file. The schema is checked first.
func rendered(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	loaded := must.Get(loader.LoadDir(world.Path(chartFolder)))(t)
	given := map[string]any{}
	must.Do(t, yaml.Unmarshal([]byte(values), &given))
	release := chartutil.ReleaseOptions{Name: "gate", Namespace: "web", IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// objects returns the objects of a rendered chart, by kind and name, without the labels of charts.
func objects(t *testing.T, values string) map[string]map[string]any {
	t.Helper()
	files, err := rendered(t, values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	found := map[string]map[string]any{}
	for name, text := range files {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		addObjects(t, found, text)
	}
	for name, object := range found {
		labels := object["metadata"].(map[string]any)["labels"].(map[string]any)
		for _, label := range chartLabels {
			if labels[label] == nil {
				t.Errorf("%s has no label %s", name, label)
			}
			delete(labels, label)
		}
	}
	return found
}

// addObjects adds the objects of a file, each of which the API server takes.
func addObjects(t *testing.T, found map[string]map[string]any, text string) {
	t.Helper()
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		document += "\n" // of a text in its last line
		object := map[string]any{}
		must.Do(t, yaml.Unmarshal([]byte(document), &object))
		if len(object) == 0 {
			continue
		}
		if _, _, err := strict(t).Decode([]byte(document), nil, nil); err != nil {
			t.Errorf("%v\n%s", err, document)
		}
		found[fmt.Sprint(object["kind"], " ", object["metadata"].(map[string]any)["name"])] = object
	}
}

// manifestObjects returns the objects that kubectl applies.
func manifestObjects(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, path := range must.Get(filepath.Glob(shipped + "/kubernetes/*.yaml"))(t) {
		if filepath.Base(path) != "kustomization.yaml" {
			addObjects(t, found, read(t, path))
		}
	}
	return found
}

// Without values, the chart is the manifests.
func TestChartIsTheManifests(t *testing.T) {
	t.Parallel()
	want := manifestObjects(t)
	container := deepValue(want["Deployment authgate"], "spec.template.spec.containers").([]any)[0].(map[string]any)
	container["imagePullPolicy"] = "IfNotPresent" // as Kubernetes does for a tag that is not latest
	if diff := cmp.Diff(want, objects(t, "{}")); diff != "" {
		t.Error(diff)
	}
}

// deepValue returns the value at a dotted path.
func deepValue(object map[string]any, path string) any {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		object, _ = object[name].(map[string]any)
	}
	return object[names[len(names)-1]]
}

// Each value changes what it is for, and every object is one that the API server takes.
func TestChartValues(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for values, want := range map[string]map[string]string{
		"replicas: 5":         {"Deployment authgate": "replicas: 5"},
		"image: {tag: 2.0.1}": {"Deployment authgate": "registry.example.org/authgate:2.0.1"},
		"image: {digest: '" + digest + "', repository: r.example/a, pullPolicy: Always}": {
			"Deployment authgate": "r.example/a@" + digest},
		"imagePullSecrets: [{name: pull}]": {"Deployment authgate": "imagePullSecrets:"},
		"secret: other": {
			"Deployment authgate": "secretName: other", "StatefulSet valkey": "secretName: other"},
		"resources: {limits: {cpu: '8'}}":                    {"Deployment authgate": "cpu: \"8\""},
		"podAnnotations: {a: b}":                             {"Deployment authgate": "annotations:"},
		"nodeSelector: {disk: ssd}":                          {"Deployment authgate": "disk: ssd"},
		"tolerations: [{key: web, operator: Exists}]":        {"Deployment authgate": "operator: Exists"},
		"affinity: {podAntiAffinity: {}}":                    {"Deployment authgate": "podAntiAffinity"},
		"priorityClassName: high":                            {"Deployment authgate": "priorityClassName: high"},
		"serviceAccountToken: true":                          {"Deployment authgate": "/run/service-account"},
		"service: {type: ClusterIP}":                         {"Service authgate": "type: ClusterIP"},
		"service: {loadBalancerClass: x.example/lb}":         {"Service authgate": "x.example/lb"},
		"service: {annotations: {a: b}}":                     {"Service authgate": "annotations:"},
		"service: {externalTrafficPolicy: Cluster}":          {"Service authgate": "externalTrafficPolicy: Cluster"},
		"podDisruptionBudget: false":                         {"PodDisruptionBudget authgate": ""},
		"networkPolicy: {enabled: false}":                    {"NetworkPolicy authgate": "", "NetworkPolicy app": ""},
		"networkPolicy: {egress: [{ports: [{port: 6443}]}]}": {"NetworkPolicy authgate": "port: 6443"},
		"networkPolicy: {monitoringNamespace: watch}":        {"NetworkPolicy authgate": "metadata.name: watch"},
		"networkPolicy: {upstreams: [{name: wiki, port: 8000}]}": {
			"NetworkPolicy app": "", "NetworkPolicy wiki": "8000", "NetworkPolicy authgate": "8000"},
		"valkey: {enabled: false}": {
			"StatefulSet valkey": "", "Service valkey": "", "NetworkPolicy valkey": ""},
		"valkey: {storage: 20Gi, storageClassName: fast}": {"StatefulSet valkey": "storageClassName: fast"},
		"valkey: {image: r.example/valkey}":               {"StatefulSet valkey": "r.example/valkey"},
		"podMonitor: true":                                {"PodMonitor authgate": "/metrics"},
		"config: {public_url: 'https://a.example'}":       {"ConfigMap authgate": "public_url: https://a.example"},
	} {
		found := objects(t, values)
		for name, part := range want {
			object, ok := found[name]
			if text := string(must.Get(yaml.Marshal(object))(t)); ok != (part != "") || !strings.Contains(text, part) {
				t.Errorf("%s: expected %q in %s:\n%s", values, part, name, text)
			}
		}
	}
}

// A key that the chart does not know, or a value of another kind, is an error that names it.
func TestChartUnknownValues(t *testing.T) {
	t.Parallel()
	for values, named := range map[string]string{
		"replicsa: 2": "replicsa", "image: {tga: x}": "tga", "service: {port: 1}": "port",
		"valkey: {size: 1Gi}":                     "size",
		"networkPolicy: {upstreams: [{name: a}]}": "port", "replicas: two": "replicas",
		"service: {type: Balancer}": "type",
		"resources: {limit: {}}":    "limit", "secret: ''": "secret", "image: {digest: abc}": "digest",
		"networkPolicy: {upstreams: [{name: a, port: 80, host: x}]}": "host", "image: {tag: 1+2}": "tag",
		"networkPolicy: {upstreams: [{name: a, port: 80}, {name: a, port: 81}]}": "twice",
		"networkPolicy: {upstreams: [{name: valkey, port: 80}]}":                 "valkey",
	} {
		if _, err := rendered(t, values); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: got %v, want an error about %s", values, err, named)
		}
	}
}

// `helm lint` finds nothing, and the schema has each value and no other.
func TestChartLint(t *testing.T) {
	t.Parallel()
	for _, message := range lint.All(world.Path(chartFolder), nil, "web", true).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
	loaded := must.Get(loader.LoadDir(world.Path(chartFolder)))(t)
	schema := map[string]any{}
	must.Do(t, yaml.Unmarshal(loaded.Schema, &schema))
	wantKeys(t, "", loaded.Values, schema)
}

// wantKeys fails the test unless the properties of a schema are the keys of some values.
func wantKeys(t *testing.T, path string, values, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if len(values) == 0 || properties == nil {
		return
	}
	known := maps.Clone(properties)
	delete(known, "global") // Helm gives it
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(values))); diff != "" {
		t.Errorf("values.schema.json and values.yaml differ at %q: %s", path, diff)
	}
	for name, value := range values {
		if inner, ok := value.(map[string]any); ok {
			wantKeys(t, path+"."+name, inner, properties[name].(map[string]any))
		}
	}
}

// The gateway accepts a configuration that values give, as a text or as an object. That of the manifests is
// tested with them.
func TestChartConfiguration(t *testing.T) {
	t.Parallel()
	const own = `{public_url: "https://a.example", listen: {https: ":8443", http: ":8080"},
    upstreams: {app: {url: "http://app:3000"}}, routes: [{match: /, upstream: app, auth: [none]}]}`
	for _, values := range []string{"config: " + own, "config: |\n    " + own} {
		config := deepValue(objects(t, values)["ConfigMap authgate"], "data").(map[string]any)["config.yaml"].(string)
		path := filepath.Join(t.TempDir(), "config.yaml")
		must.Do(t, os.WriteFile(path, []byte(config), 0o600))
		out, err := exec.Command(world.Program("authgate"), "validate", "--config", path).CombinedOutput()
		if err != nil || !strings.Contains(config, "https://a.example") {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}
