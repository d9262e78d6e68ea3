package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

const diskConfig = "store: {path: disk/authgate.db}\n" + world.People + "routes: [{match: /secure, upstream: " +
	"app, auth: [session, bearer]}]\n"

// onSmallDisk makes a gateway see its database on a file system of 16 MiB, in a mount
// namespace of its own, which needs no privilege. prepare is what the shell does there
// before the gateway starts; $0 is the folder, which onSmallDisk returns.
func onSmallDisk(g *world.Instance, prepare string) (folder string) {
	g.T.Helper()
	folder = filepath.Join(g.Dir, "data", "disk")
	world.NoError(g.T, os.MkdirAll(folder, 0o700))
	g.Within = []string{"unshare", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && ` + prepare + ` exec "$@"`, folder}
	return folder
}

// tryLogin signs alice in. A login that is refused must set no cookie.
func tryLogin(g *world.Instance) (status int) {
	g.T.Helper()
	a := g.Do(g.Stranger(), "POST", "/login", world.AliceJSON, "Content-Type", world.TypeJSON)
	if a.Status == http.StatusServiceUnavailable && (a.Header.Get("Retry-After") == "" || world.CookieOf(a) != "") {
		g.T.Errorf("a login that is refused has Retry-After %q and sets %q", a.Header.Get("Retry-After"), world.CookieOf(a))
	}
	return a.Status
}

// TestSmallDisk fills the disk of a gateway. While it refuses logins it is not
// ready, and sets no cookie. Logouts work, and logins do not take the
// space that is reserved for them.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Prepare(t)
	disk := onSmallDisk(g, "")
	g.Configure(diskConfig + world.App(up.URL))
	g.Run()
	c := g.Stranger()
	var byCookie, byToken []world.Login
	for range 3 {
		byCookie, byToken = append(byCookie, g.SignIn(c, "alice")), append(byToken, g.SignIn(c, "alice"))
	}
	rest := fmt.Sprintf("/proc/%d/root%s/rest", g.Cmd.Process.Pid, disk)
	fillUp(t, rest, 20<<10)
	world.Until(t, "a login that is refused", func() bool { return tryLogin(g) == http.StatusServiceUnavailable })
	staysUnready(t, g)

	for i := range byCookie {
		world.WantStatus(t, "logout by cookie", g.Do(c, "POST", "/logout", "", "Cookie", byCookie[i].Session), http.StatusOK)
		world.WantDead(t, g, up, byCookie[i])
		world.WantStatus(t, "logout by token", g.Do(c, "POST", "/logout", "", "Authorization", byToken[i].Access),
			http.StatusOK)
		world.WantDead(t, g, up, byToken[i])
		if got := tryLogin(g); got != http.StatusServiceUnavailable {
			t.Errorf("login %d in the space for logouts: %d", i, got)
		}
	}
	staysUnready(t, g)

	world.NoError(t, os.Remove(rest))
	world.Until(t, "/readyz", func() bool { status, _ := g.Ready(); return status == http.StatusOK })
	if got := tryLogin(g); got != http.StatusOK {
		t.Errorf("a login when the gateway says that it is ready: %d", got)
	}
	for _, message := range []string{"the disk is full or fails", "the reserve for logouts is in use",
		"the disk has room again"} {
		world.Until(t, message, func() bool { return strings.Contains(g.Log.String(), message) })
	}
}

// fillUp writes a file until the disk is full, and leaves free bytes and less than a
// page more.
func fillUp(t *testing.T, path string, free int64) {
	t.Helper()
	f := world.Must(os.Create(path))(t)
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
	world.NoError(t, f.Truncate(size-free))
}

// staysUnready checks readiness for three seconds, in which the gateway looks for
// room more than once. It must not be ready while it refuses logins.
func staysUnready(t *testing.T, g *world.Instance) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-tick.C {
		status, body := g.Ready()
		if got := tryLogin(g); got != http.StatusServiceUnavailable || status != got ||
			!strings.Contains(body, "no room on the disk") {
			t.Fatalf("/readyz: %d %s; a login after that: %d", status, body, got)
		}
	}
}

// TestStartOnFullDisk starts a gateway on a disk that is full except for the
// reserve of the last run. The gateway uses the reserve, so that it starts and
// people can sign out.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Prepare(t)
	disk := onSmallDisk(g, `cp --sparse=never "$0".kept/* "$0" && { cat /dev/zero > "$0"/rest || true; } &&`)
	fullDisk := g.Within
	g.Within = nil
	g.Configure(diskConfig + world.App(up.URL))
	g.Run()
	alice := g.SignIn(g.Stranger(), "alice")
	g.Signal(syscall.SIGTERM)
	<-g.Done
	world.NoError(t, errors.Join(os.Rename(disk, disk+".kept"), os.Mkdir(disk, 0o700)))
	g.Within = fullDisk
	g.Launch("/healthz")
	staysUnready(t, g)
	world.WantStatus(t, "with the session from before", g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", alice.Session),
		http.StatusOK)
	world.WantStatus(t, "logout", g.Do(g.Stranger(), "POST", "/logout", "", "Cookie", alice.Session), http.StatusOK)
	world.WantDead(t, g, up, alice)
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

// wantGone waits until nothing of a user reaches the application any more.
func wantGone(g *world.Instance, up *world.Recorder, s world.Login) {
	g.T.Helper()
	world.Until(g.T, "the end of a disabled account", func() bool {
		return g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", s.Session).Status != http.StatusOK
	})
	up.All()
	for _, credential := range [][]string{{"Cookie", s.Session}, {"Authorization", s.Access}} {
		g.Do(g.Stranger(), "GET", "/secure", "", credential...)
	}
	up.None(g.T)
}

// TestDisabledOnFullDisk disables an account while the disk is full, and starts the
// gateway again: the account is out, and the others stay.
func TestDisabledOnFullDisk(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Prepare(t)
	disk := onSmallDisk(g, `if test -d "$0".kept; then cp --sparse=never "$0".kept/* "$0" && `+
		`rm -f "$0"/*-reserve; { cat /dev/zero > "$0"/rest || true; }; fi;`)
	g.Configure(diskConfig + world.App(up.URL))
	g.Run()
	alice, bob := g.SignIn(g.Stranger(), "alice"), g.SignIn(g.Stranger(), "bob")
	inside := fmt.Sprintf("/proc/%d/root%s", g.Cmd.Process.Pid, disk)
	fillUp(t, inside+"/rest", 0)
	world.Until(t, "a login that is refused", func() bool { return tryLogin(g) == http.StatusServiceUnavailable })
	g.Configure(withBobDisabled(t) + world.App(up.URL))
	wantGone(g, up, bob)
	world.WantStatus(t, "another user", g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", alice.Session), http.StatusOK)

	// The files as they are, on a disk that is full without a reserve.
	world.NoError(t, os.Mkdir(disk+".kept", 0o700))
	for _, name := range []string{"authgate.db", "authgate.db-wal"} {
		content := world.Must(os.ReadFile(filepath.Join(inside, name)))(t)
		world.NoError(t, os.WriteFile(filepath.Join(disk+".kept", name), content, 0o600))
	}
	g.Signal(syscall.SIGKILL)
	<-g.Done
	g.Launch("/healthz")
	wantGone(g, up, bob)
	still := g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", alice.Session)
	world.WantStatus(t, "another user after the start", still, http.StatusOK)
	staysUnready(t, g)
}

// TestAuditFileOnFullDisk fills the disk of the audit file. Requests go on, with their events in the log
// alone, and the log, /readyz and a metric say so. When there is room again, the file says how many
// events it lacks.
func TestAuditFileOnFullDisk(t *testing.T) {
	t.Parallel()
	g := world.Prepare(t)
	disk := onSmallDisk(g, "")
	g.Configure(strings.Replace(auditConfig, "log/audit", "disk/audit", 1) + world.App(world.Record(t).URL))
	g.Run()
	inside := fmt.Sprintf("/proc/%d/root%s", g.Cmd.Process.Pid, disk)
	fillUp(t, inside+"/rest", 0)
	lost := 0.0
	world.Until(t, "an event that does not fit", func() bool { // the last page of the file may have room
		if got := tryLogin(g); got != http.StatusOK {
			t.Fatalf("a login on the full disk: %d", got)
		}
		lost = g.Scrape(t)["authgate_audit_failures_total"]
		return lost > 0
	})
	if status, body := g.Ready(); status != http.StatusOK || !strings.Contains(body, `"audit":"`) ||
		!strings.Contains(body, "no space left") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	world.NoError(t, os.Remove(inside+"/rest"))
	world.Until(t, "the file again", func() bool { _, body := g.Ready(); return !strings.Contains(body, "audit") })
	said := strings.Count(g.Log.String(), "the audit file cannot be written")
	if got := tryLogin(g); got != http.StatusOK || said != 1 {
		t.Errorf("a login: %d; the log says %d times:\n%s", got, said, g.Log)
	}
	lines := strings.Split(strings.TrimSpace(world.ReadFile(t, inside+"/audit.jsonl")), "\n")
	want := fmt.Sprintf(`"event":"audit_lost","count":%v,"seq":%d,`, lost, len(lines)-1)
	if got := lines[len(lines)-2]; !strings.Contains(got, want) {
		t.Errorf("the line before the last is %s, want %s", got, want)
	}
	verify := exec.Command(world.Program("authgate"), "audit", "verify", "-c", filepath.Join(g.Dir, "config.yaml"),
		inside+"/audit.jsonl")
	if out, err := verify.CombinedOutput(); err != nil || !strings.Contains(string(out), "audit_lost: 1\n") {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
}
