package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/gateway/proxy/server"
	"authgate/internal/test/must"
)

// Where no gateway runs, the error says so, before the words of the network.
func TestHealthcheckWithoutGateway(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "public_url: https://localhost:8443\n" +
		"listen: {admin: \"127.0.0.1:1\"}\n" + // where nothing listens
		"routes: [{match: /, upstream: app, auth: [none]}]\n" +
		"upstreams: {app: {url: \"http://127.0.0.1:3000\"}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := healthcheckCommand()
	cmd.SetArgs([]string{"--config", path})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	const want = "no gateway answers at 127.0.0.1:1, or not yet: "
	if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %v, expected %s…", err, want)
	}
}

// With --wait it asks again until the gateway is ready.
func TestHealthcheckWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked := 0
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(server.InstanceHeader, server.InstanceOf(filepath.Join(dir, "data")))
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer admin.Close()
	text := "public_url: https://localhost:8443\ndata_dir: data\n" +
		"listen: {admin: \"" + admin.Listener.Addr().String() + "\"}\n" +
		"routes: [{match: /, upstream: app, auth: [none]}]\n" +
		"upstreams: {app: {url: \"http://127.0.0.1:3000\"}}\n"
	path := filepath.Join(dir, "config.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	for wait, ready := range map[string]bool{"0s": false, "1m": true} {
		asked = 0
		var out strings.Builder
		cmd := healthcheckCommand()
		cmd.SetArgs([]string{"--config", path, "--wait", wait})
		cmd.SetOut(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); (err == nil) != ready || (out.String() == "ready\n") != ready {
			t.Errorf("--wait %s: %v, %q", wait, err, &out)
		}
	}
}
