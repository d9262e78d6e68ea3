package deploy

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"authgate/e2e/world"
	"authgate/internal/test/must"
)

const workloadsPage = "docs/how-to/workloads.md"

// TestPodOfThePage decodes the objects of the page for pods strictly. The job runs as the account whose name the
// configuration has, its script is mounted where it is started, and its token is for the gateway and mounted
// where the script reads it. TestDocsPod of e2e/examples runs the script.
func TestPodOfThePage(t *testing.T) {
	var account *corev1.ServiceAccount
	var script *corev1.ConfigMap
	var job *batchv1.Job
	for document := range strings.SplitSeq(world.DocumentedFile(t, workloadsPage, "pod.yml"), "---\n") {
		object, _, err := strict(t).Decode([]byte(document), nil, nil)
		must.Do(t, err)
		switch object := object.(type) {
		case *corev1.ServiceAccount:
			account = object
		case *corev1.ConfigMap:
			script = object
		case *batchv1.Job:
			job = object
		}
	}
	pod := job.Spec.Template.Spec
	same(t, "the account of the job", job.Namespace+":"+pod.ServiceAccountName, account.Namespace+":"+account.Name)
	configuration, text := podConfiguration(t), script.Data["call.sh"]
	subject := "system:serviceaccount:" + account.Namespace + ":" + account.Name
	if !strings.Contains(configuration, subject) {
		t.Errorf("the configuration does not have %s:\n%s", subject, configuration)
	}
	at := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		at[mount.Name] = mount.MountPath
	}
	same(t, "the mounts", len(at), len(pod.Volumes))
	for _, volume := range pod.Volumes {
		switch {
		case volume.ConfigMap != nil:
			same(t, "the script", volume.ConfigMap.Name, script.Name)
			same(t, "the command", pod.Containers[0].Command, []string{"sh", at[volume.Name] + "/call.sh"})
		default:
			token := volume.Projected.Sources[0].ServiceAccountToken
			if !strings.Contains(text, "assertion@"+at[volume.Name]+"/"+token.Path+" ") ||
				!strings.Contains(text, "gateway="+token.Audience+" ") {
				t.Errorf("the script reads another token, or calls another gateway than %s:\n%s", token.Audience, text)
			}
		}
	}
}

// podConfiguration returns the client of the page for a pod.
func podConfiguration(t *testing.T) string {
	t.Helper()
	for _, b := range world.ReadDocument(t, workloadsPage).Blocks {
		if b.Info == "yaml fragment" && strings.Contains(b.Text(), "kubernetes.default.svc") {
			return string(must.Get(yaml.Marshal(world.DecodeYAML(t, b.Text())["oauth"]))(t))
		}
	}
	t.Fatalf("%s shows no configuration for a pod", workloadsPage)
	return ""
}
