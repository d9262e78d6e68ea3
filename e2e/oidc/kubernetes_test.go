//go:build interop

package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// cluster is an API server of Kubernetes with its etcd, without nodes.
type cluster struct {
	base, authority string // its URL, and the file with its certificate authority
}

// startCluster starts a cluster with the service accounts reports, other and gateway in the namespace team.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	etcd, peers, address := "http://"+world.FreeAddress(t), "http://"+world.FreeAddress(t), world.FreeAddress(t)
	world.Launch(t, etcd+"/health", exec.Command(builtProvider(t, "etcd"), "--data-dir", t.TempDir(),
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers))
	dir := t.TempDir()
	key := world.Must(x509.MarshalPKCS8PrivateKey(world.Must(rsa.GenerateKey(rand.Reader, 2048))(t)))(t)
	world.WriteAll(t, dir, map[string]string{
		"tokens.csv": "operator,operator,1,system:masters\n",
		"key.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	})
	c := &cluster{"https://" + address, filepath.Join(dir, "apiserver.crt")}
	_, port, _ := strings.Cut(address, ":")
	in := func(name string) string { return filepath.Join(dir, name) }
	server := exec.Command(builtProvider(t, "kube-apiserver"), "--etcd-servers="+etcd, "--bind-address=127.0.0.1",
		"--secure-port="+port, "--cert-dir="+dir, "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
		"--service-account-issuer="+c.base, "--service-account-jwks-uri="+c.base+"/openid/v1/jwks",
		"--service-account-key-file="+in("key.pem"), "--service-account-signing-key-file="+in("key.pem"),
		"--token-auth-file="+in("tokens.csv"))
	log := &world.Output{}
	server.Stdout, server.Stderr = log, log
	ended := world.Spawn(t, server)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the cluster wrote\n%s", log)
		}
	})
	world.Until(t, "the cluster", func() bool {
		select {
		case <-ended:
			t.Fatalf("the API server has ended:\n%s", log)
		default:
		}
		return exec.Command("curl", "-fsS", "--cacert", c.authority, c.base+"/readyz").Run() == nil
	})
	c.post(t, "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
	for _, name := range []string{"reports", "other", "gateway"} {
		c.post(t, "/api/v1/namespaces/team/serviceaccounts", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
	}
	return c
}

// post posts an object as an operator of the cluster.
func (c *cluster) post(t *testing.T, path, object string) []byte {
	t.Helper()
	out, err := exec.Command("curl", "-fsS", "--cacert", c.authority, "-H", "Authorization: Bearer operator",
		"-H", "Content-Type: application/json", "-d", object, c.base+path).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	return out
}

// token is the projected token of a pod with a service account, for an audience.
func (c *cluster) token(t *testing.T, account, audience string) string {
	t.Helper()
	var answer struct{ Status struct{ Token string } }
	object := fmt.Sprintf(`{"spec":{"audiences":[%q],"expirationSeconds":3600}}`, audience)
	raw := c.post(t, "/api/v1/namespaces/team/serviceaccounts/"+account+"/token", object)
	world.NoError(t, json.Unmarshal(raw, &answer))
	return answer.Status.Token
}

// TestKubernetes: a pod trades its token with the configuration of docs/how-to/workloads.md at a gateway in the
// cluster, which asks for the keys with its own token, by their URL and by discovery. A pod with another service
// account or audience gets nothing.
func TestKubernetes(t *testing.T) {
	up, g := world.Record(t), world.Prepare(t)
	c := startCluster(t)
	if exec.Command("curl", "-fsS", "--cacert", c.authority, c.base+"/openid/v1/jwks").Run() == nil {
		t.Error("the keys are public")
	}
	shown := podConfiguration(t)
	shown = world.Substituted(t, shown, "https://kubernetes.default.svc.cluster.local", c.base,
		"https://kubernetes.default.svc/openid/v1/jwks", c.base+"/openid/v1/jwks", "roots.pem", c.authority,
		"/var/run/secrets/kubernetes.io/serviceaccount/token", "token")
	shown += "routes: [{match: /, upstream: app, auth: [bearer]}]\n" + world.App(up.URL)
	for name, config := range map[string]string{
		"by the URL of the keys": shown,
		"by discovery":           world.Substituted(t, shown, "      jwks_url: "+c.base+"/openid/v1/jwks\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			g.Write("token", c.token(t, "gateway", c.base))
			g.Configure(config)
			g.Run()
			defer g.Kill()
			trade := func(assertion string) world.Answer {
				form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}
				return g.Do(g.Stranger(), "POST", "/oauth/token", form.Encode(), "Content-Type", world.TypeForm)
			}
			got := trade(c.token(t, "reports", g.Base))
			world.WantStatus(t, "the pod", got, http.StatusOK)
			in := world.Must(world.Tokens(got))(t)
			g.Do(g.Stranger(), "GET", "/report", "", "Authorization", in.Access)
			if user := up.One(t).Value(t, "X-Auth-User"); user != "client:reports" {
				t.Errorf("the application sees %q", user)
			}
			world.WantStatus(t, "another account", trade(c.token(t, "other", g.Base)), http.StatusBadRequest)
			world.WantStatus(t, "another audience", trade(c.token(t, "reports", c.base)), http.StatusBadRequest)
		})
	}
}

// podConfiguration is the configuration of the page for pods.
func podConfiguration(t *testing.T) string {
	t.Helper()
	for _, b := range world.ReadDocument(t, "docs/how-to/workloads.md").Blocks {
		if b.Info == "yaml fragment" && strings.Contains(b.Text(), "name: cluster") {
			return b.Text()
		}
	}
	t.Fatal("the page shows no configuration for pods")
	return ""
}
