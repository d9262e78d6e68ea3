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
	"testing"
)

// addresses are loopback addresses that nobody listens on.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	all := make([]string, n)
	for i := range all {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() // all stay taken until the last is found
		all[i] = listener.Addr().String()
	}
	return all
}

// shipped is the shipped configuration in a folder of its own, on other
// addresses.
func shipped(t *testing.T, https, http, admin, upstream string) string {
	t.Helper()
	content, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for old, address := range map[string]string{
		"https://localhost:8443": "https://" + https, `":8443"`: `"` + https + `"`, `":8080"`: `"` + http + `"`,
		"127.0.0.1:9090": admin, "127.0.0.1:9000": upstream,
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

// curl does what a line that the demonstration prints tells curl to do, and
// returns the status.
func curl(t *testing.T, jar http.CookieJar, line string) int {
	t.Helper()
	argument := func(option string) string {
		match := regexp.MustCompile(option + ` ('[^']*'|\S+)`).FindStringSubmatch(line)
		if match == nil {
			return ""
		}
		return strings.Trim(match[1], "'")
	}
	pem, err := os.ReadFile(argument("--cacert"))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	method, body := "GET", argument("--json")
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
	if username, password, ok := strings.Cut(argument("-u"), ":"); ok {
		request.SetBasicAuth(username, password)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Jar: jar}).Do(request)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	response.Body.Close()
	return response.StatusCode
}

// The lines that the demonstration prints work, and it stops when it is told.
func TestRun(t *testing.T) {
	t.Parallel()
	a := addresses(t, 4)
	path := shipped(t, a[0], a[1], a[2], a[3])
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, path, writer) }()

	var lines []string
	printed := bufio.NewScanner(reader)
	said := ""
	for !strings.Contains(said, "Ctrl-C") && printed.Scan() {
		said += printed.Text() + "\n"
		if line := strings.TrimSpace(printed.Text()); strings.HasPrefix(line, "curl ") {
			lines = append(lines, line)
		}
	}
	for _, want := range []string{"https://" + a[0], "http://" + a[2] + "/metrics", "http://" + a[3]} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not tell %s:\n%s", want, said)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines to try, want 3", len(lines))
	}
	for _, line := range lines {
		if status := curl(t, jar, line); status != 200 {
			t.Errorf("%s: %d", line, status)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, address := range a {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s is still served", address)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), filepath.Join(t.TempDir(), "config.yaml"), io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a configuration: %v", err)
	}
	a := addresses(t, 3)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = run(t.Context(), shipped(t, a[0], a[1], a[2], taken.Addr().String()), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "starting the upstream") || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("with the upstream's port in use: %v", err)
	}
	other := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("listen: {https: %q, http: \"\", admin: \"\"}\nstore: {driver: memory}\n", addresses(t, 1)[0])
	if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), other, io.Discard); err == nil || !strings.Contains(err.Error(), "no upstream called resources") {
		t.Errorf("without the upstream: %v", err)
	}
}
