package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/store"
)

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

// both has the two accounts in a file beside the configuration.
var both = map[string]string{"config.yaml": configuration["config.yaml"], "accounts.yaml": alice + bob}

// far is following with both, on a store that can be unavailable.
func far(t *testing.T, f func(a *App, d *distant, stderr *output, reload chan<- os.Signal)) {
	t.Helper()
	d := &distant{Memory: store.NewMemory(time.Now)}
	opened := func(context.Context, *config.Config, *slog.Logger) (openStore, error) { return d, nil }
	following(t, opened, both, func(a *App, stderr *output, reload chan<- os.Signal) { f(a, d, stderr, reload) })
}

// TestFollowOutage checks that an account that is removed during an outage is gone
// after it. The log has only the first attempt.
func TestFollowOutage(t *testing.T) {
	t.Parallel()
	far(t, func(a *App, d *distant, stderr *output, _ chan<- os.Signal) {
		for _, c := range []struct{ content, want string }{{alice, "alice"}, {bob, "bob"}} {
			before := len(stderr.logged(t, away))
			d.away.Store(true)
			write(t, a.beside("accounts.yaml"), c.content)
			wait(time.Minute)
			d.away.Store(false)
			wait(watchEvery)
			if got := a.users(t); got != c.want {
				t.Errorf("when the store is back: %q can sign in, want %q", got, c.want)
			}
			lines := stderr.logged(t, away)[before:]
			if len(lines) != 1 || lines[0]["level"] != "ERROR" || !strings.Contains(lines[0]["error"].(string), "connection refused") {
				t.Errorf("logged %v", lines)
			}
		}
		wait(time.Minute)
		if n := len(stderr.logged(t, "reloaded")); n != 2 {
			t.Errorf("%d reloads were logged", n)
		}
	})
}

// TestFollowSignalOutage checks that after an outage the config.yaml of the signal
// applies, with the current files beside it.
func TestFollowSignalOutage(t *testing.T) {
	t.Parallel()
	far(t, func(a *App, d *distant, stderr *output, reload chan<- os.Signal) {
		d.away.Store(true)
		write(t, a.path, inPlace(bob))
		reload <- os.Interrupt
		wait(time.Minute)
		write(t, a.path, inPlace(alice)) // without a signal
		d.away.Store(false)
		wait(watchEvery)
		if got := a.users(t); got != "bob" {
			t.Errorf("%q can sign in", got)
		}
		wait(applied)
		reloads := len(stderr.logged(t, "reloaded"))
		wait(time.Minute)
		if n := len(stderr.logged(t, "reloaded")); n != reloads {
			t.Errorf("%d reloads were logged, and %d a minute later", reloads, n)
		}
		if n := len(stderr.logged(t, away)); n != 1 {
			t.Errorf("%d failures were logged", n)
		}
		d.away.Store(true)
		write(t, a.path, both["config.yaml"])
		reload <- os.Interrupt
		wait(time.Minute)
		write(t, a.beside("accounts.yaml"), alice)
		d.away.Store(false)
		wait(applied)
		if got := a.users(t); got != "alice" {
			t.Errorf("after a change beside it: %q can sign in", got)
		}
		d.away.Store(true)
		write(t, a.path, inPlace(bob))
		reload <- os.Interrupt
		wait(applied)
		write(t, a.path, "nonsense: 1\n")
		reload <- os.Interrupt // the last signal counts
		d.away.Store(false)
		wait(time.Minute)
		if got := a.users(t); got != "alice" {
			t.Errorf("after another signal: %q can sign in", got)
		}
	})
}

// TestFollowSignalAtFault checks that a refused configuration does not stop changes
// beside it, and is not tried again.
func TestFollowSignalAtFault(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"at fault":        "nonsense: 1\n",
		"needs a restart": strings.Replace(both["config.yaml"], "memory", "sqlite", 1),
	} {
		following(t, openConfigured, both, func(a *App, stderr *output, reload chan<- os.Signal) {
			wait(applied)
			write(t, a.path, yaml)
			write(t, a.beside("accounts.yaml"), alice)
			reload <- os.Interrupt
			wait(applied)
			if got := a.users(t); got != "alice" {
				t.Errorf("%s: %q can sign in", name, got)
			}
			n := len(stderr.logged(t, failed))
			for range 2 {
				wait(time.Minute)
				reload <- os.Interrupt
			}
			wait(time.Minute)
			if all := len(stderr.logged(t, failed)); n == 0 || all != 3*n {
				t.Errorf("%s: %d problems were logged, and %d after three signals", name, n, all)
			}
		})
	}
}

// TestFollowOutageAtFault checks that a pending configuration that has mistakes
// after the outage is dropped.
func TestFollowOutageAtFault(t *testing.T) {
	t.Parallel()
	far(t, func(a *App, d *distant, _ *output, reload chan<- os.Signal) {
		d.away.Store(true)
		write(t, a.beside("other.yaml"), bob)
		write(t, a.path, strings.Replace(both["config.yaml"], "accounts.yaml", "other.yaml", 1))
		reload <- os.Interrupt
		wait(time.Minute)
		write(t, a.beside("other.yaml"), "nonsense\n")
		d.away.Store(false)
		wait(time.Minute)
		write(t, a.beside("other.yaml"), bob)
		wait(time.Minute)
		if got := a.users(t); got != "alice bob" {
			t.Errorf("%q can sign in", got)
		}
	})
}

// TestFollowRestart checks that a change that needs a restart is tried once.
func TestFollowRestart(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"config.yaml":   strings.Replace(both["config.yaml"], "memory", `redis, addresses: ["127.0.0.1:1"], password_file: password`, 1),
		"accounts.yaml": alice, "password": "one\n",
	}
	d := &distant{Memory: store.NewMemory(time.Now)}
	opened := func(context.Context, *config.Config, *slog.Logger) (openStore, error) { return d, nil }
	following(t, opened, files, func(a *App, stderr *output, _ chan<- os.Signal) {
		write(t, a.beside("password"), "another\n")
		wait(applied)
		if lines := stderr.logged(t, failed); len(lines) != 1 || !strings.Contains(lines[0]["error"].(string), "store need a restart") {
			t.Errorf("logged %v", lines)
		}
		if a.seen != stamps(a.Config().SideFiles()) {
			t.Error("it is tried again")
		}
	})
}

// TestFollowEnds checks that a stop waits at most for the current attempt.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	for range 20 { // select picks at random
		far(t, func(a *App, d *distant, _ *output, reload chan<- os.Signal) {
			d.silent = longest
			d.away.Store(true)
			write(t, a.path, inPlace(bob))
			reload <- os.Interrupt
			write(t, a.beside("accounts.yaml"), alice)
			time.Sleep(time.Minute)
		})
	}
}

// TestRunFollows checks that changes apply until the last request is answered.
func TestRunFollows(t *testing.T) {
	t.Parallel()
	files := map[string]string{"config.yaml": both["config.yaml"] + "shutdown_delay: 1s\n", "accounts.yaml": alice + bob}
	stderr := &output{}
	a := open(t, folder(t, files), stderr)
	ctx, stop := context.WithCancel(t.Context())
	reload, done := make(chan os.Signal), make(chan error, 1)
	stop()
	go func() { done <- a.Run(ctx, reload) }()
	write(t, a.beside("accounts.yaml"), alice)
	for range 2 { // Run takes the second one after the first is applied
		select {
		case reload <- os.Interrupt:
		case err := <-done:
			t.Fatalf("it has ended: %v", err)
		}
	}
	if n := len(stderr.logged(t, "reloaded")); n == 0 || a.Config().Accounts.Users[len(a.Config().Accounts.Users)-1].Username != "alice" {
		t.Errorf("%d reloads, %d accounts", n, len(a.Config().Accounts.Users))
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
