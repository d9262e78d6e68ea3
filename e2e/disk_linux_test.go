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

// startOnSmallDisk starts a gateway that sees the file system in its own mount
// namespace, which needs no privilege.
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

// fill leaves free bytes, and less than a page more.
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

// TestSmallDisk fills the disk of a gateway. While it refuses logins it is not
// ready, and sets no cookie. Logouts work, and logins do not take the
// space that is reserved for them.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	up := record(t)
	d := startOnSmallDisk(t, people+"routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n"+app(up.url))
	c := d.stranger()
	login := func() int {
		a := d.do(c, "POST", "/login", right, "Content-Type", typeJSON)
		if a.status == http.StatusServiceUnavailable && (a.header.Get("Retry-After") == "" || len(a.header.Values("Set-Cookie")) > 0) {
			t.Errorf("a login that is refused has Retry-After %q and sets %q", a.header.Get("Retry-After"), a.header.Values("Set-Cookie"))
		}
		return a.status
	}
	var byCookie, byToken []signIn
	for range 3 {
		byCookie, byToken = append(byCookie, d.signIn(c, "alice")), append(byToken, d.signIn(c, "alice"))
	}
	d.fill(20 << 10)
	until(t, "a login that is refused", func() bool { return login() == http.StatusServiceUnavailable })
	d.staysUnready(t, login)

	for i := range byCookie {
		wantStatus(t, "logout by cookie", d.do(c, "POST", "/logout", "", "Cookie", byCookie[i].session), http.StatusOK)
		wantDead(t, d.instance, up, byCookie[i])
		wantStatus(t, "logout by token", d.do(c, "POST", "/logout", "", "Authorization", byToken[i].access), http.StatusOK)
		wantDead(t, d.instance, up, byToken[i])
		if got := login(); got != http.StatusServiceUnavailable {
			t.Errorf("login %d in the space for logouts: %d", i, got)
		}
	}
	d.staysUnready(t, login)

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

// staysUnready checks readiness for three seconds, in which the gateway looks for
// room more than once. It must not be ready while it refuses logins.
func (d *smallDisk) staysUnready(t *testing.T, login func() int) {
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

// TestStartOnFullDisk starts a gateway on a disk that is full except for the
// reserve of the last run. The gateway uses the reserve, so that it starts and
// people can sign out.
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
	wantStatus(t, "with the session from before", g.do(c, "GET", "/secure", "", "Cookie", alice.session), http.StatusOK)
	wantStatus(t, "logout", g.do(c, "POST", "/logout", "", "Cookie", alice.session), http.StatusOK)
	wantDead(t, g, up, alice)
}
