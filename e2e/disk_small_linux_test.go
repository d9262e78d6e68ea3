package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk is a file system of 16 MiB with the database of a gateway on it.
type smallDisk struct {
	*instance
	rest string // a file that takes up the rest of it
}

// startOnSmallDisk starts a gateway that sees the file system in a mount
// namespace of its own, for which no privilege is needed.
func startOnSmallDisk(t *testing.T, config string) *smallDisk {
	t.Helper()
	g := prepared(t)
	disk := filepath.Join(g.dir, "data", "disk")
	if err := os.MkdirAll(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	g.within = []string{"unshare", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && exec "$@"`, disk}
	g.configure("store: {path: disk/authgate.db}\n" + config)
	g.run()
	return &smallDisk{g, fmt.Sprintf("/proc/%d/root%s/rest", g.cmd.Process.Pid, disk)}
}

// fill leaves that many bytes free, and less than a page more.
func (d *smallDisk) fill(free int64) {
	d.t.Helper()
	f, err := os.Create(d.rest)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	size, err := io.Copy(f, endless{})
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatalf("the disk has taken %d bytes: %v", size, err)
	}
	if err := f.Truncate(size - free); err != nil {
		d.t.Fatal(err)
	}
}

// endless is a reader of zeros.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// ready is what /readyz answers.
func (g *instance) ready() (status int, body string) {
	g.t.Helper()
	response, err := http.Get(g.adm + "/readyz")
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestSmallDisk fills the disk under a gateway. It says that it is not ready for
// as long as it refuses logins, people can sign out, and logins do not take the
// space that is kept for that.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	up := record(t)
	d := startOnSmallDisk(t, people+"routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n"+app(up.url))
	c := d.stranger()
	login := func() int { return d.do(c, "POST", "/login", right, "Content-Type", typeJSON).status }
	var byCookie, byToken []signIn
	for range 3 {
		byCookie, byToken = append(byCookie, d.signIn(c, "alice")), append(byToken, d.signIn(c, "alice"))
	}
	d.fill(20 << 10)
	until(t, "a login that is refused", func() bool { return login() == http.StatusServiceUnavailable })
	d.neverReadyInVain(t, login)

	for i := range byCookie {
		wantStatus(t, "logout by cookie", d.do(c, "POST", "/logout", "", "Cookie", byCookie[i].session), http.StatusOK)
		wantDead(t, d.instance, up, byCookie[i])
		wantStatus(t, "logout by token", d.do(c, "POST", "/logout", "", "Authorization", byToken[i].access), http.StatusOK)
		wantDead(t, d.instance, up, byToken[i])
		if got := login(); got != http.StatusServiceUnavailable {
			t.Errorf("login %d in the space for logouts: %d", i, got)
		}
	}
	d.neverReadyInVain(t, login)

	if err := os.Remove(d.rest); err != nil {
		t.Fatal(err)
	}
	until(t, "/readyz", func() bool { status, _ := d.ready(); return status == http.StatusOK })
	if got := login(); got != http.StatusOK {
		t.Errorf("a login when the gateway says that it is ready: %d", got)
	}
	for _, message := range []string{"the disk is full or fails", "the reserve for logouts is in use", "the disk has room again"} {
		if !strings.Contains(d.log.String(), message) {
			t.Errorf("the log does not say %q", message)
		}
	}
}

// neverReadyInVain asks for three seconds, in which the gateway looks for room
// more than once, whether it is ready. It must not be while logins are refused.
func (d *smallDisk) neverReadyInVain(t *testing.T, login func() int) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-tick.C {
		status, body := d.ready()
		if got := login(); got != http.StatusServiceUnavailable || status != got {
			t.Fatalf("/readyz: %d %s; a login after that: %d", status, body, got)
		}
		if !strings.Contains(body, "no room on the disk") {
			t.Fatalf("/readyz does not give the reason: %s", body)
		}
	}
}

// TestLostDatabase deletes the database of a gateway, and then puts an older
// copy in its place. Nothing is acknowledged that a restart would not find.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+"routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n"+app(up.url))
	c := g.stranger()
	alice := g.signIn(c, "alice")
	path := filepath.Join(g.dir, "data", "authgate.db")
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	refuses := func(when string) {
		t.Helper()
		for what, a := range map[string]answer{
			"login":  g.do(c, "POST", "/login", right, "Content-Type", typeJSON),
			"logout": g.do(c, "POST", "/logout", "", "Cookie", alice.session),
		} {
			if a.status != http.StatusServiceUnavailable || strings.Contains(a.body, path) {
				t.Errorf("%s, %s: %d %s", when, what, a.status, a.body)
			}
		}
		status, body := g.ready()
		if status != http.StatusServiceUnavailable || !strings.Contains(body, path+" was deleted or replaced") || !strings.Contains(body, "stop the gateway") {
			t.Errorf("%s, /readyz: %d %s", when, status, body)
		}
	}
	refuses("deleted")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses("replaced")
	if entries := g.entriesOf("the store refuses all writes"); len(entries) != 1 || entries[0]["level"] != "ERROR" {
		t.Errorf("the log has %v", entries)
	}
	if err := os.Rename(path+".kept", path); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "logout with the file in its place", g.do(c, "POST", "/logout", "", "Cookie", alice.session), http.StatusOK)
	g.kill()
	g.run()
	wantDead(t, g, up, alice)
}

// TestStartOnFullDisk starts a gateway on a disk that is full but for the
// reserve of the last run. It takes the reserve, so that it can start and people
// can sign out.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := prepared(t)
	disk := filepath.Join(g.dir, "data", "disk")
	if err := os.MkdirAll(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	g.configure("store: {path: disk/authgate.db}\n" + people + "routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n" + app(up.url))
	g.run()
	c := g.stranger()
	alice := g.signIn(c, "alice")
	g.signal(syscall.SIGTERM)
	<-g.done
	if err := errors.Join(os.Rename(disk, disk+".kept"), os.Mkdir(disk, 0o700)); err != nil {
		t.Fatal(err)
	}
	g.within = []string{"unshare", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && cp --sparse=never "$0".kept/* "$0" && { cat /dev/zero > "$0"/rest || true; } && exec "$@"`, disk}
	g.launch("/healthz")
	wantStatus(t, "login", g.do(c, "POST", "/login", right, "Content-Type", typeJSON), http.StatusServiceUnavailable)
	if status, body := g.ready(); status != http.StatusServiceUnavailable || !strings.Contains(body, "no room on the disk") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	wantStatus(t, "with the session of before", g.do(c, "GET", "/secure", "", "Cookie", alice.session), http.StatusOK)
	wantStatus(t, "logout", g.do(c, "POST", "/logout", "", "Cookie", alice.session), http.StatusOK)
	wantDead(t, g, up, alice)
}
