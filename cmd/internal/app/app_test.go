package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// output keeps what a process writes.
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

// logged returns the records with that message.
func (o *output) logged(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(o.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("a log line is no JSON: %v: %s", err, line)
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

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	t.Run("no configuration", func(t *testing.T) {
		t.Parallel()
		_, err := Open(t.Context(), filepath.Join(t.TempDir(), "config.yaml"), "test", &output{})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	})
	t.Run("a configuration at fault", func(t *testing.T) {
		t.Parallel()
		path := folder(t, map[string]string{"config.yaml": "rutes: []\nlog: {level: loud}\n"})
		_, err := Open(t.Context(), path, "test", &output{})
		var problems config.Diagnostics
		if !errors.As(err, &problems) || len(problems) < 2 {
			t.Errorf("got %v, want both problems", err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "data")); err == nil {
			t.Error("data_dir was made for a configuration at fault")
		}
	})
	t.Run("data_dir that cannot be made", func(t *testing.T) {
		t.Parallel()
		path := folder(t, map[string]string{"config.yaml": listenAnywhere + routes + "data_dir: file/data\n", "accounts.yaml": alice, "file": ""})
		_, err := Open(t.Context(), path, "test", &output{})
		var problems config.Diagnostics
		if err == nil || !strings.Contains(err.Error(), "data_dir") || errors.As(err, &problems) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a store that cannot be opened", func(t *testing.T) {
		t.Parallel()
		path := folder(t, map[string]string{"config.yaml": listenAnywhere + routes + sqliteStore, "accounts.yaml": alice})
		a := open(t, path, &output{})
		defer shut(t, a)
		if second, err := Open(t.Context(), path, "test", &output{}); err == nil {
			t.Errorf("two processes share one database: %v", second)
		}
	})
}

// Whatever fails after the store was opened, the store is closed again, so
// that the next try can open it.
func TestOpenClosesStore(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := listenAnywhere + routes + sqliteStore
	for name, c := range map[string]struct{ yaml, file, want string }{
		"a port in use":        {strings.Replace(good, `admin: "127.0.0.1:0"`, fmt.Sprintf("admin: %q", taken.Addr()), 1), "", "listen.admin"},
		"a broken authority":   {good, "data/ca-key.pem", "ca-key.pem"},
		"a broken signing key": {good, "data/token.secret", "token"},
		"a broken RS256 key":   {good + "token: {algorithm: RS256}\n", "data/token.pem", "token"},
	} {
		path := folder(t, map[string]string{"config.yaml": c.yaml, "accounts.yaml": alice})
		broken := filepath.Join(filepath.Dir(path), c.file)
		if c.file != "" {
			if err := os.MkdirAll(filepath.Dir(broken), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, broken, "x")
		}
		a, err := Open(t.Context(), path, "test", &output{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want an error about %s", name, a, err, c.want)
		}
		if c.file != "" {
			if err := os.Remove(broken); err != nil {
				t.Fatal(err)
			}
		}
		write(t, path, good)
		shut(t, open(t, path, &output{}))
	}
}

// What is made under data_dir is nobody else's business, but for the public
// certificate; and it survives a restart.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	path := folder(t, map[string]string{"config.yaml": listenAnywhere + routes + sqliteStore, "accounts.yaml": alice})
	data := filepath.Join(filepath.Dir(path), "data")
	kept := map[string][]byte{}
	for range 2 {
		shut(t, open(t, path, &output{}))
		for _, name := range []string{"ca.pem", "ca-key.pem", "token.secret"} {
			content, err := os.ReadFile(filepath.Join(data, name))
			if err != nil {
				t.Fatal(err)
			}
			if kept[name] != nil && !bytes.Equal(content, kept[name]) {
				t.Errorf("%s is another one after a restart", name)
			}
			kept[name] = content
		}
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data_dir: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if want := fs.FileMode(0o600); entry.Name() != "ca.pem" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, want %v", entry.Name(), info.Mode(), want)
		}
	}
}

// A gateway runs, answers over TLS with its own authority, and stops; all that
// it has said is then written.
func TestRun(t *testing.T) {
	t.Parallel()
	path := folder(t, map[string]string{"config.yaml": listenAnywhere + routes + sqliteStore, "accounts.yaml": alice})
	stderr := &output{}
	a := open(t, path, stderr)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, nil) }()
	pem, err := os.ReadFile(filepath.Join(a.Config().DataDir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("https://" + a.Server().Address("https") + "/me")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 401 || answer.ProtoMajor != 2 {
		t.Errorf("%s %s", answer.Proto, answer.Status)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if lines := stderr.logged(t, "request"); len(lines) != 1 || lines[0]["status"] != 401.0 {
		t.Errorf("the access log: %v", lines)
	}
	shut(t, open(t, path, &output{})) // the store was closed
}

// following runs f beside a gateway that follows its files, on the clock of a
// bubble.
func following(t *testing.T, files map[string]string, f func(a *App, stderr *output, reload chan<- os.Signal)) {
	t.Helper()
	followingOn(t, openConfigured, files, f)
}

// applied is how long after it was written a file beside the configuration
// applies at the latest: at the second look.
const applied = 2 * watchEvery

// wait lets d pass on the clock of the bubble.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// users are who may sign in, by whether they really can.
func (a *App) users(t *testing.T) string {
	t.Helper()
	var able []string
	for username, password := range map[string]string{"alice": "wonderland", "bob": "builder"} {
		r := httptest.NewRequest("POST", "/login", nil)
		r.Host = "localhost"
		r.SetBasicAuth(username, password)
		w := httptest.NewRecorder()
		a.gateway.ServeHTTP(w, r)
		if w.Code == 200 {
			able = append(able, username)
		}
	}
	slices.Sort(able)
	return strings.Join(able, " ")
}

var configuration = map[string]string{"config.yaml": listenAnywhere + routes + memoryStore, "accounts.yaml": alice}

// A changed accounts file applies by itself, and within the 10 s of the design.
func TestFollowAccounts(t *testing.T) {
	t.Parallel()
	following(t, configuration, func(a *App, stderr *output, _ chan<- os.Signal) {
		file := a.Config().Accounts.File
		for _, c := range []struct{ content, want string }{{alice + bob, "alice bob"}, {bob, "bob"}, {"[]\n", ""}, {alice, "alice"}} {
			write(t, file, c.content)
			wait(applied)
			if got := a.users(t); got != c.want {
				t.Errorf("after %q: %q can sign in, want %q", c.content, got, c.want)
			}
		}
		if n := len(stderr.logged(t, "reloaded")); n != 4 {
			t.Errorf("%d reloads were logged", n)
		}
		wait(time.Hour)
		if n := len(stderr.logged(t, "reloaded")); n != 4 {
			t.Errorf("%d reloads were logged although nothing has changed since", n)
		}
	})
	if applied >= 10*time.Second {
		t.Errorf("a change applies after %v", applied)
	}
}

// While a file is being written there may be a part of it for anyone to see,
// and it may well be valid. It applies when it is whole.
func TestFollowHalfWritten(t *testing.T) {
	t.Parallel()
	files := map[string]string{"config.yaml": configuration["config.yaml"], "accounts.yaml": alice + bob}
	following(t, files, func(a *App, stderr *output, _ chan<- os.Signal) {
		for _, part := range []string{"", bob, bob + alice} {
			write(t, a.Config().Accounts.File, part)
			wait(watchEvery)
			if got := a.users(t); got != "alice bob" || len(stderr.logged(t, "reloaded")) > 0 {
				t.Errorf("when %q is written: %q can sign in", part, got)
			}
		}
		wait(applied - watchEvery)
		if n := len(stderr.logged(t, "reloaded")); n != 1 {
			t.Errorf("%d reloads were logged", n)
		}
		if got := a.users(t); got != "alice bob" {
			t.Errorf("when all is written: %q can sign in", got)
		}
	})
}

// A change between the reading of the files and the first look at them counts
// too.
func TestFollowFromTheStart(t *testing.T) {
	t.Parallel()
	path := folder(t, configuration)
	synctest.Test(t, func(t *testing.T) {
		a := open(t, path, &output{})
		defer shut(t, a)
		write(t, a.Config().Accounts.File, alice+bob)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.follow(ctx, nil)
		wait(applied)
		if got := a.users(t); got != "alice bob" {
			t.Errorf("%q can sign in", got)
		}
	})
}

// A broken file changes nothing. Each problem is logged, once, and when the
// file is well again it applies.
func TestFollowBrokenFile(t *testing.T) {
	t.Parallel()
	following(t, configuration, func(a *App, stderr *output, _ chan<- os.Signal) {
		file := a.Config().Accounts.File
		write(t, file, "- {username: bob, pasword_hash: x}\n- {username: 7, roles: [\"a,b\"]}\n")
		wait(10 * watchEvery)
		if got := a.users(t); got != "alice" {
			t.Errorf("%q can sign in", got)
		}
		problems := stderr.logged(t, "reload failed, the running configuration is kept")
		lines := map[any]bool{}
		for _, p := range problems {
			lines[p["line"]] = true
			if p["file"] != file || p["level"] != "ERROR" || p["column"] == 0.0 || p["key"] == "" || p["problem"] == "" || p["what"] == "" {
				t.Errorf("logged %v", p)
			}
		}
		if len(problems) < 2 || !lines[1.0] || !lines[2.0] {
			t.Errorf("logged %v", problems)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		wait(applied)
		if got := a.users(t); got != "alice" {
			t.Errorf("without the file: %q can sign in", got)
		}
		write(t, file, bob)
		wait(applied)
		if got := a.users(t); got != "bob" {
			t.Errorf("once it is well again: %q can sign in", got)
		}
	})
}

// A signal reads the configuration anew; by itself the file is not looked at.
func TestFollowSignal(t *testing.T) {
	t.Parallel()
	following(t, configuration, func(a *App, stderr *output, reload chan<- os.Signal) {
		main := filepath.Join(filepath.Dir(a.Config().Accounts.File), "config.yaml")
		inPlace := strings.Replace(configuration["config.yaml"], "{file: accounts.yaml}", "{users: ["+strings.TrimPrefix(strings.TrimSpace(bob), "- ")+"]}", 1)
		write(t, main, inPlace)
		wait(time.Minute)
		if got := a.users(t); got != "alice" {
			t.Errorf("before the signal: %q can sign in", got)
		}
		reload <- os.Interrupt
		wait(0)
		if got := a.users(t); got != "bob" {
			t.Errorf("after the signal: %q can sign in", got)
		}
		write(t, main, "nonsense: 1\nmore: 2\n")
		reload <- os.Interrupt
		wait(0)
		if got := a.users(t); got != "bob" {
			t.Errorf("after a configuration at fault: %q can sign in", got)
		}
		if n := len(stderr.logged(t, "reload failed, the running configuration is kept")); n < 2 {
			t.Errorf("%d problems were logged", n)
		}
		write(t, main, strings.Replace(configuration["config.yaml"], "memory", "sqlite", 1))
		reload <- os.Interrupt
		wait(0)
		all := stderr.logged(t, "reload failed, the running configuration is kept")
		if last := all[len(all)-1]; !strings.Contains(fmt.Sprint(last["error"]), "store") || !strings.Contains(fmt.Sprint(last["error"]), "restart") {
			t.Errorf("logged %v", last)
		}
		// From here on a file beside it counts again.
		write(t, main, configuration["config.yaml"])
		reload <- os.Interrupt
		wait(applied)
		write(t, filepath.Join(filepath.Dir(main), "accounts.yaml"), alice+bob)
		wait(applied)
		if got := a.users(t); got != "alice bob" {
			t.Errorf("after a change beside it: %q can sign in", got)
		}
	})
}

// A fresh certificate is used without a restart, a broken one is not.
func TestFollowCertificate(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"config.yaml":   listenAnywhere + routes + memoryStore + "tls: {mode: files, certificate: c.pem, key: k.pem}\n",
		"accounts.yaml": alice,
	}
	files["c.pem"], files["k.pem"] = pair(t)
	following(t, files, func(a *App, stderr *output, _ chan<- os.Signal) {
		dir := filepath.Dir(a.Config().TLS.Certificate)
		for name, content := range map[string]string{"broken": "x", "fresh": ""} {
			certificate, key := pair(t)
			if content != "" {
				certificate = content
			}
			write(t, filepath.Join(dir, "c.pem"), certificate)
			write(t, filepath.Join(dir, "k.pem"), key)
			before := len(stderr.logged(t, "reloaded"))
			wait(applied)
			if reloaded := len(stderr.logged(t, "reloaded")) > before; reloaded != (name == "fresh") {
				t.Errorf("a %s certificate is used: %t", name, reloaded)
			}
		}
		if n := len(stderr.logged(t, "reload failed, the running configuration is kept")); n == 0 {
			t.Error("nothing was logged of the broken certificate")
		}
	})
}
