package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/cmd/internal/systemd"
	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/internal/test/logtest"
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

// folder writes files into a folder and returns the path of its config.yaml.
func folder(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	return filepath.Join(dir, "config.yaml")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// must returns value, where err would be a fault of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func open(t *testing.T, path string, stderr io.Writer) *App {
	t.Helper()
	return must(Open(t.Context(), path, "test", stderr, systemd.Service{}))
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

// A failed Open closes what it opened: the next one succeeds.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	const good = listenAnywhere + routes + sqliteStore
	for name, c := range map[string]struct{ yaml, broken, want string }{
		"mistakes":                     {"rutes: []\nlog: {level: loud}\n", "", "log.level"},
		"data_dir that cannot be made": {good + "data_dir: file/data\n", "file", "data_dir"},
		"a port in use": {strings.Replace(good, `admin: "127.0.0.1:0"`, fmt.Sprintf("admin: %q", taken.Addr()), 1),
			"", "listen.admin"},
		"a store that cannot be opened": {strings.Replace(good, "sqlite", "sqlite, path: ../accounts.yaml/authgate.db", 1),
			"", "authgate.db"},
		"a broken authority":   {good, "data/ca-key.pem", "ca-key.pem"},
		"a broken signing key": {good, "data/token.secret", "token"},
		"a broken RS256 key":   {good + "token: {algorithm: RS256}\n", "data/token.pem", "token"},
	} {
		path := folder(t, t.TempDir(), map[string]string{"config.yaml": c.yaml, "accounts.yaml": alice})
		broken := filepath.Join(filepath.Dir(path), cmp.Or(c.broken, "unused"))
		write(t, broken, "x")
		_, err := Open(t.Context(), path, "test", io.Discard, systemd.Service{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.want)
		}
		if problems, ok := errors.AsType[config.Diagnostics](err); ok != (name == "mistakes") || ok && len(problems) < 2 {
			t.Errorf("%s: the problems %v", name, problems)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "data")); name == "mistakes" && err == nil {
			t.Errorf("%s: Open created data_dir", name)
		}
		if err := os.Remove(broken); err != nil {
			t.Fatal(err)
		}
		write(t, path, good)
		shut(t, open(t, path, io.Discard))
	}
	nowhere := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := Open(t.Context(), nowhere, "test", io.Discard, systemd.Service{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no configuration: %v, want fs.ErrNotExist", err)
	}
}

// Run serves. Changes apply until the last request is answered. After Run, the
// log is written and the store is closed.
func TestRun(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-answer
	}))
	defer up.Close()
	path := folder(t, t.TempDir(), map[string]string{
		"config.yaml": listenAnywhere + strings.Replace(routes, "http://127.0.0.1:1", up.URL, 1) +
			"  - {match: /slow, upstream: app, auth: [none]}\n" + sqliteStore,
		"accounts.yaml": alice + bob,
	})
	log := &logtest.Buffer{}
	a := open(t, path, log)
	ctx, stop := context.WithCancel(t.Context())
	reload, done := make(chan os.Signal), make(chan error, 1)
	go func() { done <- a.Run(ctx, reload) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		must(client.Get("https://" + a.Server().Address("https") + "/slow")).Body.Close()
		client.CloseIdleConnections()
	}()
	<-arrived
	stop()
	write(t, filepath.Join(filepath.Dir(path), "accounts.yaml"), alice)
	for range 2 { // Run takes the second one after the first is applied
		select {
		case reload <- os.Interrupt:
		case err := <-done:
			t.Fatalf("it has ended: %v", err)
		}
	}
	if users := a.Config().Accounts.Users; len(users) != 1 {
		t.Errorf("the accounts %v", users)
	}
	close(answer)
	<-answered
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(log.Records(t, "reloaded")) == 0 {
		t.Error("the log has no reload")
	}
	if lines := log.Records(t, "request"); len(lines) != 1 || lines[0]["status"] != 200.0 {
		t.Errorf("the access log: %v", lines)
	}
	shut(t, open(t, path, io.Discard))
}

// unclosable is a store that fails when it is closed.
type unclosable struct{ *store.Memory }

func (u unclosable) Close() error {
	return errors.Join(u.Memory.Close(), errors.New("it does not close"))
}

// What makes Run fail is in the log, which is whole when Run returns: its caller prints nothing,
// because a print would wait for what reads it.
func TestRunLogsItsFailure(t *testing.T) {
	t.Parallel()
	path, log := folder(t, t.TempDir(), withAccounts(alice)), &logtest.Buffer{}
	a := must(openWith(t.Context(), func(context.Context, *config.Config, *slog.Logger) (storeCloser, error) {
		return unclosable{store.NewMemory(time.Now)}, nil
	}, path, "test", log, systemd.Service{}))
	ended, end := context.WithCancel(t.Context())
	end()
	err := a.Run(ended, nil)
	if line := log.Last(t, "the gateway failed"); err == nil || line["level"] != "ERROR" ||
		line["error"] != err.Error() {
		t.Errorf("Run: %v; logged %v", err, line)
	}
}
