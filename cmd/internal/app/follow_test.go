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

	"authgate/cmd/internal/systemd"
	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/internal/test/logtest"
)

const (
	// unseen is how long it takes at most until a changed file applies without a
	// notice: the next look, and one after the pause.
	unseen = lookEvery + quiet
	// longest is how long an attempt takes on a store that does not answer: longer
	// than the time to the next look.
	longest = 3 * lookEvery

	failed = "reload failed, the running configuration is kept"

	unrecorded = "the accounts apply as they are configured, but what has changed cannot be recorded in the store; " +
		"it is tried again"
	recorded = "the store can be used: what has changed about accounts is recorded"

	usual = listenAnywhere + routes + memoryStore
)

// inPlace returns the configuration with the account inside.
func inPlace(account string) string {
	return strings.Replace(usual, "{file: accounts.yaml}",
		"{users: ["+strings.TrimPrefix(strings.TrimSpace(account), "- ")+"]}", 1)
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

// Recall has nothing while the store is away: what it knows may be out of date.
func (d *distant) Recall(key string) ([]byte, bool) {
	if d.away.Load() {
		return nil, false
	}
	return d.Memory.Recall(key)
}

// followed is a gateway that follows its files, on the clock of a bubble.
type followed struct {
	*App
	*distant
	t       *testing.T
	logs    *logtest.Buffer
	hup     chan os.Signal
	files   *toldFiles
	unaware bool // changes give no notice
}

// toldFiles is a fileWatch whose notices a test gives.
type toldFiles struct {
	notices chan struct{}
	watched []string
}

func (f *toldFiles) Watch(files []string) error { f.watched = files; return nil }
func (f *toldFiles) Notices() <-chan struct{}   { return f.notices }

// following runs f with a gateway of that configuration, on a distant store.
func following(t *testing.T, files map[string]string, f func(*followed)) {
	t.Helper()
	path := folder(t, t.TempDir(), files)
	synctest.Test(t, func(t *testing.T) {
		g := &followed{
			distant: &distant{Memory: store.NewMemory(time.Now)}, t: t, logs: &logtest.Buffer{}, hup: make(chan os.Signal),
			files: &toldFiles{notices: make(chan struct{}, 1)},
		}
		opened := func(context.Context, *config.Config, *slog.Logger) (storeCloser, error) { return g.distant, nil }
		g.App = must(openWith(t.Context(), opened, path, "test", g.logs, systemd.Service{}))
		defer shut(t, g.App)
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { g.follow(ctx, g.files, g.hup) })
		f(g)
		began := time.Now()
		stop()
		following.Wait()
		if took := time.Since(began); took > longest {
			t.Errorf("follow ends after %v", took)
		}
	})
}

func withAccounts(list string) map[string]string {
	return map[string]string{"config.yaml": usual, "accounts.yaml": list}
}

// set writes a file beside the configuration, or the configuration.
func (g *followed) set(name, content string) {
	g.t.Helper()
	write(g.t, filepath.Join(filepath.Dir(g.path), name), content)
	if !g.unaware {
		g.notice()
	}
}

// notice tells that a file may have changed.
func (g *followed) notice() {
	select {
	case g.files.notices <- struct{}{}:
	default:
	}
}

// signal makes the gateway read the whole configuration, which is this text.
func (g *followed) signal(text string) {
	g.t.Helper()
	g.set("config.yaml", text)
	g.hup <- os.Interrupt
}

// reloads returns how many attempts there were.
func (g *followed) reloads() (n float64) {
	g.t.Helper()
	for _, family := range must(g.metrics.Gather()) {
		if family.GetName() == "authgate_config_reloads_total" {
			for _, m := range family.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// wait lets d pass on the bubble's clock.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// users fails the test unless these users can sign in after d.
func (g *followed) users(d time.Duration, want, when string) {
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
func (g *followed) wantLogged(message string, n int, when string) {
	g.t.Helper()
	if got := len(g.logs.Records(g.t, message)); got != n {
		g.t.Errorf("%s: %q was logged %d times, want %d", when, message, got, n)
	}
}

// outage runs f, and a minute, while the store does not answer.
func (g *followed) outage(f func()) {
	g.away.Store(true)
	f()
	wait(time.Minute)
	g.away.Store(false)
}

// A changed file applies a moment after its last change, and not before: a part of
// it can be valid. Without a notice it applies within 10 s.
func TestFollowAccounts(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]time.Duration{"with notices": quiet, "without": unseen} {
		following(t, withAccounts(alice), func(g *followed) {
			g.unaware = name == "without"
			for i, c := range []struct{ content, want string }{
				{alice + bob, "alice bob"}, {bob, "bob"}, {"[]\n", ""}, {alice, "alice"},
			} {
				g.set("accounts.yaml", c.content)
				g.users(within, c.want, name+", after "+c.content)
				g.wantLogged("reloaded", i+1, name+", after "+c.content)
			}
			wait(time.Hour)
			g.notice()
			wait(time.Hour)
			g.wantLogged("reloaded", 4, "although nothing has changed")
			g.unaware = false
			for _, part := range []string{"", bob, bob + alice} {
				g.set("accounts.yaml", part)
				wait(quiet / 10)
				g.notice() // of the same change
				g.users(quiet*8/10, "alice", "when a part is written, "+part)
			}
			g.users(quiet, "alice bob", "when all is written")
			g.wantLogged("reloaded", 5, "when all is written")
		})
	}
	if unseen >= 10*time.Second || quiet >= time.Second {
		t.Errorf("a change applies after %v, without a notice after %v", quiet, unseen)
	}
}

// A change between Open and the first look applies.
func TestFollowFromTheStart(t *testing.T) {
	t.Parallel()
	path := folder(t, t.TempDir(), withAccounts(alice))
	synctest.Test(t, func(t *testing.T) {
		g := &followed{App: open(t, path, io.Discard), t: t, unaware: true}
		defer shut(t, g.App)
		g.set("accounts.yaml", alice+bob)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go g.follow(ctx, noNotices{}, nil)
		g.users(unseen, "alice bob", "after a change before it follows")
	})
}

// A broken file changes nothing, each problem is logged once, and the repaired file
// applies.
func TestFollowBrokenFile(t *testing.T) {
	t.Parallel()
	following(t, withAccounts(alice), func(g *followed) {
		const broken = "- {username: bob, pasword_hash: x}\n- {username: 7, roles: [\"a,b\"]}\n"
		g.set("accounts.yaml", broken)
		g.users(time.Minute, "alice", "with the broken file")
		problems := g.logs.Records(t, failed)
		lines := map[any]bool{}
		for _, p := range problems {
			lines[p["line"]] = true
			if p["file"] != g.Config().Accounts.File || p["level"] != "ERROR" || p["column"] == 0.0 ||
				p["key"] == "" || p["problem"] == "" || p["what"] == "" {
				t.Errorf("logged %v", p)
			}
		}
		if !lines[1.0] || !lines[2.0] {
			t.Errorf("logged %v", problems)
		}
		g.set("accounts.yaml", broken+"# again\n")
		wait(time.Minute)
		g.wantLogged(failed, 2*len(problems), "after another change")
		if err := os.Remove(g.Config().Accounts.File); err != nil {
			t.Fatal(err)
		}
		g.notice()
		g.users(time.Minute, "alice", "without the file")
		g.set("accounts.yaml", bob)
		g.users(quiet, "bob", "after the repair")
	})
}

// A changed config.yaml applies, with the files that it names: the files that the
// new one names are followed, also if they are missing at first.
func TestFollowConfiguration(t *testing.T) {
	t.Parallel()
	following(t, withAccounts(alice), func(g *followed) {
		g.set("config.yaml", inPlace(bob))
		g.users(quiet, "bob", "after a change")
		got := g.logs.Last(t, "reloaded")["changes"]
		want := []any{`accounts.file: `, "accounts.users[bob]: added", "accounts.users[alice]: removed"}
		if !isLike(got, want) {
			t.Errorf("logged the changes %q, want those like %q", got, want)
		}
		g.set("config.yaml", strings.Replace(usual, "accounts.yaml", "other.yaml", 1))
		g.users(quiet, "bob", "as long as a file is missing")
		g.wantLogged(failed, 1, "as long as a file is missing")
		if want := filepath.Join(filepath.Dir(g.path), "other.yaml"); !slices.Contains(g.files.watched, want) {
			t.Errorf("it watches %q", g.files.watched)
		}
		g.set("other.yaml", alice+bob)
		g.users(quiet, "alice bob", "when the file is there")
		g.set("config.yaml", inPlace(bob))
		g.hup <- os.Interrupt
		g.users(0, "bob", "after a signal, at once")
	})
}

// isLike reports whether each text begins with what is wanted.
func isLike(got any, want []any) bool {
	list, _ := got.([]any)
	return slices.EqualFunc(list, want, func(a, b any) bool { return strings.HasPrefix(a.(string), b.(string)) })
}

// A failed reload is tried again when there is a notice, although no change shows:
// a file may have a new owner.
func TestFollowNoticeAfterFailure(t *testing.T) {
	t.Parallel()
	following(t, withAccounts(alice), func(g *followed) {
		g.set("config.yaml", "nonsense: 1\n")
		wait(time.Minute)
		for range 3 {
			before := g.reloads()
			wait(time.Minute)
			if g.reloads() != before {
				t.Error("it is tried again without a notice")
			}
			g.notice()
			wait(quiet)
			if g.reloads() != before+1 {
				t.Errorf("%v attempts after a notice", g.reloads()-before)
			}
		}
	})
}

// A new certificate is used without a restart, and a broken one is not.
func TestFollowCertificate(t *testing.T) {
	t.Parallel()
	files := withAccounts(alice)
	files["config.yaml"] += "tls: {mode: files, certificate: c.pem, key: k.pem}\n"
	for name, source := range map[string]string{"c.pem": "tls-certificate.pem", "k.pem": "tls-key.pem"} {
		files[name] = string(must(os.ReadFile("../../../gateway/config/testdata/files/" + source)))
	}
	following(t, files, func(g *followed) {
		for i, certificate := range []string{"x", files["c.pem"] + "\n"} {
			g.set("c.pem", certificate)
			wait(quiet)
			g.wantLogged("reloaded", i, "after a certificate")
			g.wantLogged(failed, 3, // of the configuration, with each of the keys, and of the certificate
				"after the broken one")
		}
		got := g.logs.Last(t, "reloaded")["changes"]
		if want := []any{"tls.certificate: the content of the file changed"}; !isLike(got, want) {
			t.Errorf("logged the changes %q, want %q", got, want)
		}
	})
}

// An account that is removed during an outage is gone at once. The log tells once that
// this is not recorded, and once that it is.
func TestFollowOutage(t *testing.T) {
	t.Parallel()
	following(t, withAccounts(alice+bob), func(g *followed) {
		for i, c := range []struct{ content, want string }{{alice, "alice"}, {bob, "bob"}} {
			g.outage(func() {
				g.set("accounts.yaml", c.content)
				wait(quiet)
				g.wantLogged("reloaded", i+1, "during the outage")
			})
			g.users(3*time.Second, c.want, "when the store is back")
			g.wantLogged(unrecorded, i+1, "when the store is back")
			g.wantLogged(recorded, i+1, "when the store is back")
			if line := g.logs.Last(t, unrecorded); line["level"] != "ERROR" ||
				!strings.Contains(line["error"].(string), "connection refused") {
				t.Errorf("logged %v", line)
			}
		}
		wait(time.Minute)
		g.wantLogged("reloaded", 2, "in the end")
	})
}

// In an outage the configuration applies as it is. If it has mistakes, it is refused.
func TestFollowSignalOutage(t *testing.T) {
	t.Parallel()
	following(t, withAccounts(alice+bob), func(g *followed) {
		g.outage(func() {
			g.signal(inPlace(bob))
			wait(time.Minute)
			g.set("config.yaml", inPlace(alice))
		})
		g.users(lookEvery, "alice", "after changes in an outage")
		g.wantLogged(unrecorded, 2, "after two configurations")
		g.outage(func() {
			g.signal(inPlace(bob))
			wait(time.Minute)
			g.signal("nonsense: 1\n")
		})
		g.users(time.Minute, "bob", "after an outage with mistakes in the end")
	})
}

// A refused configuration does not stop changes beside it, and is not tried again.
func TestFollowAtFault(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]string{
		"at fault": "nonsense: 1\n", "needs a restart": strings.Replace(usual, "memory", "sqlite", 1),
	} {
		following(t, withAccounts(alice+bob), func(g *followed) {
			g.set("accounts.yaml", alice)
			g.signal(refused)
			g.users(quiet, "alice", name)
			n := len(g.logs.Records(t, failed))
			for range 2 {
				wait(time.Minute)
				g.signal(refused)
			}
			wait(time.Minute)
			g.wantLogged(failed, 3*max(n, 1), name+", after three signals")
			g.set("accounts.yaml", bob)
			g.users(quiet, "bob", name+", after another change beside it")
			if what := g.logs.Last(t, "reloaded")["what"]; what != "files beside the configuration" {
				t.Errorf("%s: reloaded %v", name, what)
			}
		})
	}
}

// A change that needs a restart is tried once.
func TestFollowRestart(t *testing.T) {
	t.Parallel()
	files := withAccounts(alice)
	files["config.yaml"] = strings.Replace(usual, "memory",
		`redis, addresses: ["127.0.0.1:1"], password_file: password`, 1)
	files["password"] = "one\n"
	following(t, files, func(g *followed) {
		g.set("password", "another\n")
		wait(time.Minute)
		for _, line := range g.logs.Records(t, failed) {
			if !strings.Contains(line["error"].(string), "store need a restart") {
				t.Errorf("logged %v", line)
			}
		}
		before := g.reloads()
		if before == 0 {
			t.Error("it is not tried")
		}
		wait(time.Hour)
		if g.reloads() != before {
			t.Error("it is tried again")
		}
	})
}

// A stop waits at most for the current attempt.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	for range 20 { // select picks at random
		following(t, withAccounts(alice+bob), func(g *followed) {
			g.silent = longest
			g.away.Store(true)
			g.signal(inPlace(bob))
			g.set("accounts.yaml", alice)
			time.Sleep(time.Minute)
		})
	}
}

// A change applies within 10 s, with notices and without, while another file, or the
// file itself, is replaced ten times a second.
func TestFollowRestlessFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unaware bool
		disable func(g *followed) // bob
		stir    func(g *followed, n int)
	}{
		"another file": {
			disable: func(g *followed) { g.set("accounts.yaml", alice) },
			stir:    func(g *followed, n int) { g.set("config.yaml", usual+"# "+strings.Repeat("x", n%7)+"\n") },
		},
		"another file, without notices": {
			unaware: true,
			disable: func(g *followed) { g.set("accounts.yaml", alice) },
			stir:    func(g *followed, n int) { g.set("config.yaml", usual+"# "+strings.Repeat("x", n%7)+"\n") },
		},
		"the file itself": {
			disable: func(*followed) {},
			stir:    func(g *followed, n int) { g.set("accounts.yaml", alice+"# "+strings.Repeat("x", n%7)+"\n") },
		},
		"another file with mistakes": {
			disable: func(g *followed) { g.set("accounts.yaml", alice) },
			stir:    func(g *followed, n int) { g.set("config.yaml", usual+"nonsense: "+strings.Repeat("1", n%7+1)+"\n") },
		},
	} {
		following(t, withAccounts(alice+bob), func(g *followed) {
			g.unaware = c.unaware
			for n := range 20 {
				c.stir(g, n)
				wait(100 * time.Millisecond)
			}
			c.disable(g)
			before := g.reloads()
			for n := range 99 {
				c.stir(g, n)
				wait(100 * time.Millisecond)
			}
			g.users(0, "alice", name+" is replaced all the time")
			if n := g.reloads() - before; n == 0 || n > 10 {
				t.Errorf("%s: %v reloads in 10 s, want some, and far from one for each change", name, n)
			}
		})
	}
}
