package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// stub is a gateway with logins.
type stub struct {
	changes []string
	refused error
	logins  []*Login
	failure error // of the list, after the logins
}

func (s *stub) Reload(context.Context, bool) ([]string, error) { return s.changes, s.refused }

func (s *stub) EachLogin(_ context.Context, f func(*Login) error) error {
	for _, l := range s.logins {
		if err := f(l); err != nil {
			return err
		}
	}
	return s.failure
}

func (s *stub) EndLoginsOf(_ context.Context, username string) (n int, err error) {
	for _, l := range s.logins {
		if l.User == username {
			n++
		}
	}
	return n, s.failure
}

func (s *stub) Invite(_ context.Context, username string) (string, error) {
	if username != "alice" {
		return "", ErrNotInvited
	}
	return "https://gw.example.org/x?token=y", s.failure
}

func (s *stub) EndLogin(_ context.Context, id string) (bool, error) {
	for _, l := range s.logins {
		if l.ID == id {
			return true, s.failure
		}
	}
	return false, s.failure
}

// serve runs a Server until the test ends.
func serve(t *testing.T, dataDir string, pid int, gateway controlled) *Server {
	t.Helper()
	s, err := Listen(dataDir, Process{PID: pid, Configuration: "/etc/config.yaml"}, gateway, log.New(t.Output(), "", 0))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return s
}

func find(t *testing.T, dataDir string) *Client {
	t.Helper()
	c, err := Find(t.Context(), dataDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Commands get what the gateway does, or why it does not.
func TestCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 7, 1, 12, 0, 0, 123, time.UTC)
	alice := &Login{
		ID: "A/B?c=%2F d", User: "alice", Mechanism: "session", Provider: "local",
		Created: now, LastUsed: now, Expires: now, Client: "192.0.2.7", UserAgent: "curl",
	}
	g := &stub{changes: []string{"a: 1 -> 2"}, logins: []*Login{alice, {ID: "2"}}}
	serve(t, dir, 7, g)
	c := find(t, dir)
	if c.PID != 7 || c.Configuration != "/etc/config.yaml" {
		t.Errorf("found %+v", c.Process)
	}
	if changes, err := c.Reload(t.Context()); err != nil || !reflect.DeepEqual(changes, g.changes) {
		t.Errorf("reload: %q, %v", changes, err)
	}
	var got []*Login
	list := func(l *Login) error { got = append(got, l); return nil }
	if err := c.EachLogin(t.Context(), list); err != nil || !reflect.DeepEqual(got, g.logins) {
		t.Errorf("listed %+v, %v", got, err)
	}
	enough := errors.New("enough")
	if err := c.EachLogin(t.Context(), func(*Login) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the error of the caller becomes %v", err)
	}
	if err := c.EndLogin(t.Context(), alice.ID); err != nil {
		t.Errorf("end: %v", err)
	}
	refused := func(err error, status int, reason string) {
		t.Helper()
		if r, ok := errors.AsType[*RefusedError](err); !ok || r.Status != status || r.Reason != reason {
			t.Errorf("got %v, want status %d: %s", err, status, reason)
		}
	}
	refused(c.EndLogin(t.Context(), "x"), http.StatusNotFound, "no live login has this id")
	if n, err := c.EndLoginsOf(t.Context(), alice.User); n != 1 || err != nil {
		t.Errorf("logins of alice: %d, %v", n, err)
	}
	if link, err := c.Invite(t.Context(), "alice"); link != "https://gw.example.org/x?token=y" || err != nil {
		t.Errorf("invite: %s, %v", link, err)
	}
	_, err := c.Invite(t.Context(), "bob")
	refused(err, http.StatusConflict, ErrNotInvited.Error())
	g.refused, g.failure = errors.New("line 1\nline 2"), errors.New("no store")
	_, err = c.Invite(t.Context(), "alice")
	refused(err, http.StatusServiceUnavailable, "no store")
	_, err = c.EndLoginsOf(t.Context(), alice.User)
	refused(err, http.StatusServiceUnavailable, "no store")
	_, err = c.Reload(t.Context())
	refused(err, http.StatusConflict, "line 1\nline 2")
	refused(c.EndLogin(t.Context(), alice.ID), http.StatusServiceUnavailable, "no store")
	refused(c.EachLogin(t.Context(), list), http.StatusServiceUnavailable, "no store")
}

// A list that ends too early is an error.
func TestCutList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, dir, 1, &stub{})
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/logins" {
			fmt.Fprintln(w, `{"login":{"id":"1"}}`)
		} else {
			fmt.Fprintln(w, `{"pid":1}`)
		}
	})
	n := 0
	if err := find(t, dir).EachLogin(t.Context(), func(*Login) error { n++; return nil }); err == nil || n != 1 {
		t.Errorf("%d logins, %v", n, err)
	}
}

// Only the user of the gateway gets in, and the socket goes with the gateway.
func TestSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(Folder(dir), 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(dir, Process{}, &stub{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		for path, want := range map[string]fs.FileMode{Folder(dir): fs.ModeDir | 0o700, s.path: fs.ModeSocket | 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(Folder(dir)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A socket that a killed gateway has left is skipped, and removed by the next start.
// That of a gateway that runs stays.
func TestDeadSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	die := func() string {
		dead, err := Listen(dir, Process{}, &stub{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := dead.listener.Close(); err != nil { // as a process that is killed
			t.Fatal(err)
		}
		return dead.path
	}
	die()
	if _, err := Find(t.Context(), dir, 0); !errors.Is(err, errNone) {
		t.Errorf("with a dead socket alone: %v", err)
	}
	first := serve(t, dir, 1, &stub{})
	gone := die()
	if c := find(t, dir); c.PID != 1 {
		t.Errorf("found %+v", c.Process)
	}
	serve(t, dir, 2, &stub{})
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead socket stays: %v", err)
	}
	if _, err := os.Stat(first.path); err != nil {
		t.Errorf("the socket of a gateway that runs: %v", err)
	}
}

// Of several gateways, a command must choose one.
func TestSeveral(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Find(t.Context(), dir, 0); !errors.Is(err, errNone) || !strings.Contains(err.Error(), dir) {
		t.Errorf("without a folder: %v", err)
	}
	serve(t, dir, 20, &stub{})
	serve(t, dir, 3, &stub{})
	if _, err := Find(t.Context(), dir, 0); err == nil || !strings.HasSuffix(err.Error(), "choose one with --pid: 3, 20") {
		t.Errorf("without a choice: %v", err)
	}
	if c, err := Find(t.Context(), dir, 20); err != nil || c.PID != 20 {
		t.Errorf("chosen: %v, %v", c, err)
	}
	if _, err := Find(t.Context(), dir, 4); !errors.Is(err, errNone) || !strings.Contains(err.Error(), "3, 20") {
		t.Errorf("another: %v", err)
	}
	serve(t, dir, 3, &stub{}) // in another container
	if _, err := Find(t.Context(), dir, 3); err == nil || errors.Is(err, errNone) {
		t.Errorf("two of one id: %v", err)
	}
}

// A long data_dir works on Linux. On other systems it is an error that says so.
func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	s, err := Listen(dir, Process{PID: 5}, &stub{}, nil)
	if runtime.GOOS != "linux" {
		if err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Errorf("got %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve() }()
	if c := find(t, dir); c.PID != 5 {
		t.Errorf("found %+v", c.Process)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A process that listens and does not answer is not skipped: a reload must not
// miss it.
func TestSilentGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(Folder(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(Folder(dir), "x"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Find(ctx, dir, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
