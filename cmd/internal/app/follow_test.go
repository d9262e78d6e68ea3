package app

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// following runs f while a gateway follows its files, in a bubble.
func following(t *testing.T, store storeOpener, files map[string]string, f func(a *App, stderr *output, reload chan<- os.Signal)) {
	t.Helper()
	path := folder(t, files)
	synctest.Test(t, func(t *testing.T) {
		stderr := &output{}
		a, err := openOn(t.Context(), store, path, "test", stderr)
		if err != nil {
			t.Fatal(err)
		}
		defer shut(t, a)
		reload := make(chan os.Signal)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.follow(ctx, reload)
		}()
		f(a, stderr, reload)
		began := time.Now()
		stop()
		<-done
		if took := time.Since(began); took > longest {
			t.Errorf("follow ends after %v", took)
		}
	})
}

// longest is how long an attempt takes on a store that does not answer: longer
// than the time to the next check.
const longest = 3 * watchEvery

const (
	failed = "reload failed, the running configuration is kept"
	away   = failed + " until the store answers"
)

// beside returns the path of a file beside the configuration.
func (a *App) beside(name string) string { return filepath.Join(filepath.Dir(a.path), name) }

// inPlace returns the configuration with the accounts inside.
func inPlace(accounts ...string) string {
	users := make([]string, len(accounts))
	for i, account := range accounts {
		users[i] = strings.TrimPrefix(strings.TrimSpace(account), "- ")
	}
	return strings.Replace(configuration["config.yaml"], "{file: accounts.yaml}", "{users: ["+strings.Join(users, ", ")+"]}", 1)
}

// applied is how long it takes at most until a changed file applies: two checks.
const applied = 2 * watchEvery

// wait lets d pass on the bubble's clock.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// users returns the users who can sign in.
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

// TestFollowAccounts checks that a changed accounts file applies within 10 s.
func TestFollowAccounts(t *testing.T) {
	t.Parallel()
	following(t, openConfigured, configuration, func(a *App, stderr *output, _ chan<- os.Signal) {
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
			t.Errorf("%d reloads were logged although nothing has changed", n)
		}
	})
	if applied >= 10*time.Second {
		t.Errorf("a change applies after %v", applied)
	}
}

// TestFollowHalfWritten checks that a file applies only when it no longer changes.
// A part of it can be valid.
func TestFollowHalfWritten(t *testing.T) {
	t.Parallel()
	files := map[string]string{"config.yaml": configuration["config.yaml"], "accounts.yaml": alice + bob}
	following(t, openConfigured, files, func(a *App, stderr *output, _ chan<- os.Signal) {
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

// TestFollowFromTheStart checks that a change between Open and the first check
// applies.
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

// TestFollowBrokenFile checks that a broken file changes nothing, that each problem
// is logged once, and that the repaired file applies.
func TestFollowBrokenFile(t *testing.T) {
	t.Parallel()
	following(t, openConfigured, configuration, func(a *App, stderr *output, _ chan<- os.Signal) {
		file := a.Config().Accounts.File
		const broken = "- {username: bob, pasword_hash: x}\n- {username: 7, roles: [\"a,b\"]}\n"
		write(t, file, broken)
		wait(10 * watchEvery)
		if got := a.users(t); got != "alice" {
			t.Errorf("%q can sign in", got)
		}
		problems := stderr.logged(t, failed)
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
		write(t, file, broken+"# again\n")
		wait(applied)
		if n := len(stderr.logged(t, failed)); n != 2*len(problems) {
			t.Errorf("%d problems were logged after another change, want %d", n, 2*len(problems))
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
			t.Errorf("after the repair: %q can sign in", got)
		}
	})
}

// TestFollowSignal checks that config.yaml applies only after a signal, and that
// the files beside it still apply by themselves afterwards.
func TestFollowSignal(t *testing.T) {
	t.Parallel()
	following(t, openConfigured, configuration, func(a *App, _ *output, reload chan<- os.Signal) {
		write(t, a.path, inPlace(bob))
		wait(time.Minute)
		if got := a.users(t); got != "alice" {
			t.Errorf("before the signal: %q can sign in", got)
		}
		reload <- os.Interrupt
		wait(0)
		if got := a.users(t); got != "bob" {
			t.Errorf("after the signal: %q can sign in", got)
		}
		write(t, a.path, configuration["config.yaml"])
		reload <- os.Interrupt
		wait(applied)
		write(t, a.beside("accounts.yaml"), alice+bob)
		wait(applied)
		if got := a.users(t); got != "alice bob" {
			t.Errorf("after a change beside it: %q can sign in", got)
		}
	})
}

// TestFollowCertificate checks that a new certificate is used without a restart, and
// a broken one is not.
func TestFollowCertificate(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"config.yaml":   listenAnywhere + routes + memoryStore + "tls: {mode: files, certificate: c.pem, key: k.pem}\n",
		"accounts.yaml": alice,
	}
	files["c.pem"], files["k.pem"] = pair(t)
	following(t, openConfigured, files, func(a *App, stderr *output, _ chan<- os.Signal) {
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
		if n := len(stderr.logged(t, failed)); n == 0 {
			t.Error("the broken certificate is not in the log")
		}
	})
}
