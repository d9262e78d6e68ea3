package deploy

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifests are the objects of the example.
type manifests struct {
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
	services   map[string]*corev1.Service
	workloads  map[string]*workload
	policies   map[string]*networkingv1.NetworkPolicy
	budgets    map[string]*policyv1.PodDisruptionBudget
}

// workload is a Deployment or a StatefulSet.
type workload struct {
	name       string
	deployment *appsv1.Deployment // nil for a StatefulSet
	selector   *metav1.LabelSelector
	pod        corev1.PodTemplateSpec
	claims     []corev1.PersistentVolumeClaim
}

// container returns the one container of the pod.
func (w *workload) container() *corev1.Container { return &w.pod.Spec.Containers[0] }

// port returns the number of a named port, 0 if there is none.
func (w *workload) port(name string) int32 {
	for _, p := range w.container().Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// strict decodes as a server does for `kubectl apply --validate=strict`:
// unknown kinds, unknown and duplicate fields and values of another type are
// errors.
func strict(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

// kubernetes reads the example.
func kubernetes(t *testing.T) *manifests {
	t.Helper()
	files, err := filepath.Glob(shipped + "/kubernetes/*.yaml*")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no manifests (%v)", err)
	}
	all := &manifests{
		configMaps: map[string]*corev1.ConfigMap{}, secrets: map[string]*corev1.Secret{}, services: map[string]*corev1.Service{},
		workloads: map[string]*workload{}, policies: map[string]*networkingv1.NetworkPolicy{}, budgets: map[string]*policyv1.PodDisruptionBudget{},
	}
	for _, file := range files {
		documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(read(t, file))))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			object, _, err := strict(t).Decode(document, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			all.add(t, object)
		}
	}
	return all
}

// add stores an object. Kind and name are unique, and there is no namespace.
func (all *manifests) add(t *testing.T, object runtime.Object) {
	t.Helper()
	meta, ok := object.(metav1.Object)
	if !ok || meta.GetName() == "" || meta.GetNamespace() != "" {
		t.Fatalf("an object has no name, or a namespace: %v", object)
	}
	name := meta.GetName()
	if meta.GetLabels()["app.kubernetes.io/name"] != name {
		t.Errorf("%T %s has the labels %v", object, name, meta.GetLabels())
	}
	twice := false
	switch o := object.(type) {
	case *corev1.ConfigMap:
		twice = keep(all.configMaps, name, o)
	case *corev1.Secret:
		twice = keep(all.secrets, name, o)
	case *corev1.Service:
		twice = keep(all.services, name, o)
	case *networkingv1.NetworkPolicy:
		twice = keep(all.policies, name, o)
	case *policyv1.PodDisruptionBudget:
		twice = keep(all.budgets, name, o)
	case *appsv1.Deployment:
		twice = keep(all.workloads, name, &workload{name: name, deployment: o, selector: o.Spec.Selector, pod: o.Spec.Template})
	case *appsv1.StatefulSet:
		twice = keep(all.workloads, name, &workload{name: name, selector: o.Spec.Selector, pod: o.Spec.Template, claims: o.Spec.VolumeClaimTemplates})
		if o.Spec.ServiceName != name {
			t.Errorf("the StatefulSet %s is of the Service %s", name, o.Spec.ServiceName)
		}
	default:
		t.Fatalf("nothing checks a %T", object)
	}
	if twice {
		t.Errorf("there are two %T called %s", object, name)
	}
}

// keep stores an object by name and reports whether there was one.
func keep[T any](all map[string]T, name string, object T) bool {
	_, twice := all[name]
	all[name] = object
	return twice
}

// selected returns the workloads whose pods a selector selects.
func (all *manifests) selected(t *testing.T, selector *metav1.LabelSelector) []*workload {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	var found []*workload
	for _, name := range slices.Sorted(maps.Keys(all.workloads)) {
		if w := all.workloads[name]; s.Matches(labels.Set(w.pod.Labels)) {
			found = append(found, w)
		}
	}
	return found
}

// only returns the one workload that a selector selects.
func (all *manifests) only(t *testing.T, what string, selector *metav1.LabelSelector) *workload {
	t.Helper()
	found := all.selected(t, selector)
	if len(found) != 1 {
		t.Fatalf("%s selects %d workloads", what, len(found))
	}
	return found[0]
}

// volume puts the files of a pod's volume under path.
func (all *manifests) volume(m *machine, w *workload, name, path string) {
	m.t.Helper()
	if slices.ContainsFunc(w.claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
		m.dir(path)
		return
	}
	i := slices.IndexFunc(w.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		m.t.Errorf("%s mounts the volume %s, which is not there", w.name, name)
		return
	}
	switch v := w.pod.Spec.Volumes[i]; {
	case v.EmptyDir != nil:
		m.dir(path)
	case v.ConfigMap != nil && all.configMaps[v.ConfigMap.Name] != nil && v.ConfigMap.Items == nil:
		for key, content := range all.configMaps[v.ConfigMap.Name].Data {
			m.file(path+"/"+key, content)
		}
	case v.Secret != nil && all.secrets[v.Secret.SecretName] != nil:
		secret := all.secrets[v.Secret.SecretName].StringData
		for _, item := range v.Secret.Items {
			content, found := secret[item.Key]
			if !found {
				m.t.Errorf("%s needs %s, which the Secret does not have", w.name, item.Key)
			}
			m.file(path+"/"+item.Path, content)
		}
	default:
		m.t.Errorf("the volume %s of %s has no source: %+v", name, w.name, v)
	}
}

// TestKubernetesStrict checks that the decoder finds mistakes.
func TestKubernetesStrict(t *testing.T) {
	decoder := strict(t)
	for name, document := range map[string]string{
		"unknown kind":    "apiVersion: v1\nkind: Pot\n",
		"unknown field":   "apiVersion: v1\nkind: Service\nspec: {prots: []}\n",
		"another case":    "apiVersion: v1\nkind: Service\nspec: {Ports: []}\n",
		"duplicate field": "apiVersion: v1\nkind: Service\nspec: {ports: [], ports: []}\n",
		"another type":    "apiVersion: v1\nkind: Service\nspec: {ports: {}}\n",
	} {
		if _, _, err := decoder.Decode([]byte(document), nil, nil); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
