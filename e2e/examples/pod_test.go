package examples

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// pod is a pod whose script calls an application behind a Gateway of Kubernetes.
type pod struct {
	t        *testing.T
	dir      string
	platform *world.Platform // signs as the cluster does
	gateway  *world.Instance
	app      *world.Recorder
	curl     string // the configuration of curl, which leads all hosts to the Gateway
}

const (
	clusterIssuer = "https://kubernetes.default.svc.cluster.local"
	podToken      = "/var/run/secrets/gateway/token"
	podAudience   = "https://login.example.org"
)

// TestDocsPod runs the script of the pod on the page, with the configuration of the page. The keys of the cluster are
// behind its own authority and the token of the gateway's pod. The calls go through a Gateway that asks by
// ExternalAuth. A pod of another service account, and a token for another audience, get nothing.
func TestDocsPod(t *testing.T) {
	t.Parallel()
	p := startPod(t)
	for _, c := range []struct {
		account, audience string
		in                bool
	}{
		{"team:reports", podAudience, true},
		{"team:other", podAudience, false},
		{"other:reports", podAudience, false},
		{"team:reports", clusterIssuer, false},
	} {
		before := len(p.app.All())
		out, err := p.run(c.account, c.audience)
		reached := p.app.All()[before:]
		switch {
		case !c.in && (err == nil || len(reached) > 0 || !strings.Contains(out, "400")):
			t.Errorf("%v gets in: %v, %d requests\n%s", c, err, len(reached), out)
		case c.in && (err != nil || len(reached) != 1 || out != "ok"):
			t.Errorf("%v: %v, %d requests\n%s", c, err, len(reached), out)
		case c.in:
			if user := reached[0].Value(t, "X-Auth-User"); user != "client:reports" || reached[0].Target() != "/reports/today" {
				t.Errorf("%s reaches %s", user, reached[0].Target())
			}
		}
	}
}

// startPod starts the cluster's keys, the gateway, the application and the Gateway before them.
func startPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{t: t, dir: t.TempDir(), platform: world.StartPlatform(t), gateway: world.Prepare(t), app: world.Record(t)}
	keys := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer gateway-pod" || r.URL.Path != "/openid/v1/jwks" {
			http.Error(w, "anonymous", http.StatusForbidden)
			return
		}
		response := world.Must(http.Get(p.platform.URL + "/jwks"))(t)
		defer response.Body.Close()
		_, _ = io.Copy(w, response.Body)
	}))
	t.Cleanup(keys.Close)
	world.WriteAll(t, p.dir, map[string]string{
		"token":  "gateway-pod",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: keys.Certificate().Raw})),
	})
	const account = "/var/run/secrets/kubernetes.io/serviceaccount"
	g := p.gateway
	g.Listen = fmt.Sprintf("tls: {mode: \"off\"}\nlisten: {http: %q, admin: %q, trusted_proxies: [127.0.0.1]}\n"+
		"endpoints: {prefix: /.authgate/, external_auth: true}\n", world.Authority(g.HTTP), world.Authority(g.Admin))
	g.Public = podAudience
	g.Configure(world.Substituted(t, p.configuration(), account, p.dir, "https://kubernetes.default.svc/", keys.URL+"/") +
		world.People)
	g.Run()
	p.curl = startGatewayAPI(t, g.HTTP, p.app.URL)
	return p
}

// configuration returns the configuration of the page for a pod.
func (p *pod) configuration() string {
	p.t.Helper()
	for _, b := range world.ReadDocument(p.t, workloadsPage).Blocks {
		if b.Info == "yaml fragment" && strings.Contains(b.Text(), clusterIssuer) {
			return b.Text()
		}
	}
	p.t.Fatalf("%s shows no configuration for a pod", workloadsPage)
	return ""
}

// run runs the script in a pod with a token of a service account for an audience.
func (p *pod) run(account, audience string) (out string, err error) {
	p.t.Helper()
	token := filepath.Join(p.t.TempDir(), "token")
	world.NoError(p.t, os.WriteFile(token, []byte(p.platform.Sign("JWT", map[string]any{
		"iss": clusterIssuer, "aud": []string{audience}, "sub": "system:serviceaccount:" + account,
	})), 0o600))
	var script string
	for document := range strings.SplitSeq(world.DocumentedFile(p.t, workloadsPage, "pod.yml"), "---\n") {
		if object := world.DecodeYAML(p.t, document); object["kind"] == "ConfigMap" {
			script = object["data"].(map[string]any)["call.sh"].(string)
		}
	}
	script = world.Substituted(p.t, script, podToken, token, "$gateway/oauth", "$gateway/.authgate/oauth")
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "CURL_HOME="+p.curl)
	answer, err := cmd.CombinedOutput()
	return string(answer), err
}

// startGatewayAPI starts a Gateway that asks as the ExternalAuth of gateway-api.yaml says, and returns a folder with
// a configuration of curl that leads all hosts to it.
func startGatewayAPI(t *testing.T, gate, app string) (curl string) {
	t.Helper()
	to := func(address string) *httputil.ReverseProxy {
		target := world.Must(url.Parse(address))(t)
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			r.Out.Header.Del("X-Forwarded-Host")
		}}
	}
	own, application := to(gate), to(app)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.authgate/") {
			own.ServeHTTP(w, r)
			return
		}
		question := world.Must(http.NewRequest(r.Method, gate+"/.authgate/verify"+r.RequestURI, http.NoBody))(t)
		question.Host = r.Host
		for _, name := range []string{"Accept", "Authorization", "Cookie"} {
			question.Header[name] = r.Header[name]
		}
		question.Header.Set("X-Forwarded-Proto", "https")
		question.Header.Set("X-Forwarded-For", "192.0.2.9")
		answer := world.Must(http.DefaultTransport.RoundTrip(question))(t)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			w.WriteHeader(answer.StatusCode)
			return
		}
		for _, name := range world.IdentityNames {
			r.Header[name] = answer.Header[name]
		}
		application.ServeHTTP(w, r)
	}))
	dir := t.TempDir()
	certificate, private := world.SelfSigned(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"},
		DNSNames: []string{"login.example.org", "app.example.org"},
	}, world.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	pair := world.Must(tls.X509KeyPair([]byte(certificate), []byte(private)))(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	world.WriteAll(t, dir, map[string]string{
		"roots.pem": certificate,
		".curlrc":   fmt.Sprintf("connect-to = \"::%s\"\ncacert = \"%s/roots.pem\"\n", server.Listener.Addr(), dir),
	})
	return dir
}
