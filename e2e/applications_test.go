package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tests of applications start the real programs behind the gateway with the
// configurations of docs/applications.md, and use them as their users do.

// applicationsPage is the document with the configurations.
func applicationsPage(t *testing.T) *document {
	t.Helper()
	return parseDocument(t, "docs/applications.md", readFile(t, "../docs/applications.md"))
}

// documentedApp returns the configuration for an upstream as docs/applications.md shows
// it, with the address where the application is in the test.
func documentedApp(t *testing.T, upstream, address string) string {
	t.Helper()
	for _, b := range applicationsPage(t).blocks {
		if b.info != "yaml fragment" {
			continue
		}
		upstreams, _ := decodeYAML(t, b.text())["upstreams"].(map[string]any)
		shown, _ := upstreams[upstream].(map[string]any)
		if url, _ := shown["url"].(string); url != "" {
			return substituted(t, b.text(), url, address)
		}
	}
	t.Fatalf("docs/applications.md has no configuration with the upstream %s", upstream)
	return ""
}

// documentedFile returns a file that docs/applications.md shows.
func documentedFile(t *testing.T, name string) string {
	t.Helper()
	for _, b := range applicationsPage(t).blocks {
		if shown, ok := b.file(); ok && shown == name {
			return b.text()
		}
	}
	t.Fatalf("docs/applications.md does not show %s", name)
	return ""
}

// tap passes connections on to an application, and keeps what it gets.
type tap struct {
	url string

	mu  sync.Mutex
	got strings.Builder
}

// tapKeeps bounds what is kept of each connection.
const tapKeeps = 1 << 20

// tapped returns a tap in front of an application at an address.
func tapped(t *testing.T, address string) *tap {
	t.Helper()
	p := &tap{}
	p.url = listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", address)
		if err != nil {
			t.Errorf("the application: %v", err)
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(client, server) // either side may leave
			client.Close()
		}()
		kept := &tapRecord{tap: p, left: tapKeeps}
		_, _ = io.Copy(server, io.TeeReader(client, kept))
	})
	return p
}

// tapRecord is what a tap keeps of one connection.
type tapRecord struct {
	tap  *tap
	left int
}

// Write implements io.Writer.
func (k *tapRecord) Write(p []byte) (int, error) {
	k.tap.mu.Lock()
	defer k.tap.mu.Unlock()
	n := min(k.left, len(p))
	k.tap.got.Write(p[:n])
	k.left -= n
	return len(p), nil
}

// values returns the different values of a header that reached the application.
func (p *tap) values(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]bool{}
	for line := range strings.Lines(p.got.String()) {
		if header, value, ok := strings.Cut(line, ":"); ok && textproto.CanonicalMIMEHeaderKey(header) == name {
			found[strings.TrimSpace(value)] = true
		}
	}
	values := []string{}
	for value := range found {
		values = append(values, value)
	}
	slices.Sort(values)
	return values
}

// has reports whether a text reached the application.
func (p *tap) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.got.String(), text)
}

// wantUser fails the test unless all requests that reached the application were those of
// a user, and none of them had a secret.
func (p *tap) wantUser(t *testing.T, user string, secrets ...string) {
	t.Helper()
	if got := p.values("X-Auth-User"); !slices.Equal(got, []string{user}) {
		t.Errorf("the application got the users %q, expected %s", got, user)
	}
	for _, secret := range secrets {
		if p.has(secret) {
			t.Errorf("the application got the credential %.8s…", secret)
		}
	}
}

// launch starts an application, and waits until it answers at url. The application
// ends with the test.
func launch(t *testing.T, url string, cmd *exec.Cmd) {
	t.Helper()
	out := &lines{}
	cmd.Stdout, cmd.Stderr = out, out
	ended := spawn(t, cmd)
	if err := await(url, ended); err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Path, err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote\n%s", cmd.Path, out)
		}
	})
}

// apiToken signs a user in, and returns a new API token.
func (g *instance) apiToken(user string) string {
	g.t.Helper()
	c := g.stranger()
	in := g.signIn(c, user)
	a := g.do(c, "POST", "/account/tokens", `{"name":"a program","expires_in":3600}`,
		"Content-Type", typeJSON, "Cookie", in.session, "Origin", g.base)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusCreated || !strings.HasPrefix(made.Token, "agt_") {
		g.t.Fatalf("the API token: %d %s, %v", a.status, a.body, err)
	}
	return made.Token
}

// shellIn returns a command in a folder, which is also the user's home, with more
// variables of the environment.
func shellIn(dir string, variables []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"HOME=" + dir}, variables...)...)
	return cmd
}

// runs runs a command that must succeed, and returns what it prints.
func runs(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}
