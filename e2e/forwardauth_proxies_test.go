package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// forwardProxy is a real proxy with the configuration that a document shows.
type forwardProxy struct {
	document string
	// command writes the configuration, whose files come from the document, and
	// returns the command line of the proxy, which listens at address. files also
	// has the addresses GATE and APP.
	command func(t *testing.T, files map[string]string, dir, address string) *exec.Cmd
}

var forwardProxies = map[string]forwardProxy{
	"nginx": {"nginx.md", func(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
		paths := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			paths += fmt.Sprintf("  %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
		}
		config := substituted(t, files["nginx.conf"],
			"http {\n", "http {\n  access_log off;\n"+paths,
			"listen 443 ssl;", "listen "+address+" ssl;",
			"/etc/nginx/tls/fullchain.pem", filepath.Join(dir, "site.pem"),
			"/etc/nginx/tls/privkey.pem", filepath.Join(dir, "site.pem"))
		writeAll(t, dir, map[string]string{"nginx.conf": config})
		return exec.Command(program(t, "nginx"), "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"),
			"-g", "daemon off; master_process off; pid "+filepath.Join(dir, "pid")+"; error_log stderr;")
	}},
	"haproxy": {"haproxy.md", func(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
		config := substituted(t, files["haproxy.cfg"],
			"/etc/haproxy/verify.lua", filepath.Join(dir, "verify.lua"),
			"bind :443", "bind "+address,
			"/etc/haproxy/tls/site.pem", filepath.Join(dir, "site.pem"))
		writeAll(t, dir, map[string]string{"haproxy.cfg": config, "verify.lua": files["verify.lua"]})
		return exec.Command(program(t, "haproxy"), "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	}},
	"caddy": {"caddy.md", func(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
		_, port, err := net.SplitHostPort(address)
		noError(t, err)
		global := fmt.Sprintf("{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2\n\t}\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\thttp_port %s\n\thttps_port %s\n}\n", freePort(t), port)
		certificate := filepath.Join(dir, "site.pem")
		config := global + substituted(t, files["Caddyfile.example"],
			"auth.example.org {", "auth.example.org {\n\ttls "+certificate+" "+certificate,
			"app.example.org {", "app.example.org {\n\ttls "+certificate+" "+certificate)
		writeAll(t, dir, map[string]string{"Caddyfile": config})
		cmd := exec.Command(program(t, "caddy"), "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		return cmd
	}},
}

// substituted replaces parts of a text, all of which must be there.
func substituted(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the text does not have %q:\n%s", pairs[i], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// forwardGateway runs the gateway with the configuration of the documents, and a
// public host that no proxy knows.
func forwardGateway(t *testing.T) *instance {
	t.Helper()
	g := prepared(t)
	g.write("config.yaml", substituted(t, documentFile(t, "README.md", "yaml"),
		"http: 127.0.0.1:8080", fmt.Sprintf("http: %q\n  admin: %q", authority(g.http), authority(g.adm)),
		`roles: [user, admin], password_hash: "$argon2id$v=19$m=19456,t=2,p=1$…"`, "roles: [user, admin], password_hash: "+`"`+wonderlandHash+`"`,
		`roles: [user], password_hash: "$argon2id$v=19$m=19456,t=2,p=1$…"`, "roles: [user], password_hash: "+`"`+builderHash+`"`,
		"192.0.2.0/24", "127.0.0.2")+"  - {match: open.example.org/, auth: [none]}\n")
	g.run()
	return g
}

// documentFile returns the block with that info of a document on forward
// authentication.
func documentFile(t *testing.T, document, info string) string {
	t.Helper()
	for _, b := range parseDocument(t, document, readFile(t, "../docs/forward-auth/"+document)).blocks {
		if b.info == info {
			return b.text()
		}
	}
	t.Fatalf("%s has no block %q", document, info)
	return ""
}

// start runs the proxy between the gateway and an application, and returns its
// address and the certificate authority of its clients.
func (p forwardProxy) start(t *testing.T, g *instance, app string) (address string, roots *x509.CertPool) {
	t.Helper()
	files := map[string]string{"GATE": authority(g.http), "APP": authority(app)}
	for _, b := range parseDocument(t, p.document, readFile(t, "../docs/forward-auth/"+p.document)).blocks {
		if name, ok := b.file(); ok {
			files[name] = strings.NewReplacer("127.0.0.1:8080", authority(g.http), "127.0.0.1:3000", authority(app)).Replace(b.text())
		}
	}
	dir, address := t.TempDir(), freeAddress(t)
	roots = siteCertificate(t, filepath.Join(dir, "site.pem"))
	out := &lines{}
	cmd := p.command(t, files, dir, address)
	cmd.Stdout, cmd.Stderr = out, out
	ended := spawn(t, cmd)
	eventually(t, patience, "the proxy", func() error {
		select {
		case <-ended:
			t.Fatalf("the proxy has ended:\n%s", out)
		default:
		}
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "app.example.org"})
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return conn.Close()
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the proxy wrote\n%s", out)
		}
	})
	return address, roots
}

// siteCertificate writes a certificate with its key for the hosts of the documents.
func siteCertificate(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	certificate, private := selfSigned(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.org"}, DNSNames: []string{"auth.example.org", "app.example.org"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}, key)
	noError(t, os.WriteFile(path, []byte(certificate+private), 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	return roots
}
