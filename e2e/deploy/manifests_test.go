package deploy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"authgate/internal/test/must"
)

// manifests are the objects of the example.
type manifests struct {
	t         *testing.T
	objects   []metav1.Object
	workloads map[string]*workload
	custom    map[string]string // by kind and name, of kinds that strict does not know
}

// workload is a Deployment or a StatefulSet.
type workload struct {
	name     string
	selector *metav1.LabelSelector
	pod      corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
}

// objectsOf returns the objects of a kind.
func objectsOf[T metav1.Object](all *manifests) (found []T) {
	for _, o := range all.objects {
		if object, ok := o.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// object returns the object of a kind and name.
func object[T metav1.Object](all *manifests, name string) T {
	all.t.Helper()
	found := slices.DeleteFunc(objectsOf[T](all), func(o T) bool { return o.GetName() != name })
	if len(found) != 1 {
		all.t.Fatalf("there are %d %T called %s", len(found), *new(T), name)
	}
	return found[0]
}

// selectorOf selects the pods of a workload.
func selectorOf(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}}
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
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme} {
		must.Do(t, add(scheme))
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
}

// TestKubernetesStrict checks that the decoder finds mistakes.
func TestKubernetesStrict(t *testing.T) {
	for name, document := range map[string]string{
		"unknown kind": "kind: Pot\n", "unknown field": "kind: Service\nspec: {prots: []}\n",
		"duplicate field": "kind: Service\nspec: {ports: [], ports: []}\n",
	} {
		if _, _, err := strict(t).Decode([]byte("apiVersion: v1\n"+document), nil, nil); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// kubernetes reads the example.
func kubernetes(t *testing.T) *manifests {
	t.Helper()
	files, err := filepath.Glob(shipped + "/kubernetes/*.yaml*")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no manifests (%v)", err)
	}
	all := &manifests{t: t, workloads: map[string]*workload{}}
	for _, file := range files {
		if filepath.Base(file) != "kustomization.yaml" {
			all.read(file, read(t, file))
		}
	}
	return all
}

// customKinds are kinds whose Go types would bring a whole ingress controller with them.
var customKinds = []string{"traefik.io/v1alpha1", "gateway.envoyproxy.io/v1alpha1"}

// read adds the objects of a file.
func (all *manifests) read(file, text string) {
	all.t.Helper()
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			all.t.Fatalf("%s: %v", file, err)
		}
		var head struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		must.Do(all.t, yaml.Unmarshal(document, &head))
		if slices.Contains(customKinds, head.APIVersion) {
			if all.custom == nil {
				all.custom = map[string]string{}
			}
			same(all.t, "the labels of "+head.Name, head.Labels, all.labelsOf(head.Name))
			all.custom[head.Kind+" "+head.Name] = string(document)
			continue
		}
		object, _, err := strict(all.t).Decode(document, nil, nil)
		if err != nil {
			all.t.Fatalf("%s: %v\n%s", file, err, document)
		}
		all.add(object)
	}
}

// labelsOf returns the labels of an object: those of the pods that it is for.
func (all *manifests) labelsOf(name string) map[string]string {
	if strings.HasPrefix(name, "authgate-") {
		name = "authgate"
	}
	return selectorOf(name).MatchLabels
}

// add stores an object. Kind and name are unique, and there is no namespace.
func (all *manifests) add(object runtime.Object) {
	all.t.Helper()
	o, ok := object.(metav1.Object)
	if !ok || o.GetName() == "" || o.GetNamespace() != "" {
		all.t.Fatalf("an object has no name, or a namespace: %v", object)
	}
	name := o.GetName()
	same(all.t, fmt.Sprintf("the labels of %T %s", o, name), o.GetLabels(), all.labelsOf(name))
	if slices.ContainsFunc(all.objects, func(other metav1.Object) bool {
		return fmt.Sprintf("%T %s", other, other.GetName()) == fmt.Sprintf("%T %s", o, name)
	}) {
		all.t.Errorf("there are two %T called %s", o, name)
	}
	all.objects = append(all.objects, o)
	switch o := o.(type) {
	case *appsv1.Deployment:
		all.workloads[name] = &workload{name: name, selector: o.Spec.Selector, pod: o.Spec.Template}
	case *appsv1.StatefulSet:
		all.workloads[name] = &workload{
			name: name, selector: o.Spec.Selector, pod: o.Spec.Template, claims: o.Spec.VolumeClaimTemplates,
		}
		same(all.t, "the Service of a StatefulSet", o.Spec.ServiceName, name)
	case *corev1.ConfigMap, *corev1.Secret, *corev1.Service, *networkingv1.NetworkPolicy, *policyv1.PodDisruptionBudget,
		*networkingv1.Ingress, *gatewayv1.HTTPRoute, *monitoringv1.PodMonitor:
	default:
		all.t.Fatalf("nothing checks a %T", o)
	}
}

// inside returns the files that the container of a workload has.
func (all *manifests) inside(w *workload) *machine {
	all.t.Helper()
	m := newMachine(all.t)
	mounted := map[string]bool{}
	for _, mount := range w.container().VolumeMounts {
		mounted[mount.Name] = true
		all.volume(m, w, mount.Name, mount.MountPath)
		if mount.ReadOnly == (mount.MountPath == "/data") || mount.SubPath != "" {
			all.t.Errorf("%s mounts %s in the wrong way: %+v", w.name, mount.MountPath, mount)
		}
	}
	for _, v := range w.pod.Spec.Volumes {
		if !mounted[v.Name] {
			all.t.Errorf("%s does not mount its volume %s", w.name, v.Name)
		}
	}
	return m
}

// volume puts the files of a pod's volume under path.
func (all *manifests) volume(m *machine, w *workload, name, path string) {
	all.t.Helper()
	volumes := slices.Clone(w.pod.Spec.Volumes)
	for _, claim := range w.claims {
		volumes = append(volumes, corev1.Volume{
			Name: claim.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		all.t.Fatalf("%s mounts the volume %s, which is not there", w.name, name)
	}
	switch v := volumes[i]; {
	case v.EmptyDir != nil:
		m.dir(path)
	case v.ConfigMap != nil && v.ConfigMap.Items == nil:
		for key, content := range object[*corev1.ConfigMap](all, v.ConfigMap.Name).Data {
			m.file(path+"/"+key, content)
		}
	case v.Secret != nil:
		for _, item := range v.Secret.Items {
			content, found := object[*corev1.Secret](all, v.Secret.SecretName).StringData[item.Key]
			if !found {
				all.t.Errorf("%s needs %s, which the Secret does not have", w.name, item.Key)
			}
			m.file(path+"/"+item.Path, content)
		}
	default:
		all.t.Errorf("the volume %s of %s has no source: %+v", name, w.name, v)
	}
}
