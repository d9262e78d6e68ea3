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
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"authgate/gateway/config"
	"authgate/gateway/porttest"
)

// ports has the addresses of the demonstration.
type ports struct{ https, http, admin, upstream, provider string }

func freePorts(t *testing.T) ports {
	t.Helper()
	return ports{porttest.Address(t), porttest.Address(t), porttest.Address(t), porttest.Address(t), porttest.Address(t)}
}

// shipped writes the shipped configuration with other addresses into a new folder.
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

// demonstration is a running demonstration.
type demonstration struct {
	t    *testing.T
	dir  string
	said string // its output
	stop func() error
}

// start runs the demonstration and waits for the end of its explanation.
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

// lines returns the printed lines that begin with prefix.
func (d *demonstration) lines(prefix string) []string {
	var lines []string
	for line := range strings.Lines(d.said) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return lines
}

// client returns an HTTP client that trusts the authority in a file and keeps cookies.
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

// argument returns the argument of an option in a command line.
func argument(line, option string) string {
	match := regexp.MustCompile(option + ` ('[^']*'|\S+)`).FindStringSubmatch(line)
	if match == nil {
		return ""
	}
	return strings.Trim(match[1], "'")
}

// curl does what a printed curl command does, or opens a printed link, and returns
// the status.
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

// TestRun checks that the printed commands and the printed link work, and that
// the demonstration stops. The commands of README.md and docs, which e2e runs,
// check the rest.
func TestRun(t *testing.T) {
	t.Parallel()
	p := freePorts(t)
	d := start(t, shipped(t, p))
	for _, want := range []string{"https://" + p.https, "http://" + p.admin + "/metrics", "http://" + p.upstream, "http://" + p.provider} {
		if !strings.Contains(d.said, want) {
			t.Errorf("it does not tell %s:\n%s", want, d.said)
		}
	}
	lines := append(d.lines("curl "), d.lines("https://"+p.https+"/login?")...)
	if len(lines) != 4 {
		t.Fatalf("%d lines to try, want 4:\n%s", len(lines), d.said)
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

// TestBundledProvider checks which providers the demonstration starts.
func TestBundledProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		providers []config.Provider
		want      bool
	}{
		"none":           {nil, false},
		"another name":   {[]config.Provider{{Name: "other", Issuer: "http://127.0.0.1:9400"}}, false},
		"another issuer": {[]config.Provider{{Name: "demo", Issuer: "https://127.0.0.1:9400"}}, false},
		"the second":     {[]config.Provider{{Name: "other"}, {Name: "demo", Issuer: "http://127.0.0.1:9400"}}, true},
	} {
		got, ok := bundledProvider(&config.Config{Providers: c.providers})
		if ok != c.want || ok && got.Name != "demo" {
			t.Errorf("%s: %v %q, want %v", name, ok, got.Name, c.want)
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
