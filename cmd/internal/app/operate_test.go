package app

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/cmd/internal/control"
	"authgate/internal/test/logtest"
)

// run starts an App as Run does, until the test calls stop.
func run(t *testing.T, a *App) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, nil) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// A command reloads a gateway that runs, and learns what has changed, or why the
// configuration is refused. When the gateway has ended, it says so.
func TestOperateReload(t *testing.T) {
	t.Parallel()
	path := folder(t, t.TempDir(), map[string]string{"config.yaml": usual, "accounts.yaml": alice})
	a := open(t, path, io.Discard)
	stop := run(t, a)
	dataDir := filepath.Join(filepath.Dir(path), "data")
	var client *control.Client
	for client == nil { // the socket comes a moment after Run
		client, _ = control.Find(t.Context(), dataDir, 0)
	}
	if client.PID != os.Getpid() || client.Version != "test" || client.Configuration != path {
		t.Errorf("it is %+v", client.Process)
	}
	write(t, path, strings.Replace(usual, "match: /,", "match: /x,", 1))
	if changes, err := client.Reload(t.Context()); err != nil || len(changes) > 2 || a.Config().Routes[0].Match != "/x" {
		t.Errorf("reload: %q, %v", changes, err)
	}
	write(t, path, "nonsense: 1\n")
	if _, err := client.Reload(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "config.yaml:1:1: nonsense: unknown key") {
		t.Errorf("with a mistake: %v", err)
	}
	stop()
	if _, err := client.Reload(t.Context()); err == nil {
		t.Error("a gateway that has ended reloads")
	}
	if left, err := os.ReadDir(control.Folder(dataDir)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A gateway runs without its socket, and says so.
func TestOperateWithoutSocket(t *testing.T) {
	t.Parallel()
	path := folder(t, t.TempDir(), map[string]string{
		"config.yaml": usual, "accounts.yaml": alice, "data/control": "not a folder",
	})
	log := &logtest.Buffer{}
	stop := run(t, open(t, path, log))
	const message = "commands like reload and sessions do not reach this gateway"
	for len(log.Records(t, message)) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("it does not say so")
		}
	}
	stop()
}
