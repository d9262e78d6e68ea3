package provider

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// cluster is a fake as the API of a Kubernetes cluster: its certificate is of a private authority, and
// each call needs the token of a pod, which rotates.
type cluster struct {
	*fake
	file, token string
	roots       *x509.CertPool
}

func newCluster(t *testing.T) *cluster {
	f := newFake(t)
	c := &cluster{fake: f, file: filepath.Join(t.TempDir(), "token"), roots: x509.NewCertPool()}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+c.token {
			f.last[r.URL.Path] = r
			say(http.StatusUnauthorized, "application/json", `{"error":"`+r.Header.Get("Authorization")+`"}`)(w, r)
			return
		}
		if r.URL.Path == "/keys" && !strings.Contains(r.Header.Get("Accept"), "application/jwk-set+json") {
			w.WriteHeader(http.StatusNotAcceptable) // as the API server of Kubernetes answers
			return
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.roots.AddCert(server.Certificate())
	f.idp, f.transport = server.URL, nil
	c.rotate("pod-token-1")
	return c
}

// rotate replaces the token that the cluster takes, and the file.
func (c *cluster) rotate(token string) {
	c.token = token
	must(0, os.WriteFile(c.file, []byte(token+"\n"), 0o600))
}

func (c *cluster) issuer(change func(*TrustedOptions)) *Trusted {
	return c.trusted(func(o *TrustedOptions) {
		o.CredentialFile, o.Roots = c.file, c.roots
		if change != nil {
			change(o)
		}
	})
}

// Every call to the issuer has the token that the file has then: discovery, keys and introspection.
func TestCredentialOfEachCall(t *testing.T) {
	c := newCluster(t)
	c.instead["/introspect"] = sayJSON(`{"active":true,"sub":"alice-sub"}`)
	issuer := c.issuer(func(o *TrustedOptions) { o.Introspection = &Introspection{URL: c.idp + "/introspect"} })
	must(issuer.Verify(t.Context(), c.key.sign(c.accessClaims(nil), nil)))
	c.wantCalled(t, discoveryPath, 1)
	c.wantCalled(t, "/keys", 1)
	c.rotate("pod-token-2")
	must(issuer.Introspect(t.Context(), "opaque-access-token"))
	form, header := c.lastCall("/introspect")
	if _, has := form["client_id"]; has || header != "Bearer pod-token-2" {
		t.Errorf("introspection with the header %q and the form %q", header, form)
	}
	c.key = newECKey("second")
	c.keys = []jose.JSONWebKey{c.key.public()}
	must(issuer.Verify(t.Context(), c.key.sign(c.accessClaims(nil), nil)))

	// What refuses the token must not bring it into the log.
	must(0, os.WriteFile(c.file, []byte("pod-token-3"), 0o600))
	_, err := issuer.Introspect(t.Context(), "opaque-access-token")
	if wantError(t, err, ErrFault, "401"); strings.Contains(err.Error(), "pod-token-3") {
		t.Errorf("the error has the token: %v", err)
	}
}

// The keys are at the configured address, and discovery is not asked.
func TestKeysURL(t *testing.T) {
	c := newCluster(t)
	issuer := c.issuer(func(o *TrustedOptions) { o.Issuer, o.KeysURL = "https://kubernetes.default.svc", c.idp+"/keys" })
	must(issuer.Verify(t.Context(), c.key.sign(c.accessClaims(object{"iss": "https://kubernetes.default.svc"}), nil)))
	c.wantCalled(t, discoveryPath, 0)
	if _, header := c.lastCall("/keys"); header != "Bearer pod-token-1" {
		t.Errorf("the keys were asked for with %q", header)
	}
}

// Without the roots, the certificate of a private authority is refused, and nothing is sent.
func TestRootsOfIssuer(t *testing.T) {
	c := newCluster(t)
	issuer := c.issuer(func(o *TrustedOptions) { o.Roots = nil })
	_, err := issuer.Verify(t.Context(), c.key.sign(c.accessClaims(nil), nil))
	wantError(t, err, ErrFault, "certificate")
	c.wantCalled(t, discoveryPath, 0)
}

// A call without a token in the file is not made, and the log says why.
func TestCredentialMissing(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "blank": " \n", "two": "a b", "control": "a\x00b"} {
		c := newCluster(t)
		must(0, os.WriteFile(c.file, []byte(content), 0o600))
		wantUncalled(t, name, c)
	}
	c := newCluster(t)
	must(0, os.Remove(c.file))
	wantUncalled(t, "missing", c)
}

func wantUncalled(t *testing.T, name string, c *cluster) {
	t.Helper()
	_, err := c.issuer(nil).Verify(t.Context(), c.key.sign(c.accessClaims(nil), nil))
	wantError(t, err, ErrFault, "credential_file")
	if c.last[discoveryPath] != nil || !strings.Contains(c.log.String(), "its credential_file has no token") {
		t.Errorf("%s: the call was made, or the log does not tell: %s", name, c.log.String())
	}
}

// The token goes to configured hosts and ports alone, by https or on this machine, whatever discovery
// announces.
func TestCredentialPlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	must(0, os.WriteFile(file, []byte("pod-token"), 0o600))
	credential := newCredential(file, nil, []string{
		"https://Kubernetes.default.svc", "https://keys.example:8443/keys", "http://127.0.0.1:9000/x", "",
		"http://plain.example",
	})
	for address, goes := range map[string]bool{
		"https://kubernetes.default.svc/openid/v1/jwks": true,
		"https://KUBERNETES.default.svc:443/":           true,
		"https://keys.example:8443/other":               true,
		"http://127.0.0.1:9000/":                        true,
		"https://kubernetes.default.svc:6443/":          false,
		"https://keys.example/keys":                     false,
		"http://127.0.0.1:9001/":                        false,
		"http://plain.example/":                         false,
		"https://evil.example/":                         false,
		"https://kubernetes.default.svc.evil.example/":  false,
	} {
		r := must(http.NewRequest("GET", address, nil))
		if sent := must(credential.on(r)); (sent.Header.Get("Authorization") == "Bearer pod-token") != goes {
			t.Errorf("%s: sent %q", address, sent.Header.Get("Authorization"))
		}
	}
}
