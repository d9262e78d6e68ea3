package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReloadBySight: the gateway sees changes by itself, in each way in which
// people and programs make them, and logs what is different.
func TestReloadBySight(t *testing.T) {
	t.Parallel()
	g := prepared(t)
	config := func(to string) string {
		return "public_url: " + g.base + "\n" + g.listen + "store: {driver: memory}\nupstreams: {app: {url: \"http://127.0.0.1:1\"}}\n" +
			"accounts: {users: [{username: alice, password_hash: \"" + wonderlandHash + "\"}]}\n" +
			"routes: [{match: \"/" + to + "\", upstream: app, auth: [session]}]\n"
	}
	path := func(name string) string { return filepath.Join(g.dir, name) }
	write := func(name, to string) {
		t.Helper()
		noError(t, errors.Join(os.MkdirAll(filepath.Dir(path(name)), 0o700), os.WriteFile(path(name), []byte(config(to)), 0o600)))
	}
	// As Kubernetes mounts a ConfigMap.
	write("..1/config.yaml", "first")
	noError(t, errors.Join(os.Symlink("..1", path("..data")), os.Symlink("..data/config.yaml", path("config.yaml"))))
	g.run()
	for i, step := range []struct {
		route string
		do    func(to string)
	}{
		{"mounted", func(to string) {
			write("..2/config.yaml", to)
			noError(t, errors.Join(os.Symlink("..2", path("..data_tmp")), os.Rename(path("..data_tmp"), path("..data"))))
		}},
		{"written", func(to string) { write("..2/config.yaml", to) }},
		{"replaced", func(to string) {
			write("config.yaml.new", to)
			noError(t, os.Rename(path("config.yaml.new"), path("config.yaml")))
		}},
		{"edited", func(to string) {
			noError(t, os.Rename(path("config.yaml"), path("config.yaml~")))
			write("config.yaml", to)
		}},
	} {
		step.do(step.route)
		until(t, "a reload when the file is "+step.route, func() bool { return len(g.entriesOf("reloaded")) > i })
		if changes, _ := g.entriesOf("reloaded")[i]["changes"].([]any); !slices.Contains(changes, any("routes[0]: added (/"+step.route+")")) {
			t.Errorf("%s: the changes %q", step.route, changes)
		}
	}
}
