package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
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

// shipped are the addresses in config.yaml: https, http, admin, upstream, provider.
var shipped = []string{"localhost:8443", ":8080", "127.0.0.1:9090", "127.0.0.1:9000", "127.0.0.1:9400"}

// moved writes the shipped configuration into a new folder, with the given
// addresses, in the order of shipped.
func moved(t *testing.T, addresses []string) string {
	t.Helper()
	content, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(content), `":8443"`, `"`+addresses[0]+`"`, 1)
	for i, old := range shipped {
		if !strings.Contains(text, old) {
			t.Fatalf("config.yaml has no %s", old)
		}
		text = strings.Replace(text, old, addresses[i], 1)
	}
	return write(t, text)
}

// write writes a configuration into a new folder.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddresses(t *testing.T) []string {
	t.Helper()
	var free []string
	for range shipped {
		free = append(free, porttest.Address(t))
	}
	return free
}

// start runs the demonstration, waits for the end of its explanation, and returns
// that and a function that stops the demonstration.
func start(t *testing.T, path string) (said string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, path, writer)
		writer.Close()
		done <- err
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	printed := bufio.NewScanner(reader)
	for !strings.Contains(said, "Ctrl-C") {
		if !printed.Scan() {
			t.Fatalf("it says no more than %q: %v", said, stop())
		}
		said += printed.Text() + "\n"
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return said, stop
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
	addresses := freeAddresses(t)
	said, stop := start(t, moved(t, addresses))
	gateway := "https://" + addresses[0]
	for _, want := range []string{gateway, "http://" + addresses[2] + "/metrics", "http://" + addresses[3], "http://" + addresses[4]} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not tell %s:\n%s", want, said)
		}
	}
	lines := regexp.MustCompile(`(?m)^ *(curl .*|`+regexp.QuoteMeta(gateway)+`/login\?.*)$`).FindAllString(said, -1)
	if len(lines) != 4 {
		t.Fatalf("%d lines to try, want 4:\n%s", len(lines), said)
	}
	c := client(t, argument(lines[0], "--cacert"))
	for _, line := range lines {
		if status := curl(t, c, line); status != 200 {
			t.Errorf("%s: %d", line, status)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, address := range addresses {
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
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	noUpstream, noProvider := freeAddresses(t), freeAddresses(t)
	noUpstream[3], noProvider[4] = taken.Addr().String(), taken.Addr().String()
	without := fmt.Sprintf("listen: {https: %q, http: \"\", admin: \"\"}\nstore: {driver: memory}\n", porttest.Address(t))
	for want, path := range map[string]string{
		"no such file":                 filepath.Join(t.TempDir(), "config.yaml"),
		"no upstream called resources": write(t, without),
		"starting the upstream: listen tcp " + taken.Addr().String():           moved(t, noUpstream),
		"starting the provider: provider: listen tcp " + taken.Addr().String(): moved(t, noProvider),
	} {
		if err := run(t.Context(), path, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
