package app

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/cmd/internal/systemd"
	"authgate/gateway/config"
	"authgate/gateway/store"
)

// notices are those that systemd got. It is a service that systemd watches, every minute.
type notices chan string

func (n notices) service() systemd.Service {
	return systemd.Service{Watchdog: time.Minute, Notify: func(notice string) error {
		first, _, _ := strings.Cut(notice, "\n")
		n <- first
		return nil
	}}
}

// take returns the notices since the last call.
func (n notices) take() (all []string) {
	for {
		select {
		case notice := <-n:
			all = append(all, notice)
		default:
			return all
		}
	}
}

// watched runs f with a gateway that follows its files, on the clock of a bubble.
func watched(t *testing.T, f func(*distant, *followed, notices)) {
	t.Helper()
	path := folder(t, t.TempDir(), withAccounts(alice))
	synctest.Test(t, func(t *testing.T) {
		n, d := make(notices, 1000), &distant{Memory: store.NewMemory(time.Now)}
		opened := func(context.Context, *config.Config, *slog.Logger) (storeCloser, error) { return d, nil }
		g := &followed{t: t, unaware: true,
			App: must(openWith(t.Context(), opened, path, "test", io.Discard, n.service()))}
		defer shut(t, g.App)
		ctx, stop := context.WithCancel(t.Context())
		var over atomic.Bool
		go func() {
			g.follow(ctx, noNotices{}, nil)
			over.Store(true)
		}()
		f(d, g, n)
		stop()
		synctest.Wait()
		if !over.Load() {
			t.Error("follow does not end")
		}
	})
}

// systemd learns of each reload and its end, also of one that fails.
func TestReloadNotices(t *testing.T) {
	t.Parallel()
	watched(t, func(_ *distant, g *followed, n notices) {
		for _, content := range []string{alice + bob, "nonsense"} {
			g.set("accounts.yaml", content)
			wait(unseen)
			got := slices.DeleteFunc(n.take(), func(notice string) bool { return notice == systemd.Alive })
			if !slices.Equal(got, []string{"RELOADING=1", "READY=1"}) {
				t.Errorf("after %q: %q", content, got)
			}
		}
	})
}

// The gateway is alive twice as often as systemd asks for, also while its store is away, which no
// restart mends. It is not alive when what applies changes hangs.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	watched(t, func(d *distant, g *followed, n notices) {
		alive := func(when string, want int) {
			t.Helper()
			wait(10*time.Minute + longest)
			got := slices.DeleteFunc(n.take(), func(notice string) bool { return notice != systemd.Alive })
			if len(got) != want {
				t.Errorf("%s, systemd sees it alive %d times in 10 minutes, want %d", when, len(got), want)
			}
		}
		alive("when all is well", 20)
		d.away.Store(true)
		d.silent = time.Hour
		alive("while the store does not answer", 20)
		d.away.Store(false)
		done := make(chan outcome)
		g.commands <- command{"", done}
		alive("when it hangs", 0)
		<-done
		wait(time.Second)
		alive("afterwards", 20+1) // one more was due
	})
}

// systemd learns that the gateway is ready when clients can connect, and that it stops.
func TestRunNotices(t *testing.T) {
	t.Parallel()
	n := make(notices, 10)
	path := folder(t, t.TempDir(), withAccounts(alice))
	a := must(Open(t.Context(), path, "test", io.Discard, n.service()))
	if got := n.take(); got != nil {
		t.Errorf("before Run: %q", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, nil) }()
	if got := <-n; got != systemd.Ready {
		t.Errorf("first %q", got)
	}
	stop()
	if got := <-n; got != systemd.Stopping {
		t.Errorf("then %q", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
