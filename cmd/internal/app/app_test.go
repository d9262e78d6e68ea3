package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"authgate/gateway/config"
)

const (
	listenAnywhere = "listen: {https: \"127.0.0.1:0\", http: \"\", admin: \"127.0.0.1:0\"}\n"
	sqliteStore    = "store: {driver: sqlite}\n"
	memoryStore    = "store: {driver: memory}\n"
	routes         = `
public_url: https://localhost
accounts: {file: accounts.yaml}
upstreams:
  app: {url: "http://127.0.0.1:1"}
routes:
  - {match: /, upstream: app, auth: [session]}
`
	// The passwords are wonderland and builder.
	alice = "- {username: alice, password_hash: \"$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW\"}\n"
	bob   = "- {username: bob, password_hash: \"$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC\"}\n"
)

// output collects the output of a process.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// logged returns the records with a message.
func (o *output) logged(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(o.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("a log line is not JSON: %v: %s", err, line)
		}
		if record["msg"] == message {
			found = append(found, record)
		}
	}
	return found
}

// folder writes files into a new folder and returns the path of its
// config.yaml.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	return filepath.Join(dir, "config.yaml")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, stderr *output) *App {
	t.Helper()
	a, err := Open(t.Context(), path, "test", stderr)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shut closes what Open opened.
func shut(t *testing.T, a *App) {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := a.Run(ended, nil); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// TestOpenFails checks that a failed Open closes what it opened: the next one
// succeeds.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := listenAnywhere + routes + sqliteStore
	for name, c := range map[string]struct{ yaml, broken, want string }{
		"mistakes":                      {"rutes: []\nlog: {level: loud}\n", "", "log.level"},
		"data_dir that cannot be made":  {good + "data_dir: file/data\n", "file", "data_dir"},
		"a port in use":                 {strings.Replace(good, `admin: "127.0.0.1:0"`, fmt.Sprintf("admin: %q", taken.Addr()), 1), "", "listen.admin"},
		"a store that cannot be opened": {strings.Replace(good, "sqlite", "sqlite, path: ../accounts.yaml/authgate.db", 1), "", "authgate.db"},
		"a broken authority":            {good, "data/ca-key.pem", "ca-key.pem"},
		"a broken signing key":          {good, "data/token.secret", "token"},
		"a broken RS256 key":            {good + "token: {algorithm: RS256}\n", "data/token.pem", "token"},
	} {
		path := folder(t, map[string]string{"config.yaml": c.yaml, "accounts.yaml": alice})
		broken := filepath.Join(filepath.Dir(path), c.broken)
		if c.broken != "" {
			if err := os.MkdirAll(filepath.Dir(broken), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, broken, "x")
		}
		_, err := Open(t.Context(), path, "test", &output{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.want)
		}
		if problems, ok := errors.AsType[config.Diagnostics](err); ok != (name == "mistakes") || ok && len(problems) < 2 {
			t.Errorf("%s: the problems %v", name, problems)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "data")); name == "mistakes" && err == nil {
			t.Errorf("%s: Open created data_dir", name)
		}
		if c.broken != "" {
			if err := os.Remove(broken); err != nil {
				t.Fatal(err)
			}
		}
		write(t, path, good)
		shut(t, open(t, path, &output{}))
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "config.yaml"), "test", &output{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no configuration: %v, want fs.ErrNotExist", err)
	}
}

// TestRun checks that Run serves, and that after it the log is written and the
// store is closed.
func TestRun(t *testing.T) {
	t.Parallel()
	path := folder(t, map[string]string{"config.yaml": listenAnywhere + routes + sqliteStore, "accounts.yaml": alice})
	stderr := &output{}
	a := open(t, path, stderr)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, nil) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Get("https://" + a.Server().Address("https") + "/me")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	client.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if lines := stderr.logged(t, "request"); len(lines) != 1 || lines[0]["status"] != 401.0 {
		t.Errorf("the access log: %v", lines)
	}
	shut(t, open(t, path, &output{}))
}
