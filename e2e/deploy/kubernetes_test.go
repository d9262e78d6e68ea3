package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxmemory is the size at which Valkey refuses writes, before it is killed.
const maxmemory = 640 << 20

// inside returns the files that the container of a workload has.
func (all *manifests) inside(t *testing.T, w *workload) *machine {
	t.Helper()
	m := newMachine(t)
	for _, mount := range w.container().VolumeMounts {
		all.volume(m, w, mount.Name, mount.MountPath)
		if mount.ReadOnly == (mount.MountPath == "/data") || mount.SubPath != "" {
			t.Errorf("%s mounts %s in the wrong way: %+v", w.name, mount.MountPath, mount)
		}
	}
	for _, v := range w.pod.Spec.Volumes {
		if !slices.ContainsFunc(w.container().VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			t.Errorf("%s does not mount its volume %s", w.name, v.Name)
		}
	}
	return m
}

// TestKubernetesPods checks what all pods have in common: selectors, the restricted
// standard of Kubernetes, where secrets come from.
func TestKubernetesPods(t *testing.T) {
	all := kubernetes(t)
	for name, w := range all.workloads {
		if all.only(t, name, w.selector) != w {
			t.Errorf("%s selects other pods than its own", name)
		}
		pod := w.pod.Spec
		if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 {
			t.Fatalf("%s has more than one container", name)
		}
		for what, problem := range unrestricted(pod) {
			if problem {
				t.Errorf("%s: %s", name, what)
			}
		}
		if env := w.container(); len(env.Env) > 0 || len(env.EnvFrom) > 0 {
			t.Errorf("%s has an environment; all that it needs is in files", name)
		}
		all.inside(t, w)
	}
	for name, s := range all.services {
		w := all.only(t, "the Service "+name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		for _, port := range s.Spec.Ports {
			if w.port(port.TargetPort.StrVal) == 0 {
				t.Errorf("the Service %s leads to the port %s, which is not there", name, port.TargetPort.String())
			}
		}
	}
}

// unrestricted returns the rules for a pod, true for those that it breaks.
func unrestricted(pod corev1.PodSpec) map[string]bool {
	p, c := pod.SecurityContext, pod.Containers[0].SecurityContext
	if p == nil || c == nil || c.Capabilities == nil {
		return map[string]bool{"it has no securityContext": true}
	}
	yes := func(b *bool) bool { return b != nil && *b }
	no := func(b *bool) bool { return b != nil && !*b }
	return map[string]bool{
		"it may run as root":                  !yes(p.RunAsNonRoot) || p.RunAsUser == nil || *p.RunAsUser == 0 || c.RunAsUser != nil || c.RunAsNonRoot != nil,
		"it may get more privileges":          !no(c.AllowPrivilegeEscalation) || yes(c.Privileged),
		"it has capabilities":                 !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0,
		"it may do any system call":           p.SeccompProfile == nil || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || c.SeccompProfile != nil,
		"its files can be written":            !yes(c.ReadOnlyRootFilesystem),
		"it has a token for the API":          !no(pod.AutomountServiceAccountToken),
		"it shares something with its host":   pod.HostNetwork || pod.HostPID || pod.HostIPC,
		"its memory is not limited":           pod.Containers[0].Resources.Limits.Memory().IsZero(),
		"its files do not belong to its user": p.FSGroup == nil || p.RunAsGroup == nil || *p.FSGroup != *p.RunAsGroup,
	}
}

// TestKubernetesGateway compares the gateways with their configuration.
func TestKubernetesGateway(t *testing.T) {
	all := kubernetes(t)
	w := all.workloads["authgate"]
	m := all.inside(t, w)
	const path = "/etc/authgate/config.yaml"
	checkSecrets(t, read(t, m.root+path))
	for _, key := range []string{"token.secret", "store.encryption_key", "password_hash"} {
		m.refuses(path, key) // the placeholders
	}
	for name, value := range all.secrets["authgate"].StringData {
		replaced := strings.Repeat("s", 64)
		if strings.Contains(value, "password_hash") {
			replaced = hash
		}
		all.secrets["authgate"].StringData[name] = strings.ReplaceAll(value, placeholder, replaced)
	}
	m = all.inside(t, w)
	cfg := m.configuration(path)
	checkShared(t, cfg)
	if filepath.Dir(cfg.DataDir) != m.root+"/data" { // the group can write to the volume
		t.Errorf("data_dir %s cannot be written", cfg.DataDir)
	}

	args := w.container().Args
	if out, err := m.command(authgate, append([]string{"validate"}, args[1:]...)...).CombinedOutput(); args[0] != "serve" || err != nil {
		t.Errorf("the arguments %v: %v\n%s", args, err, out)
	}
	for name, address := range map[string]string{"https": cfg.Listen.HTTPS, "http": cfg.Listen.HTTP, "admin": cfg.Listen.Admin} {
		if want := fmt.Sprintf(":%d", w.port(name)); address != want {
			t.Errorf("listen.%s is %s, the port %s of the pod is %s", name, address, name, want)
		}
	}
	public := map[string]int32{}
	for _, port := range all.services["authgate"].Spec.Ports {
		public[port.TargetPort.StrVal] = port.Port
	}
	if !maps.Equal(public, map[string]int32{"https": 443, "http": 80}) {
		t.Errorf("the Service has %v", public)
	}
	checkStop(t, time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds)*time.Second, all.checkLeaving(t, w), cfg)
	checkBurst(t, w.container().Resources.Limits)
	all.checkRollout(t, w)
	all.checkStore(t, cfg.Store.Addresses[0])
}

// checkLeaving returns the time for which a pod that ends stays ready. It must with
// externalTrafficPolicy Local, as the balancer checks its node.
func (all *manifests) checkLeaving(t *testing.T, w *workload) time.Duration {
	t.Helper()
	local := all.services["authgate"].Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if !local {
		t.Error("the gateways do not see the clients' addresses, by which failed logins are counted")
	}
	hook := w.container().Lifecycle
	if hook == nil || hook.PreStop == nil || hook.PreStop.Sleep == nil { // the image has no shell
		t.Error("a pod that ends is unready at once, while its node still gets connections")
		return 0
	}
	return time.Duration(hook.PreStop.Sleep.Seconds) * time.Second
}

// The measured memory of a burst of logins for each processor, and of the rest of a
// gateway with its caches of 64 MiB.
const (
	burst = 64 << 20
	rest  = 128 << 20
)

// checkBurst checks that a gateway has enough memory for the password checks that run
// at once.
func checkBurst(t *testing.T, limits corev1.ResourceList) {
	t.Helper()
	processors, memory := limits.Cpu().Value(), limits.Memory().Value()
	if needed := processors*burst + rest; processors == 0 || memory < needed {
		t.Errorf("with %d processors (0: any) a burst of logins takes up to %d bytes, and more than %d are not allowed", processors, needed, memory)
	}
}

// checkRollout checks that a gateway is left during a rollout and when a node is
// drained.
func (all *manifests) checkRollout(t *testing.T, w *workload) {
	t.Helper()
	replicas := *w.deployment.Spec.Replicas
	strategy := w.deployment.Spec.Strategy
	if replicas < 2 || strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || strategy.RollingUpdate.MaxUnavailable.String() != "0" {
		t.Errorf("during a rollout of %d pods some are missing: %+v", replicas, strategy)
	}
	budget := all.budgets["authgate"].Spec
	if all.only(t, "the PodDisruptionBudget", budget.Selector) != w {
		t.Error("the PodDisruptionBudget is not for the gateways")
	}
	if budget.MaxUnavailable == nil || budget.MaxUnavailable.IntVal < 1 || budget.MaxUnavailable.IntVal >= replicas {
		t.Errorf("the PodDisruptionBudget allows %v of %d to be away", budget.MaxUnavailable, replicas)
	}
	if policy := budget.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
		t.Error("while all pods are unready, as without the store, no node can be drained")
	}
	for _, spread := range w.pod.Spec.TopologySpreadConstraints {
		if all.only(t, "the topology spread constraint", spread.LabelSelector) != w {
			t.Error("the topology spread constraint is not for the gateways")
		}
	}
}

// checkStore checks that the store of the configuration is a Service.
func (all *manifests) checkStore(t *testing.T, address string) {
	t.Helper()
	name, port, _ := strings.Cut(address, ":")
	s := all.services[name]
	if s == nil || len(s.Spec.Ports) != 1 || fmt.Sprint(s.Spec.Ports[0].Port) != port {
		t.Errorf("no Service is the store %s", address)
	}
}

// TestKubernetesProbes checks the paths and the port of the probes.
func TestKubernetesProbes(t *testing.T) {
	w := kubernetes(t).workloads["authgate"]
	for name, c := range map[string]struct {
		probe *corev1.Probe
		path  string
	}{
		"liveness": {w.container().LivenessProbe, "/healthz"}, "startup": {w.container().StartupProbe, "/healthz"},
		"readiness": {w.container().ReadinessProbe, "/readyz"},
	} {
		if c.probe == nil || c.probe.HTTPGet == nil || c.probe.HTTPGet.Path != c.path || c.probe.HTTPGet.Port.StrVal != "admin" || c.probe.HTTPGet.Scheme != "" {
			t.Errorf("the %s probe is %+v, expected %s at the port admin", name, c.probe, c.path)
		}
	}
	if w.port("admin") == 0 {
		t.Error("there is no port admin")
	}
}

// TestKubernetesNetwork checks which pods may connect to which.
func TestKubernetesNetwork(t *testing.T) {
	all := kubernetes(t)
	gateways, store := all.workloads["authgate"], all.workloads["valkey"]
	for name, policy := range all.policies {
		if found := all.selected(t, &policy.Spec.PodSelector); name != "app" && (len(found) != 1 || found[0].name != name) {
			t.Errorf("the NetworkPolicy %s is not for the pods of %s", name, name)
		}
		if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			t.Errorf("all pods may reach %s", name)
		}
	}
	open := map[string]bool{}
	for _, rule := range all.policies["authgate"].Spec.Ingress {
		for _, port := range rule.Ports {
			if gateways.port(port.Port.StrVal) == 0 {
				t.Errorf("the NetworkPolicy opens the port %s, which is not there", port.Port.String())
			}
			open[port.Port.StrVal] = open[port.Port.StrVal] || len(rule.From) == 0
		}
	}
	if !maps.Equal(open, map[string]bool{"https": true, "http": true, "admin": false}) {
		t.Errorf("the ports that are open to all are %v", open)
	}
	for _, name := range []string{"valkey", "app"} {
		for _, rule := range all.policies[name].Spec.Ingress {
			if len(rule.From) != 1 || all.only(t, "who may reach "+name, rule.From[0].PodSelector) != gateways || rule.From[0].NamespaceSelector != nil || len(rule.Ports) != 1 {
				t.Errorf("others than the gateways may reach %s: %+v", name, rule)
			}
		}
	}
	if store.port(all.policies["valkey"].Spec.Ingress[0].Ports[0].Port.StrVal) != 6379 {
		t.Error("the gateways may not reach the store")
	}
	app := all.policies["app"].Spec
	for what, want := range map[string]struct {
		labels map[string]string
		port   int32
	}{
		"the store":       {store.pod.Labels, store.port("valkey")},
		"the application": {app.PodSelector.MatchLabels, app.Ingress[0].Ports[0].Port.IntVal},
		"the authority":   {nil, 443},
	} {
		if !all.mayReach(t, want.labels, want.port) {
			t.Errorf("the gateways may not ask %s", what)
		}
	}
}

// mayReach reports whether gateways may connect to a port of pods with labels, or of
// any host if there are none.
func (all *manifests) mayReach(t *testing.T, pod map[string]string, port int32) bool {
	t.Helper()
	return slices.ContainsFunc(all.policies["authgate"].Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntVal == port }) {
			return false
		}
		return len(rule.To) == 0 || slices.ContainsFunc(rule.To, func(to networkingv1.NetworkPolicyPeer) bool {
			s, err := metav1.LabelSelectorAsSelector(to.PodSelector)
			return err == nil && pod != nil && to.NamespaceSelector == nil && s.Matches(labels.Set(pod))
		})
	})
}

// TestKubernetesValkey checks that Valkey starts and is probed as in the compose
// example, which TestValkey runs.
func TestKubernetesValkey(t *testing.T) {
	all := kubernetes(t)
	w := all.workloads["valkey"]
	s := service(t, load(t, compose(t)), "valkey")
	if got := all.configMaps["valkey"].Data["start.sh"]; got != read(t, shipped+"/compose/valkey/start.sh") {
		t.Errorf("start.sh is another one than that of the compose example:\n%s", got)
	}
	if w.container().Image != s.Image || !slices.Equal(w.container().Command, s.Command) {
		t.Errorf("%s runs %v, in the compose example %s runs %v", w.container().Image, w.container().Command, s.Image, s.Command)
	}
	if user := fmt.Sprintf("%d:%d", *w.pod.Spec.SecurityContext.RunAsUser, *w.pod.Spec.SecurityContext.RunAsGroup); user != s.User {
		t.Errorf("it runs as %s, in the compose example as %s", user, s.User)
	}
	want := []string{"sh", "-c", strings.ReplaceAll(s.HealthCheck.Test[1], "$$", "$")}
	for _, probe := range []*corev1.Probe{w.container().StartupProbe, w.container().ReadinessProbe} {
		if probe == nil || probe.Exec == nil || !slices.Equal(probe.Exec.Command, want) {
			t.Errorf("it is not probed with %v", want)
		}
	}
	// maxmemory does not count buffers and the copies during a rewrite of the file.
	if limit := w.container().Resources.Limits.Memory().Value(); maxmemory*3/2 > limit {
		t.Errorf("it is killed at %d bytes, and refuses writes at %d", limit, int64(maxmemory))
	}
	m := all.inside(t, w)
	for _, path := range []string{"/etc/valkey/start.sh", "/run/secrets/valkey_password", "/data"} {
		if _, err := os.Stat(m.root + path); err != nil {
			t.Error(err)
		}
	}
}
