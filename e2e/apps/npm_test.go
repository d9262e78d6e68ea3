package apps

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// startRegistry starts verdaccio, a registry for npm, with the file of
// docs/applications/npm.md, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	program := world.Path("e2e/registry/node_modules/verdaccio/bin/verdaccio")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the registry is not installed, run make deps: %v", err)
	}
	dir, address := t.TempDir(), world.FreeAddress(t)
	world.WriteAll(t, dir, map[string]string{"verdaccio.yaml": world.Substituted(t,
		world.DocumentedFile(t, "docs/applications/npm.md", "verdaccio.yaml"), "127.0.0.1:4873", address)})
	world.Launch(t, "http://"+address+"/-/ping",
		world.ShellIn(dir, nil, "node", program, "--config", filepath.Join(dir, "verdaccio.yaml")))
	return address
}

// TestNpm: npm publishes a package with a scope, whose slash it encodes, with an API token as
// bearer, and installs it with the token as the password of Basic.
func TestNpm(t *testing.T) {
	t.Parallel()
	up := world.StartTap(t, startRegistry(t))
	g := world.Start(t, world.People+world.AtLocalhost(world.DocumentedApp(t, "npm.md", "npm", up.URL)))
	token, dir := g.APIToken("alice"), t.TempDir()
	registry := strings.TrimPrefix(g.Base, "https:") + "/"
	npm := func(name, credential string, args ...string) *exec.Cmd {
		folder := filepath.Join(dir, name)
		world.NoError(t, os.MkdirAll(folder, 0o700))
		world.WriteAll(t, folder, map[string]string{".npmrc": fmt.Sprintf("registry=https:%s\ncafile=%s\n%s\n", registry,
			filepath.Join(g.Dir, g.CA), credential)})
		return world.ShellIn(folder, []string{"npm_config_cache=" + filepath.Join(folder, "cache"),
			"npm_config_userconfig=" + filepath.Join(folder, ".npmrc"),
			"npm_config_audit=false", "npm_config_fund=false",
			"npm_config_update_notifier=false", "npm_config_fetch_retries=0"}, "npm", args...)
	}
	publish := npm("publisher", registry+":_authToken="+token, "publish")
	world.WriteAll(t, publish.Dir, map[string]string{
		"package.json": `{"name": "@example/greeting", "version": "1.2.3", "main": "index.js", "files": ["index.js"]}`,
		"index.js":     `module.exports = "hello from the registry"`,
	})
	stranger := npm("stranger", registry+":_authToken=agt_of-a-stranger", "view", "@example/greeting")
	if out, err := stranger.CombinedOutput(); err == nil || !strings.Contains(string(out), "E401") {
		t.Errorf("with a wrong token: %v\n%s", err, out)
	}
	if up.Has("greeting") {
		t.Error("a request with a wrong token reached the registry")
	}
	runs(t, publish)
	basic := base64.StdEncoding.EncodeToString([]byte("alice:" + token))
	install := npm("user", registry+":_auth="+basic, "install", "@example/greeting@1.2.3")
	runs(t, install)
	if got := runs(t, world.ShellIn(install.Dir, nil, "node", "-p",
		`require("@example/greeting")`)); got != "hello from the registry\n" {
		t.Errorf("the installed package says %q", got)
	}
	if !up.Has("PUT /@example%2fgreeting HTTP/1.1") {
		t.Errorf("the registry did not get the package under its encoded name")
	}
	up.WantUser(t, "alice", token, basic)
}
