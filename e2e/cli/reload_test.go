package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"authgate/e2e/world"
)

// TestReloadBySight: the gateway sees changes by itself, in each way in which
// people and programs make them, and logs what is different.
func TestReloadBySight(t *testing.T) {
	t.Parallel()
	g := world.Prepare(t)
	config := func(to string) string {
		return "public_url: " + g.Base + "\n" + g.Listen + "store: {driver: memory}\nupstreams: {app: {url: " +
			"\"http://127.0.0.1:1\"}}\n" +
			"accounts: {users: [{username: alice, password_hash: \"" + world.WonderlandHash + "\"}]}\n" +
			"routes: [{match: \"/" + to + "\", upstream: app, auth: [session]}]\n"
	}
	path := func(name string) string { return filepath.Join(g.Dir, name) }
	write := func(name, to string) {
		t.Helper()
		world.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path(name)), 0o700),
			os.WriteFile(path(name), []byte(config(to)), 0o600)))
	}
	// As Kubernetes mounts a ConfigMap.
	write("..1/config.yaml", "first")
	world.NoError(t, errors.Join(os.Symlink("..1", path("..data")), os.Symlink("..data/config.yaml", path("config.yaml"))))
	g.Run()
	for i, step := range []struct {
		route string
		do    func(to string)
	}{
		{"mounted", func(to string) {
			write("..2/config.yaml", to)
			world.NoError(t, errors.Join(os.Symlink("..2", path("..data_tmp")), os.Rename(path("..data_tmp"), path("..data"))))
		}},
		{"written", func(to string) { write("..2/config.yaml", to) }},
		{"replaced", func(to string) {
			write("config.yaml.new", to)
			world.NoError(t, os.Rename(path("config.yaml.new"), path("config.yaml")))
		}},
		{"edited", func(to string) {
			world.NoError(t, os.Rename(path("config.yaml"), path("config.yaml~")))
			write("config.yaml", to)
		}},
	} {
		step.do(step.route)
		world.Until(t, "a reload when the file is "+step.route, func() bool { return len(g.Log.Records(t, "reloaded")) > i })
		if changes, _ := g.Log.Records(t, "reloaded")[i]["changes"].([]any); !slices.Contains(changes,
			any("routes[0]: added (/"+step.route+")")) {
			t.Errorf("%s: the changes %q", step.route, changes)
		}
	}
}
