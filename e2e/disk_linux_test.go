package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const diskConfig = "store: {path: disk/authgate.db}\n" + people + "routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n"

// onSmallDisk makes a gateway see its database on a file system of 16 MiB, in a mount
// namespace of its own, which needs no privilege. prepare is what the shell does there
// before the gateway starts; $0 is the folder, which onSmallDisk returns.
func (g *instance) onSmallDisk(prepare string) (folder string) {
	g.t.Helper()
	folder = filepath.Join(g.dir, "data", "disk")
	noError(g.t, os.MkdirAll(folder, 0o700))
	g.within = []string{"unshare", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && ` + prepare + ` exec "$@"`, folder}
	return folder
}

// tryLogin signs alice in. A login that is refused must set no cookie.
func (g *instance) tryLogin() (status int) {
	g.t.Helper()
	a := g.do(g.stranger(), "POST", "/login", right, "Content-Type", typeJSON)
	if a.status == http.StatusServiceUnavailable && (a.header.Get("Retry-After") == "" || cookieOf(a) != "") {
		g.t.Errorf("a login that is refused has Retry-After %q and sets %q", a.header.Get("Retry-After"), cookieOf(a))
	}
	return a.status
}

// TestSmallDisk fills the disk of a gateway. While it refuses logins it is not
// ready, and sets no cookie. Logouts work, and logins do not take the
// space that is reserved for them.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := prepared(t)
	disk := g.onSmallDisk("")
	g.configure(diskConfig + app(up.url))
	g.run()
	c := g.stranger()
	var byCookie, byToken []signIn
	for range 3 {
		byCookie, byToken = append(byCookie, g.signIn(c, "alice")), append(byToken, g.signIn(c, "alice"))
	}
	rest := fmt.Sprintf("/proc/%d/root%s/rest", g.cmd.Process.Pid, disk)
	fillUp(t, rest, 20<<10)
	until(t, "a login that is refused", func() bool { return g.tryLogin() == http.StatusServiceUnavailable })
	g.staysUnready(t)

	for i := range byCookie {
		wantStatus(t, "logout by cookie", g.do(c, "POST", "/logout", "", "Cookie", byCookie[i].session), http.StatusOK)
		wantDead(t, g, up, byCookie[i])
		wantStatus(t, "logout by token", g.do(c, "POST", "/logout", "", "Authorization", byToken[i].access), http.StatusOK)
		wantDead(t, g, up, byToken[i])
		if got := g.tryLogin(); got != http.StatusServiceUnavailable {
			t.Errorf("login %d in the space for logouts: %d", i, got)
		}
	}
	g.staysUnready(t)

	noError(t, os.Remove(rest))
	until(t, "/readyz", func() bool { status, _ := g.ready(); return status == http.StatusOK })
	if got := g.tryLogin(); got != http.StatusOK {
		t.Errorf("a login when the gateway says that it is ready: %d", got)
	}
	for _, message := range []string{"the disk is full or fails", "the reserve for logouts is in use", "the disk has room again"} {
		if !strings.Contains(g.log.String(), message) {
			t.Errorf("the log does not say %q", message)
		}
	}
}

// fillUp writes a file until the disk is full, and leaves free bytes and less than a
// page more.
func fillUp(t *testing.T, path string, free int64) {
	t.Helper()
	f := must(os.Create(path))(t)
	defer f.Close()
	size, err := int64(0), error(nil)
	for err == nil {
		var n int
		n, err = f.Write(make([]byte, 4096))
		size += int64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk has taken %d bytes: %v", size, err)
	}
	noError(t, f.Truncate(size-free))
}

// staysUnready checks readiness for three seconds, in which the gateway looks for
// room more than once. It must not be ready while it refuses logins.
func (g *instance) staysUnready(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-tick.C {
		status, body := g.ready()
		if got := g.tryLogin(); got != http.StatusServiceUnavailable || status != got || !strings.Contains(body, "no room on the disk") {
			t.Fatalf("/readyz: %d %s; a login after that: %d", status, body, got)
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
	disk := g.onSmallDisk(`cp --sparse=never "$0".kept/* "$0" && { cat /dev/zero > "$0"/rest || true; } &&`)
	fullDisk := g.within
	g.within = nil
	g.configure(diskConfig + app(up.url))
	g.run()
	alice := g.signIn(g.stranger(), "alice")
	g.signal(syscall.SIGTERM)
	<-g.done
	noError(t, errors.Join(os.Rename(disk, disk+".kept"), os.Mkdir(disk, 0o700)))
	g.within = fullDisk
	g.launch("/healthz")
	g.staysUnready(t)
	wantStatus(t, "with the session from before", g.do(g.stranger(), "GET", "/secure", "", "Cookie", alice.session), http.StatusOK)
	wantStatus(t, "logout", g.do(g.stranger(), "POST", "/logout", "", "Cookie", alice.session), http.StatusOK)
	wantDead(t, g, up, alice)
}

// withBobDisabled is diskConfig with bob disabled.
func withBobDisabled(t *testing.T) string {
	t.Helper()
	disabled := strings.Replace(diskConfig, "{username: bob,", "{username: bob, disabled: true,", 1)
	if disabled == diskConfig {
		t.Fatal("bob is not in the configuration")
	}
	return disabled
}

// gone waits until nothing of a user reaches the application any more.
func (g *instance) gone(up *recorder, s signIn) {
	g.t.Helper()
	until(g.t, "the end of a disabled account", func() bool {
		return g.do(g.stranger(), "GET", "/secure", "", "Cookie", s.session).status != http.StatusOK
	})
	up.all()
	for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
		g.do(g.stranger(), "GET", "/secure", "", credential...)
	}
	up.none(g.t)
}

// TestDisabledOnFullDisk disables an account while the disk is full, and starts the
// gateway again: the account is out, and the others stay.
func TestDisabledOnFullDisk(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := prepared(t)
	disk := g.onSmallDisk(`if test -d "$0".kept; then cp --sparse=never "$0".kept/* "$0" && ` +
		`rm -f "$0"/*-reserve; { cat /dev/zero > "$0"/rest || true; }; fi;`)
	g.configure(diskConfig + app(up.url))
	g.run()
	alice, bob := g.signIn(g.stranger(), "alice"), g.signIn(g.stranger(), "bob")
	inside := fmt.Sprintf("/proc/%d/root%s", g.cmd.Process.Pid, disk)
	fillUp(t, inside+"/rest", 0)
	until(t, "a login that is refused", func() bool { return g.tryLogin() == http.StatusServiceUnavailable })
	g.configure(withBobDisabled(t) + app(up.url))
	g.gone(up, bob)
	wantStatus(t, "another user", g.do(g.stranger(), "GET", "/secure", "", "Cookie", alice.session), http.StatusOK)

	// The files as they are, on a disk that is full without a reserve.
	noError(t, os.Mkdir(disk+".kept", 0o700))
	for _, name := range []string{"authgate.db", "authgate.db-wal"} {
		content := must(os.ReadFile(filepath.Join(inside, name)))(t)
		noError(t, os.WriteFile(filepath.Join(disk+".kept", name), content, 0o600))
	}
	g.signal(syscall.SIGKILL)
	<-g.done
	g.launch("/healthz")
	g.gone(up, bob)
	still := g.do(g.stranger(), "GET", "/secure", "", "Cookie", alice.session)
	wantStatus(t, "another user after the start", still, http.StatusOK)
	g.staysUnready(t)
}
