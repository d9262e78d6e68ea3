package proxies

import (
	"cmp"
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
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// forwardProxy is a real proxy with the configuration that a document shows.
type forwardProxy struct {
	document string // below docs/forward-auth
	// command writes the configuration, whose files come from the document, and
	// returns the command line of the proxy, which listens at address. files also
	// has the addresses GATE and APP.
	command func(t *testing.T, files map[string]string, dir, address string) *exec.Cmd
	// leadsAll: the proxy leads programs to the sign-in page too.
	leadsAll bool
	// ownPages: the configuration gives the page of a refusal, which the proxy would not pass on by itself.
	ownPages bool
	// endpoints is that section of the gateway's configuration; empty: that of the documents.
	endpoints string
	// exactNames: the gateway sees only headers with names that the configuration has.
	exactNames bool
}

var forwardProxies = map[string]forwardProxy{
	"nginx":         {document: "nginx.md", command: nginx, ownPages: true},
	"ingress-nginx": {document: "README.md", command: ingressNginx, leadsAll: true},
	"haproxy": {document: "haproxy.md", command: func(
		t *testing.T, files map[string]string, dir, address string,
	) *exec.Cmd {
		t.Helper()
		config := world.Substituted(t, files["haproxy.cfg"], "bind :443", "bind "+address,
			"/etc/haproxy/tls/site.pem", filepath.Join(dir, "site.pem"))
		config = strings.ReplaceAll(config, "/etc/haproxy/verify.lua", filepath.Join(dir, "verify.lua"))
		world.WriteAll(t, dir, map[string]string{"haproxy.cfg": config, "verify.lua": files["verify.lua"]})
		return exec.Command(world.FindProgram(t, "haproxy"), "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	}},
	"caddy": {document: "caddy.md", command: func(
		t *testing.T, files map[string]string, dir, address string,
	) *exec.Cmd {
		t.Helper()
		_, port, err := net.SplitHostPort(address)
		world.NoError(t, err)
		global := fmt.Sprintf("{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2\n\t}\n\tauto_https "+
			"disable_redirects\n\tdefault_bind 127.0.0.1\n\thttp_port %s\n\thttps_port %s\n}\n", world.FreePort(t), port)
		certificate := filepath.Join(dir, "site.pem")
		site := regexp.MustCompile(`(?m)^\S.*\.example\.org {\n`)
		config := global + site.ReplaceAllString(files["Caddyfile.example"],
			"$0\ttls "+certificate+" "+certificate+"\n")
		world.WriteAll(t, dir, map[string]string{"Caddyfile": config})
		cmd := exec.Command(world.FindProgram(t, "caddy"), "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter",
			"caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		return cmd
	}},
}

// nginx runs nginx with the file nginx.conf and the other files of the document, which it may include.
func nginx(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
	t.Helper()
	paths := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("  %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	written := map[string]string{"nginx.conf": world.Substituted(t, files["nginx.conf"],
		"http {\n", "http {\n  access_log off;\n"+paths,
		"listen 443 ssl;", "listen "+address+" ssl;",
		"/etc/nginx/tls/fullchain.pem", filepath.Join(dir, "site.pem"),
		"/etc/nginx/tls/privkey.pem", filepath.Join(dir, "site.pem"))}
	for name, content := range files {
		if strings.HasSuffix(name, ".conf") && name != "nginx.conf" {
			written[name] = content
		}
	}
	world.WriteAll(t, dir, written)
	return exec.Command(world.FindProgram(t, "nginx"), "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"),
		"-g", "daemon off; master_process off; pid "+filepath.Join(dir, "pid")+"; error_log stderr;")
}

// forwardGateway runs the gateway with the configuration of the documents, and a
// public host that no proxy knows.
// endpoints is that section, if it is another.
func forwardGateway(t *testing.T, endpoints string) *world.Instance {
	t.Helper()
	g := world.Prepare(t)
	g.Write("config.yaml", world.Substituted(t, documentFile(t, "README.md", "yaml"),
		"{prefix: /.authgate/}", cmp.Or(endpoints, "{prefix: /.authgate/}"),
		"http: 127.0.0.1:8080", fmt.Sprintf("http: %q\n  admin: %q", world.Authority(g.HTTP), world.Authority(g.Admin)),
		`roles: [user, admin], password_hash: "$argon2id$v=19$m=19456,t=2,p=1$…"`,
		"roles: [user, admin], password_hash: "+`"`+world.WonderlandHash+`"`,
		`roles: [user], password_hash: "$argon2id$v=19$m=19456,t=2,p=1$…"`,
		"roles: [user], password_hash: "+`"`+world.BuilderHash+`"`,
		"192.0.2.0/24", "127.0.0.2")+"  - {match: open.example.org/, auth: [none]}\n")
	g.Run()
	return g
}

// documentFile returns the block with that info of a document on forward
// authentication.
func documentFile(t *testing.T, document, info string) string {
	t.Helper()
	for _, b := range world.ReadDocument(t, "docs/forward-auth/"+document).Blocks {
		if b.Info == info {
			return b.Text()
		}
	}
	t.Fatalf("%s has no block %q", document, info)
	return ""
}

// start runs the proxy between the gateway and an application, and returns its
// address and the certificate authority of its clients.
func (p forwardProxy) start(t *testing.T, g *world.Instance, app string) (address string, roots *x509.CertPool) {
	t.Helper()
	files := map[string]string{"GATE": world.Authority(g.HTTP), "APP": world.Authority(app)}
	for _, b := range world.ReadDocument(t, "docs/forward-auth/"+p.document).Blocks {
		if name, ok := b.File(); ok {
			files[name] = strings.NewReplacer("127.0.0.1:8080", world.Authority(g.HTTP), "127.0.0.1:3000",
				world.Authority(app)).Replace(b.Text())
		}
	}
	return p.run(t, files)
}

// run runs the proxy with its files.
func (p forwardProxy) run(t *testing.T, files map[string]string) (address string, roots *x509.CertPool) {
	t.Helper()
	dir, address := t.TempDir(), world.FreeAddress(t)
	roots = siteCertificate(t, filepath.Join(dir, "site.pem"))
	out := &world.Output{}
	cmd := p.command(t, files, dir, address)
	cmd.Stdout, cmd.Stderr = out, out
	ended := world.Spawn(t, cmd)
	world.Eventually(t, world.Patience, "the proxy", func() error {
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
	key := world.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	certificate, private := world.SelfSigned(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.org"},
		DNSNames: []string{
			"auth.example.org", "app.example.org", "wiki.example.org", "metrics.example.org", "home.example.org",
		},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}, key)
	world.NoError(t, os.WriteFile(path, []byte(certificate+private), 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	return roots
}
