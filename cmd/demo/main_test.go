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
	"testing"

	"authgate/gateway/config"
	"authgate/gateway/porttest"
)

// moved returns the shipped configuration with other addresses, and these
// addresses: https, http, admin, upstream, provider. They are free, except those
// that are given by their index.
func moved(t *testing.T, given map[int]string) (text string, addresses []string) {
	t.Helper()
	content, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(string(content), `":8443"`, `"localhost:8443"`, 1)
	for i, old := range []string{"localhost:8443", ":8080", "127.0.0.1:9090", "127.0.0.1:9000", "127.0.0.1:9400"} {
		if !strings.Contains(text, old) {
			t.Fatalf("config.yaml has no %s", old)
		}
		address, ok := given[i]
		if !ok {
			address = porttest.Address(t)
		}
		text, addresses = strings.ReplaceAll(text, old, address), append(addresses, address)
	}
	return text, addresses
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

// browser returns an HTTP client that trusts the authority in a file and keeps
// cookies.
func browser(t *testing.T, ca string) *http.Client {
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

// option returns the argument of an option in a command line.
func option(line, name string) string {
	match := regexp.MustCompile(name + ` ('[^']*'|\S+)`).FindStringSubmatch(line)
	if match == nil {
		return ""
	}
	return strings.Trim(match[1], "'")
}

// request returns the request of a printed curl command or link.
func request(t *testing.T, line string) *http.Request {
	t.Helper()
	method, body := "GET", option(line, "--json")
	if body != "" {
		method = "POST"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, line[strings.LastIndex(line, " ")+1:], strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if username, password, ok := strings.Cut(option(line, "-u"), ":"); ok {
		r.SetBasicAuth(username, password)
	}
	return r
}

// The printed commands and the printed link work, and the demonstration stops. The
// commands of README.md and docs, which e2e runs, check the rest.
func TestRun(t *testing.T) {
	t.Parallel()
	text, addresses := moved(t, nil)
	path := write(t, text)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, path, writer)
		writer.Close()
		done <- err
	}()
	said, printed := "", bufio.NewScanner(reader)
	for !strings.Contains(said, "Ctrl-C") {
		if !printed.Scan() {
			t.Fatalf("it says no more than %q: %v", said, <-done)
		}
		said += printed.Text() + "\n"
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
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
	client := browser(t, option(lines[0], "--cacert"))
	for _, line := range lines {
		answer, err := client.Do(request(t, line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if answer.Body.Close(); answer.StatusCode != 200 {
			t.Errorf("%s: %s", line, answer.Status)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, address := range addresses {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s is still served", address)
		}
	}
}

// Only a provider called demo, at an http URL, is the bundled one.
func TestBundledProvider(t *testing.T) {
	t.Parallel()
	bundled := config.Provider{Name: "demo", Issuer: "http://127.0.0.1:9400"}
	others := []config.Provider{{Name: "other", Issuer: bundled.Issuer}, {Name: "demo", Issuer: "https://127.0.0.1:9400"}}
	if got, ok := bundledProvider(&config.Config{Providers: others}); ok {
		t.Errorf("got %+v", got)
	}
	if got, ok := bundledProvider(&config.Config{Providers: append(others, bundled)}); !ok || got.Name != "demo" || got.Issuer != bundled.Issuer {
		t.Errorf("got %+v, %t", got, ok)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().String()
	noUpstream, _ := moved(t, map[int]string{3: taken})
	noProvider, _ := moved(t, map[int]string{4: taken})
	for want, path := range map[string]string{
		"no such file":                                         filepath.Join(t.TempDir(), "config.yaml"),
		"no upstream called resources":                         write(t, fmt.Sprintf("listen: {https: %q, http: \"\", admin: \"\"}\nstore: {driver: memory}\n", porttest.Address(t))),
		"starting the upstream: listen tcp " + taken:           write(t, noUpstream),
		"starting the provider: provider: listen tcp " + taken: write(t, noProvider),
	} {
		if err := run(t.Context(), path, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
