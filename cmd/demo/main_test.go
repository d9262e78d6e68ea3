package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"authgate/gateway/porttest"
)

// ports are the addresses of the demonstration.
type ports struct{ https, http, admin, upstream, provider string }

func freePorts(t *testing.T) ports {
	t.Helper()
	return ports{porttest.Address(t), porttest.Address(t), porttest.Address(t), porttest.Address(t), porttest.Address(t)}
}

// shipped is the shipped configuration in a folder of its own, on other
// addresses.
func shipped(t *testing.T, p ports) string {
	t.Helper()
	content, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for old, address := range map[string]string{
		"https://localhost:8443": "https://" + p.https, `":8443"`: `"` + p.https + `"`, `":8080"`: `"` + p.http + `"`,
		"127.0.0.1:9090": p.admin, "127.0.0.1:9000": p.upstream, "127.0.0.1:9400": p.provider,
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("config.yaml has no %s", old)
		}
		text = strings.Replace(text, old, address, 1)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// demonstration is one that runs.
type demonstration struct {
	t    *testing.T
	dir  string
	said string // what it has printed
	stop func() error
}

// start runs the demonstration and waits until it has explained itself.
func start(t *testing.T, path string) *demonstration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, path, writer)
		writer.Close()
		done <- err
	}()
	d := &demonstration{t: t, dir: filepath.Dir(path), stop: sync.OnceValue(func() error {
		cancel()
		return <-done
	})}
	t.Cleanup(func() { _ = d.stop() })
	printed := bufio.NewScanner(reader)
	for !strings.Contains(d.said, "Ctrl-C") {
		if !printed.Scan() {
			t.Fatalf("it says no more than %q: %v", d.said, d.stop())
		}
		d.said += printed.Text() + "\n"
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return d
}

// lines are those that it printed and that begin like this.
func (d *demonstration) lines(prefix string) []string {
	var lines []string
	for line := range strings.Lines(d.said) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return lines
}

// client trusts the certificate authority that is in a file, and keeps cookies.
func client(t *testing.T, ca string) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Jar: jar}
}

// argument is that of an option on a command line.
func argument(line, option string) string {
	match := regexp.MustCompile(option + ` ('[^']*'|\S+)`).FindStringSubmatch(line)
	if match == nil {
		return ""
	}
	return strings.Trim(match[1], "'")
}

// curl does what a line that the demonstration prints tells curl to do, and
// returns the status.
func curl(t *testing.T, client *http.Client, line string) int {
	t.Helper()
	method, body := "GET", argument(line, "--json")
	if body != "" {
		method = "POST"
	}
	request, err := http.NewRequestWithContext(t.Context(), method, line[strings.LastIndex(line, " ")+1:], strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if username, password, ok := strings.Cut(argument(line, "-u"), ":"); ok {
		request.SetBasicAuth(username, password)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	response.Body.Close()
	return response.StatusCode
}

// The lines that the demonstration prints work, and it stops when it is told.
func TestRun(t *testing.T) {
	t.Parallel()
	p := freePorts(t)
	d := start(t, shipped(t, p))
	for _, want := range []string{"https://" + p.https, "http://" + p.admin + "/metrics", "http://" + p.upstream, "http://" + p.provider} {
		if !strings.Contains(d.said, want) {
			t.Errorf("it does not tell %s:\n%s", want, d.said)
		}
	}
	lines := d.lines("curl ")
	if len(lines) != 3 {
		t.Fatalf("%d lines to try, want 3", len(lines))
	}
	c := client(t, argument(lines[0], "--cacert"))
	for _, line := range lines {
		if status := curl(t, c, line); status != 200 {
			t.Errorf("%s: %d", line, status)
		}
	}
	if err := d.stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, address := range []string{p.https, p.http, p.admin, p.upstream, p.provider} {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s is still served", address)
		}
	}
}

// fetch does a request and returns the body and the address that it ended at.
func fetch(t *testing.T, client *http.Client, method, target string, form url.Values) (status int, body, at string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Request.URL.String()
}

// The delegated login that the demonstration tells of: to the provider, back,
// and out of both at once.
func TestDelegatedLogin(t *testing.T) {
	t.Parallel()
	p := freePorts(t)
	d := start(t, shipped(t, p))
	links := d.lines("https://" + p.https + "/login?")
	if len(links) != 1 {
		t.Fatalf("it tells %d addresses to sign in at, want 1:\n%s", len(links), d.said)
	}
	person := func(username, password string) (*http.Client, int, string) {
		c := client(t, filepath.Join(d.dir, "data", "ca.pem"))
		_, page, at := fetch(t, c, "GET", links[0], nil)
		if !strings.HasPrefix(at, "http://"+p.provider+"/signin?") {
			t.Fatalf("the browser ended at %s:\n%s", at, page)
		}
		status, body, at := fetch(t, c, "POST", at, url.Values{"username": {username}, "password": {password}})
		if at != "https://"+p.https+"/admin-resource" {
			t.Fatalf("after signing in, the browser ended at %s: %d\n%s", at, status, body)
		}
		return c, status, body
	}
	if _, status, _ := person("bob", "builder"); status != 403 {
		t.Errorf("bob gets %d of /admin-resource, want 403", status)
	}
	alice, status, body := person("alice", "wonderland")
	for _, want := range []string{`"user":"alice"`, `"subject":"demo:1001"`, `"roles":["user","admin"]`, `"mechanism":"oidc"`, `"provider":"demo"`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("alice gets %d %s, want %s", status, body, want)
		}
	}

	resource := "https://" + p.https + "/secure-resource"
	if status, body, _ := fetch(t, alice, "GET", resource, nil); status != 200 || !strings.Contains(body, `"user":"alice"`) {
		t.Errorf("alice gets %d %s of /secure-resource", status, body)
	}
	fetch(t, alice, "GET", "http://"+p.provider+"/logout", nil)
	if status, body, _ := fetch(t, alice, "GET", resource, nil); status != 401 {
		t.Errorf("signed out at the provider, alice gets %d %s, want 401", status, body)
	}
}

// A configuration without the bundled provider has none started.
func TestOtherProviders(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"another name":   {"- name: demo ", "- name: other "},
		"another issuer": {"issuer: http://", "issuer: https://"},
	} {
		p := freePorts(t)
		path := shipped(t, p)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(content), change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		d := start(t, path)
		if strings.Contains(d.said, p.provider) {
			t.Errorf("%s: it tells of a provider:\n%s", name, d.said)
		}
		if conn, err := net.Dial("tcp", p.provider); err == nil {
			conn.Close()
			t.Errorf("%s: a provider is served", name)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), filepath.Join(t.TempDir(), "config.yaml"), io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a configuration: %v", err)
	}
	for what, place := range map[string]func(*ports) *string{
		"starting the upstream": func(p *ports) *string { return &p.upstream },
		"starting the provider": func(p *ports) *string { return &p.provider },
	} {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		p := freePorts(t)
		*place(&p) = taken.Addr().String()
		err = run(t.Context(), shipped(t, p), io.Discard)
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("%s with its port in use: %v", what, err)
		}
	}
	other := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("listen: {https: %q, http: \"\", admin: \"\"}\nstore: {driver: memory}\n", porttest.Address(t))
	if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), other, io.Discard); err == nil || !strings.Contains(err.Error(), "no upstream called resources") {
		t.Errorf("without the upstream: %v", err)
	}
}
