package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// withApp is a configuration with one route and its application.
func withApp(match, auth, app string) string {
	return "accounts: {users: [{username: alice, password_hash: \"" + hashForTests + "\"}]}\n" +
		"basic: {users: [{username: service, password_hash: \"" + hashForTests + "\"}]}\n" +
		"upstreams: {app: {url: 'http://127.0.0.1:1'}}\n" +
		"routes: [{match: " + match + ", upstream: app, auth: [" + auth + "], app: {" + app + "}}]\n"
}

const hashForTests = "$2a$10$Cj2Uz06dB9glrWi2CkzdLOgicT5SRMqoxdycGqW2on5R3QOFP1nBy"

// An icon is a file of the configuration without secrets, and has a bound.
func TestIcons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image := func(size int) string {
		const start, end = `<svg xmlns="http://www.w3.org/2000/svg">`, `</svg>`
		return start + strings.Repeat(" ", size-len(start+end)) + end
	}
	icon := filepath.Join(dir, "wiki.svg")
	load := func(size int) (*Config, error) {
		must.Do(t, os.WriteFile(icon, []byte(image(size)), 0o644))
		return Parse(filepath.Join(dir, "config.yaml"), []byte(withApp("/", "session", "title: Wiki, icon: wiki.svg")))
	}
	cfg := must.Get(load(256 << 10))(t)
	app := cfg.Routes[0].App
	if len(app.Image.Content) != 256<<10 || app.Image.MediaType != "image/svg+xml" || app.Icon != icon {
		t.Errorf("%d bytes of %s from %s", len(app.Image.Content), app.Image.MediaType, app.Icon)
	}
	if !slices.Contains(cfg.SideFiles(), icon) || !slices.Contains(cfg.PublicFiles(), icon) {
		t.Errorf("files %q, public %q", cfg.SideFiles(), cfg.PublicFiles())
	}
	must.Do(t, os.Remove(icon))
	if _, err := cfg.Reread(); err == nil || !strings.Contains(err.Error(), "routes[0].app.icon: cannot read") {
		t.Errorf("without the file: %v", err)
	}
	if _, err := load(256<<10 + 1); err == nil || !strings.Contains(err.Error(), "routes[0].app.icon") {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := Parse("config.yaml", []byte(withApp("/", "session", "title: Wiki, icon: ''"))); err != nil {
		t.Errorf("no icon: %v", err)
	}
}

// The icon of a part of the configuration starts at the part, as its other files do.
func TestIconsOfParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "conf.d"), 0o700))
	icon := filepath.Join(dir, "conf.d", "wiki.svg")
	must.Do(t, os.WriteFile(icon, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600))
	whole := withApp("wiki.example/", "session", "title: Wiki, icon: wiki.svg")
	main, routes, _ := strings.Cut(whole, "routes:")
	must.Do(t, os.WriteFile(filepath.Join(dir, "conf.d", "wiki.yaml"), []byte("routes:"+routes), 0o600))
	cfg := must.Get(Parse(filepath.Join(dir, "config.yaml"), []byte("include: [conf.d/*.yaml]\n"+main)))(t)
	if got := cfg.Routes[0].App; got.Icon != icon || len(got.Image.Content) == 0 {
		t.Errorf("the icon is %s, with %d bytes", got.Icon, len(got.Image.Content))
	}
}

// What the start page shows has bounds, in characters.
func TestAppTexts(t *testing.T) {
	t.Parallel()
	for app, ok := range map[string]bool{
		"title: " + strings.Repeat("ü", 100):                                   true,
		"title: " + strings.Repeat("ü", 101):                                   false,
		"title: Wiki, description: " + strings.Repeat("ü", 300):                true,
		"title: Wiki, description: " + strings.Repeat("ü", 301):                false,
		"title: Wiki, url: 'https://wiki.example.org:8443/@alice?q=a b#/home'": true,
		"title: Wiki, url: ''":                                                 true,
	} {
		if _, err := Parse("config.yaml", []byte(withApp("/", "session", app))); (err == nil) != ok {
			t.Errorf("%s: %v", app, err)
		}
	}
}

// An application that no user can open by a sign-in is a warning.
func TestWarningsOfApps(t *testing.T) {
	t.Parallel()
	for auth, warned := range map[string]bool{
		"session": false, "'session', 'bearer'": false, "none": false, "bearer": true,
		"'basic', 'bearer'": true, "bearer, none": false,
	} {
		got := warnings(t, "config.yaml", "endpoints: {prefix: /.authgate/}\n"+withApp("/", auth, "title: Wiki"))
		checkWarning(t, auth, got, warned, "routes[0].app", "no user sees")
	}
}

// The endpoints exist only with applications, so that others keep their paths.
func TestAppEndpoints(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]bool{
		withApp("/", "session", "title: Wiki"):                                       true,
		strings.Replace(withApp("/account/apps", "session", ""), ", app: {}", "", 1): false,
	} {
		cfg := must.Get(Parse("config.yaml", []byte(yaml)))(t)
		if got := slices.Contains(cfg.OwnEndpoints(), "account/apps"); got != want || cfg.HasApps() != want {
			t.Errorf("%s\nhas the endpoint: %t", yaml, got)
		}
	}
}
