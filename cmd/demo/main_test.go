package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authgate/gateway/config"
	"authgate/internal/test/porttest"
)

// must returns value, where err would be a fault of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// option returns the argument of an option in a command line.
func option(line, name string) string {
	match := regexp.MustCompile(name + ` (?:'([^']*)'|(\S+))`).FindStringSubmatch(line)
	return strings.Join(match[min(1, len(match)):], "")
}

// request returns the request of a printed curl command or link.
func request(line string) *http.Request {
	method, body := "GET", option(line, "--json")
	if body != "" {
		method = "POST"
	}
	r := must(http.NewRequest(method, line[strings.LastIndex(line, " ")+1:], strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	if username, password, ok := strings.Cut(option(line, "-u"), ":"); ok {
		r.SetBasicAuth(username, password)
	}
	return r
}

// The passwords of the demonstration are public, so nothing listens where others reach it.
func TestDemonstrationIsForThisMachineAlone(t *testing.T) {
	t.Parallel()
	dir, names := t.TempDir(), []string{"config.yaml", "provider.yaml"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), must(os.ReadFile("../../"+name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := shareAuthority(filepath.Join(dir, names[0]), filepath.Join(dir, names[1])); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		cfg, err := config.Load(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{cfg.Listen.HTTPS, cfg.Listen.HTTP3, cfg.Listen.HTTP, cfg.Listen.Admin} {
			at, err := netip.ParseAddrPort(address)
			if address != "" && (err != nil || !at.Addr().IsLoopback()) {
				t.Errorf("%s listens at %q, which is not an address of this machine alone", name, address)
			}
		}
	}
}

// The printed commands and the printed link work, and the demonstration stops. The
// commands of README.md and docs, which e2e runs, check the rest.
func TestRun(t *testing.T) {
	t.Parallel()
	var addresses, places []string // https, http, admin, upstream, provider
	for _, shipped := range []string{
		"127.0.0.1:8443", "127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:9000", "127.0.0.1:9443",
	} {
		addresses = append(addresses, porttest.Address(t))
		places = append(places, shipped, addresses[len(addresses)-1])
	}
	places = append(places, "localhost:8443", addresses[0])
	dir := t.TempDir()
	for _, name := range []string{"config.yaml", "provider.yaml"} {
		text := strings.NewReplacer(places...).Replace(string(must(os.ReadFile("../../" + name))))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "config.yaml")
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
	for _, want := range []string{
		gateway, "http://" + addresses[2] + "/metrics", "http://" + addresses[3], "https://" + addresses[4],
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not tell %s:\n%s", want, said)
		}
	}
	lines := regexp.MustCompile(`(?m)^ *(curl .*|`+regexp.QuoteMeta(gateway)+`/login\?.*)$`).FindAllString(said, -1)
	if len(lines) != 4 {
		t.Fatalf("%d lines to try, want 4:\n%s", len(lines), said)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(option(lines[0], "--cacert"))))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	browser := &http.Client{Transport: transport, Jar: must(cookiejar.New(nil))}
	for _, line := range lines {
		answer := must(browser.Do(request(line)))
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
