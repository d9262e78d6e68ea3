package deploy

import (
	"fmt"
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
	"k8s.io/apimachinery/pkg/util/intstr"

	"authgate/e2e/world"
)

// maxmemory is the size at which Valkey refuses writes, before it is killed.
const maxmemory = 640 << 20

// TestKubernetesPods checks what all pods have in common: selectors, the restricted
// standard of Kubernetes, where secrets come from.
func TestKubernetesPods(t *testing.T) {
	all := kubernetes(t)
	for name, w := range all.workloads {
		same(t, name+": the selector", w.selector, selectorOf(name))
		same(t, name+": the labels of pods", w.pod.Labels, selectorOf(name).MatchLabels)
		pod := w.pod.Spec
		if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 || pod.SecurityContext == nil ||
			pod.SecurityContext.RunAsUser == nil {
			t.Fatalf("%s has more than one container, or no user", name)
		}
		user := pod.SecurityContext.RunAsUser // to which its files belong
		same(t, name+": the rights of the pod", pod.SecurityContext, &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: user, RunAsGroup: user, FSGroup: user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		})
		same(t, name+": the rights of the container", w.container().SecurityContext, &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		})
		same(t, name+": a token for the API", pod.AutomountServiceAccountToken, new(false))
		if *user == 0 || pod.HostNetwork || pod.HostPID || pod.HostIPC || w.container().Resources.Limits.Memory().IsZero() {
			t.Errorf("%s is root, shares something with its host, or has no limit of memory", name)
		}
		if c := w.container(); len(c.Env) > 0 || len(c.EnvFrom) > 0 {
			t.Errorf("%s has an environment; all that it needs is in files", name)
		}
		all.inside(w)
	}
	for _, s := range objectsOf[*corev1.Service](all) {
		same(t, "what the Service "+s.Name+" selects", s.Spec.Selector, selectorOf(s.Name).MatchLabels)
		for _, port := range s.Spec.Ports {
			if all.workloads[s.Name].port(port.TargetPort.StrVal) == 0 {
				t.Errorf("the Service %s leads to the port %s, which is not there", s.Name, port.TargetPort.String())
			}
		}
	}
}

// TestKubernetesGateway compares the gateways with their configuration.
func TestKubernetesGateway(t *testing.T) {
	all := kubernetes(t)
	w, c := all.workloads["authgate"], all.workloads["authgate"].container()
	m := all.inside(w)
	const path = "/etc/authgate/config.yaml"
	for _, key := range []string{"token.secret", "store.encryption_key", "password_hash"} {
		m.refuses(path, key) // the placeholders
	}
	replacePlaceholders(all)
	m = all.inside(w)
	cfg := m.configuration(path)
	checkShared(t, cfg)
	same(t, "the parent of data_dir, which the group can write to", filepath.Dir(cfg.DataDir), m.root+"/data")

	if out, err := m.command(world.Program("authgate"),
		append([]string{"validate"}, c.Args[1:]...)...).CombinedOutput(); c.Args[0] != "serve" || err != nil {
		t.Errorf("the arguments %v: %v\n%s", c.Args, err, out)
	}
	for name, address := range map[string]string{"https": cfg.Listen.HTTPS, "http": cfg.Listen.HTTP,
		"admin": cfg.Listen.Admin} {
		same(t, "listen."+name+" and the port of the pod", address, fmt.Sprintf(":%d", w.port(name)))
	}
	for path, probes := range map[string][]*corev1.Probe{"/healthz": {c.LivenessProbe, c.StartupProbe},
		"/readyz": {c.ReadinessProbe}} {
		for _, probe := range probes {
			same(t, "a probe", probe.HTTPGet, &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("admin")})
		}
	}
	service := object[*corev1.Service](all, "authgate").Spec
	public := map[string]int32{}
	for _, port := range service.Ports {
		public[port.TargetPort.StrVal] = port.Port
	}
	same(t, "the ports of the Service", public, map[string]int32{"https": 443, "http": 80})
	if service.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Error("the gateways do not see the clients' addresses, by which failed logins are counted")
	}
	// With externalTrafficPolicy Local the balancer checks the node, so that a pod that
	// ends must stay ready for a time. The image has no shell for that.
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
		t.Fatal("a pod that ends is unready at once, while its node still gets connections")
	}
	seconds := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	checkStop(t, seconds(*w.pod.Spec.TerminationGracePeriodSeconds), seconds(c.Lifecycle.PreStop.Sleep.Seconds), cfg)
	name, port, _ := strings.Cut(cfg.Store.Addresses[0], ":")
	if store := object[*corev1.Service](all, name).Spec.Ports; len(store) != 1 || fmt.Sprint(store[0].Port) != port {
		t.Errorf("no Service is the store %s", cfg.Store.Addresses[0])
	}
}

// TestKubernetesBurst checks that a gateway has enough memory for the password checks
// that run at once, one for each processor. The numbers were measured.
func TestKubernetesBurst(t *testing.T) {
	const burst, rest = 64 << 20, 128 << 20 // a burst of logins for a processor; all else, with caches of 64 MiB
	limits := kubernetes(t).workloads["authgate"].container().Resources.Limits
	processors, memory := limits.Cpu().Value(), limits.Memory().Value()
	if needed := processors*burst + rest; processors == 0 || memory < needed {
		t.Errorf("with %d processors (0: any) a burst of logins takes up to %d bytes, and more than %d are not allowed",
			processors, needed, memory)
	}
}

// TestKubernetesRollout checks that a gateway is left during a rollout and when a node
// is drained.
func TestKubernetesRollout(t *testing.T) {
	all := kubernetes(t)
	spec, budget := object[*appsv1.Deployment](all, "authgate").Spec, object[*policyv1.PodDisruptionBudget](all,
		"authgate").Spec
	replicas, strategy := *spec.Replicas, spec.Strategy
	if replicas < 2 || strategy.Type != appsv1.RollingUpdateDeploymentStrategyType ||
		strategy.RollingUpdate.MaxUnavailable.String() != "0" {
		t.Errorf("during a rollout of %d pods some are missing: %+v", replicas, strategy)
	}
	same(t, "what the PodDisruptionBudget selects", budget.Selector, selectorOf("authgate"))
	if budget.MaxUnavailable == nil || budget.MaxUnavailable.IntVal < 1 || budget.MaxUnavailable.IntVal >= replicas {
		t.Errorf("the PodDisruptionBudget allows %v of %d to be away", budget.MaxUnavailable, replicas)
	}
	// While all pods are unready, as without the store, nodes can be drained.
	same(t, "evictions of unready pods", budget.UnhealthyPodEvictionPolicy, new(policyv1.AlwaysAllow))
	for _, spread := range spec.Template.Spec.TopologySpreadConstraints {
		same(t, "what the topology spread constraint selects", spread.LabelSelector, selectorOf("authgate"))
	}
}

// TestKubernetesNetwork checks which pods may connect to which.
func TestKubernetesNetwork(t *testing.T) {
	all := kubernetes(t)
	got := map[string][]string{}
	for _, p := range objectsOf[*networkingv1.NetworkPolicy](all) {
		same(t, "the pods of the NetworkPolicy "+p.Name, p.Spec.PodSelector, *selectorOf(p.Name))
		for _, kind := range p.Spec.PolicyTypes { // without which there are no limits
			got[p.Name] = append(got[p.Name], string(kind))
		}
		for _, rule := range p.Spec.Ingress {
			got[p.Name] = append(got[p.Name], all.flows("from", rule.From, p.Name, rule.Ports)...)
		}
		for _, rule := range p.Spec.Egress {
			got[p.Name] = append(got[p.Name], all.flows("to", rule.To, "", rule.Ports)...)
		}
		slices.Sort(got[p.Name])
	}
	const pods = "app.kubernetes.io/name="
	same(t, "the rules", got, map[string][]string{
		"authgate": {
			"Egress", "Ingress", "from <none> of namespaces kubernetes.io/metadata.name=monitoring at 9090", "from any at 8080",
			"from any at 8443",
			"to any at 443", "to " + pods + "app at 3000", "to " + pods + "valkey at 6379",
			"to k8s-app=kube-dns of namespaces <none> at 53", "to k8s-app=kube-dns of namespaces <none> at 53",
		},
		"app":    {"Ingress", "from " + pods + "authgate at 3000"},
		"valkey": {"Egress", "Ingress", "from " + pods + "authgate at 6379"},
	})
}

// flows describes what a rule of a NetworkPolicy allows. Names of ports are those of
// a workload.
func (all *manifests) flows(
	direction string, peers []networkingv1.NetworkPolicyPeer, workload string, ports []networkingv1.NetworkPolicyPort,
) (flows []string) {
	var sides []string
	for _, p := range peers {
		side := metav1.FormatLabelSelector(p.PodSelector) // <none>: all
		if p.NamespaceSelector != nil {
			side += " of namespaces " + metav1.FormatLabelSelector(p.NamespaceSelector)
		}
		if p.IPBlock != nil {
			side += " " + p.IPBlock.CIDR
		}
		sides = append(sides, side)
	}
	if len(peers) == 0 {
		sides = []string{"any"}
	}
	for _, port := range ports {
		number := port.Port.IntVal
		if port.Port.StrVal != "" {
			number = all.workloads[workload].port(port.Port.StrVal)
		}
		for _, side := range sides {
			flows = append(flows, fmt.Sprintf("%s %s at %d", direction, side, number))
		}
	}
	return flows
}

// TestKubernetesValkey checks that Valkey starts and is probed as in the compose
// example, which TestValkey runs.
func TestKubernetesValkey(t *testing.T) {
	all := kubernetes(t)
	w := all.workloads["valkey"]
	c, s := w.container(), service(t, load(t, compose(t)), "valkey")
	same(t, "start.sh", object[*corev1.ConfigMap](all, "valkey").Data["start.sh"],
		read(t, shipped+"/compose/valkey/start.sh"))
	same(t, "the image", c.Image, s.Image)
	same(t, "the command", c.Command, []string(s.Command))
	same(t, "the user", fmt.Sprintf("%d:%d", *w.pod.Spec.SecurityContext.RunAsUser,
		*w.pod.Spec.SecurityContext.RunAsGroup), s.User)
	probe := &corev1.ExecAction{Command: []string{"sh", "-c", strings.ReplaceAll(s.HealthCheck.Test[1], "$$", "$")}}
	same(t, "the startup probe", c.StartupProbe.Exec, probe)
	same(t, "the readiness probe", c.ReadinessProbe.Exec, probe)
	// maxmemory does not count buffers and the copies during a rewrite of the file.
	if limit := c.Resources.Limits.Memory().Value(); maxmemory*3/2 > limit {
		t.Errorf("it is killed at %d bytes, and refuses writes at %d", limit, int64(maxmemory))
	}
	m := all.inside(w)
	for _, path := range []string{"/etc/valkey/start.sh", "/run/secrets/valkey_password", "/data"} {
		if _, err := os.Stat(m.root + path); err != nil {
			t.Error(err)
		}
	}
}
