package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
