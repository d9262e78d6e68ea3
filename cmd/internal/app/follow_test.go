package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/logtest"
	"authgate/gateway/store"
)

const (
	// applied is how long it takes at most until a changed file applies: two checks.
	applied = 2 * watchEvery
	// longest is how long an attempt takes on a store that does not answer: longer
	// than the time to the next check.
	longest = 3 * watchEvery

	failed = "reload failed, the running configuration is kept"
	away   = failed + " until the store answers"

	usual = listenAnywhere + routes + memoryStore
)

// inPlace returns the configuration with the account inside.
func inPlace(account string) string {
	return strings.Replace(usual, "{file: accounts.yaml}", "{users: ["+strings.TrimPrefix(strings.TrimSpace(account), "- ")+"]}", 1)
}

// distant is a store that can be unavailable.
type distant struct {
	*store.Memory
	away   atomic.Bool
	silent time.Duration // before its error
}

func (d *distant) Get(ctx context.Context, key string) ([]byte, error) {
	if d.away.Load() {
		time.Sleep(d.silent)
		return nil, errors.New("connection refused")
	}
	return d.Memory.Get(ctx, key)
}

// follower is a gateway that follows its files, on the clock of a bubble.
type follower struct {
	*App
	*distant
	t    *testing.T
	logs *logtest.Buffer
	hup  chan os.Signal
}

// following runs f with a gateway of that configuration, on a distant store.
func following(t *testing.T, files map[string]string, f func(*follower)) {
	t.Helper()
	path := folder(t, t.TempDir(), files)
	synctest.Test(t, func(t *testing.T) {
		g := &follower{distant: &distant{Memory: store.NewMemory(time.Now)}, t: t, logs: &logtest.Buffer{}, hup: make(chan os.Signal)}
		opened := func(context.Context, *config.Config, *slog.Logger) (openStore, error) { return g.distant, nil }
		g.App = must(openOn(t.Context(), opened, path, "test", g.logs))
		defer shut(t, g.App)
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { g.follow(ctx, g.hup) })
		f(g)
		began := time.Now()
		stop()
		following.Wait()
		if took := time.Since(began); took > longest {
			t.Errorf("follow ends after %v", took)
		}
	})
}

func accounts(list string) map[string]string {
	return map[string]string{"config.yaml": usual, "accounts.yaml": list}
}

// set writes a file beside the configuration, or the configuration.
func (g *follower) set(name, content string) {
	g.t.Helper()
	write(g.t, filepath.Join(filepath.Dir(g.path), name), content)
}

// signal makes the gateway read the whole configuration, which is this text.
func (g *follower) signal(text string) {
	g.t.Helper()
	g.set("config.yaml", text)
	g.hup <- os.Interrupt
}

// wait lets d pass on the bubble's clock.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// users fails the test unless these users can sign in after d.
func (g *follower) users(d time.Duration, want, when string) {
	g.t.Helper()
	wait(d)
	var able []string
	for username, password := range map[string]string{"alice": "wonderland", "bob": "builder"} {
		r := httptest.NewRequest("POST", "/login", nil)
		r.Host = "localhost"
		r.SetBasicAuth(username, password)
		w := httptest.NewRecorder()
		g.gateway.ServeHTTP(w, r)
		if w.Code == 200 {
			able = append(able, username)
		}
	}
	slices.Sort(able)
	if got := strings.Join(able, " "); got != want {
		g.t.Errorf("%s: %q can sign in, want %q", when, got, want)
	}
}

// wantLogged fails the test unless n records have this message.
func (g *follower) wantLogged(message string, n int, when string) {
	g.t.Helper()
	if got := len(g.logs.Records(g.t, message)); got != n {
		g.t.Errorf("%s: %q was logged %d times, want %d", when, message, got, n)
	}
}

// outage runs f, and a minute, while the store does not answer.
func (g *follower) outage(f func()) {
	g.away.Store(true)
	f()
	wait(time.Minute)
	g.away.Store(false)
}

// A changed accounts file applies within 10 s, but only when it no longer changes:
// a part of it can be valid.
func TestFollowAccounts(t *testing.T) {
	t.Parallel()
	following(t, accounts(alice), func(g *follower) {
		for i, c := range []struct{ content, want string }{{alice + bob, "alice bob"}, {bob, "bob"}, {"[]\n", ""}, {alice, "alice"}} {
			g.set("accounts.yaml", c.content)
			g.users(applied, c.want, "after "+c.content)
			g.wantLogged("reloaded", i+1, "after "+c.content)
		}
		wait(time.Hour)
		g.wantLogged("reloaded", 4, "although nothing has changed")
		for _, part := range []string{"", bob, bob + alice} {
			g.set("accounts.yaml", part)
			g.users(watchEvery, "alice", "when a part is written, "+part)
		}
		g.users(applied-watchEvery, "alice bob", "when all is written")
		g.wantLogged("reloaded", 5, "when all is written")
	})
	if applied >= 10*time.Second {
		t.Errorf("a change applies after %v", applied)
	}
}

// A change between Open and the first check applies.
func TestFollowFromTheStart(t *testing.T) {
	t.Parallel()
	path := folder(t, t.TempDir(), accounts(alice))
	synctest.Test(t, func(t *testing.T) {
		g := &follower{App: open(t, path, io.Discard), t: t}
		defer shut(t, g.App)
		g.set("accounts.yaml", alice+bob)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go g.follow(ctx, nil)
		g.users(applied, "alice bob", "after a change before it follows")
	})
}

// A broken file changes nothing, each problem is logged once, and the repaired file
// applies.
func TestFollowBrokenFile(t *testing.T) {
	t.Parallel()
	following(t, accounts(alice), func(g *follower) {
		const broken = "- {username: bob, pasword_hash: x}\n- {username: 7, roles: [\"a,b\"]}\n"
		g.set("accounts.yaml", broken)
		g.users(10*watchEvery, "alice", "with the broken file")
		problems := g.logs.Records(t, failed)
		lines := map[any]bool{}
		for _, p := range problems {
			lines[p["line"]] = true
			if p["file"] != g.Config().Accounts.File || p["level"] != "ERROR" || p["column"] == 0.0 || p["key"] == "" || p["problem"] == "" || p["what"] == "" {
				t.Errorf("logged %v", p)
			}
		}
		if !lines[1.0] || !lines[2.0] {
			t.Errorf("logged %v", problems)
		}
		g.set("accounts.yaml", broken+"# again\n")
		wait(applied)
		g.wantLogged(failed, 2*len(problems), "after another change")
		if err := os.Remove(g.Config().Accounts.File); err != nil {
			t.Fatal(err)
		}
		g.users(applied, "alice", "without the file")
		g.set("accounts.yaml", bob)
		g.users(applied, "bob", "after the repair")
	})
}

// config.yaml applies only after a signal. The files beside it still apply by
// themselves afterwards.
func TestFollowSignal(t *testing.T) {
	t.Parallel()
	following(t, accounts(alice), func(g *follower) {
		g.set("config.yaml", inPlace(bob))
		g.users(time.Minute, "alice", "before the signal")
		g.signal(inPlace(bob))
		g.users(0, "bob", "after the signal")
		g.signal(usual)
		wait(applied)
		g.set("accounts.yaml", alice+bob)
		g.users(applied, "alice bob", "after a change beside it")
	})
}

// A new certificate is used without a restart, and a broken one is not.
func TestFollowCertificate(t *testing.T) {
	t.Parallel()
	files := accounts(alice)
	files["config.yaml"] += "tls: {mode: files, certificate: c.pem, key: k.pem}\n"
	for name, source := range map[string]string{"c.pem": "tls-certificate.pem", "k.pem": "tls-key.pem"} {
		files[name] = string(must(os.ReadFile("../../../gateway/config/testdata/files/" + source)))
	}
	following(t, files, func(g *follower) {
		for i, certificate := range []string{"x", files["c.pem"] + "\n"} {
			g.set("c.pem", certificate)
			wait(applied)
			g.wantLogged("reloaded", i, "after a certificate")
			g.wantLogged(failed, 2, "after the broken one") // of the configuration and of the certificate
		}
	})
}

// An account that is removed during an outage is gone after it. The log has only
// the first attempt.
func TestFollowOutage(t *testing.T) {
	t.Parallel()
	following(t, accounts(alice+bob), func(g *follower) {
		for i, c := range []struct{ content, want string }{{alice, "alice"}, {bob, "bob"}} {
			g.outage(func() { g.set("accounts.yaml", c.content) })
			g.users(watchEvery, c.want, "when the store is back")
			g.wantLogged(away, i+1, "when the store is back")
			if line := g.logs.Last(t, away); line["level"] != "ERROR" || !strings.Contains(line["error"].(string), "connection refused") {
				t.Errorf("logged %v", line)
			}
		}
		wait(time.Minute)
		g.wantLogged("reloaded", 2, "in the end")
	})
}

// After an outage the config.yaml of the last signal applies, with the current
// files beside it. If these have mistakes then, it is dropped.
func TestFollowSignalOutage(t *testing.T) {
	t.Parallel()
	following(t, accounts(alice+bob), func(g *follower) {
		g.outage(func() {
			g.signal(inPlace(bob))
			wait(time.Minute)
			g.set("config.yaml", inPlace(alice)) // without a signal
		})
		g.users(watchEvery, "bob", "after a signal in an outage")
		wait(applied)
		reloads := len(g.logs.Records(t, "reloaded"))
		wait(time.Minute)
		g.wantLogged("reloaded", reloads, "a minute later")
		g.wantLogged(away, 1, "a minute later")
		g.outage(func() {
			g.signal(usual)
			wait(time.Minute)
			g.set("accounts.yaml", alice)
		})
		g.users(applied, "alice", "after a change beside it")
		g.outage(func() {
			g.signal(inPlace(bob))
			wait(applied)
			g.signal("nonsense: 1\n")
		})
		g.users(time.Minute, "alice", "after another signal")
		g.set("other.yaml", bob)
		g.outage(func() {
			g.signal(strings.Replace(usual, "accounts.yaml", "other.yaml", 1))
			wait(time.Minute)
			g.set("other.yaml", "nonsense\n")
		})
		wait(time.Minute)
		g.set("other.yaml", bob)
		g.users(time.Minute, "alice", "after an outage with mistakes in the end")
	})
}

// A refused configuration does not stop changes beside it, and is not tried again.
func TestFollowSignalAtFault(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]string{"at fault": "nonsense: 1\n", "needs a restart": strings.Replace(usual, "memory", "sqlite", 1)} {
		following(t, accounts(alice+bob), func(g *follower) {
			wait(applied)
			g.set("accounts.yaml", alice)
			g.signal(refused)
			g.users(applied, "alice", name)
			n := len(g.logs.Records(t, failed))
			for range 2 {
				wait(time.Minute)
				g.signal(refused)
			}
			wait(time.Minute)
			g.wantLogged(failed, 3*max(n, 1), name+", after three signals")
		})
	}
}

// A change beside the configuration that needs a restart is tried once.
func TestFollowRestart(t *testing.T) {
	t.Parallel()
	files := accounts(alice)
	files["config.yaml"] = strings.Replace(usual, "memory", `redis, addresses: ["127.0.0.1:1"], password_file: password`, 1)
	files["password"] = "one\n"
	following(t, files, func(g *follower) {
		g.set("password", "another\n")
		wait(applied)
		g.wantLogged(failed, 1, "after the change")
		if line := g.logs.Last(t, failed); !strings.Contains(line["error"].(string), "store need a restart") {
			t.Errorf("logged %v", line)
		}
		if g.seen != stamps(g.Config().SideFiles()) {
			t.Error("it is tried again")
		}
	})
}

// A stop waits at most for the current attempt.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	for range 20 { // select picks at random
		following(t, accounts(alice+bob), func(g *follower) {
			g.silent = longest
			g.away.Store(true)
			g.signal(inPlace(bob))
			g.set("accounts.yaml", alice)
			time.Sleep(time.Minute)
		})
	}
}
