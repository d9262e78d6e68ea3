package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"authgate/internal/test/must"
)

// includedFiles writes the files of an archive, whose main file is authgate.yaml, and returns
// the path of that.
func includedFiles(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, file.Name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, file.Data, 0o600))
	}
	return filepath.Join(dir, "authgate.yaml")
}

const included = `
-- authgate.yaml --
include: ["*.yaml", conf.d/*.yaml, "conf.d/[a-m]*", none/*.yaml, "conf.d/*/c.yaml"]
public_url: https://gw.example
endpoints: {prefix: /.authgate/}
tls: {mode: "off"}
listen: {http: 127.0.0.1:8080, trusted_proxies: [127.0.0.1]}
routes:
  - {match: main.example/, upstream: wiki, auth: [session], policy: staff}
accounts: {users: [{username: alice, password_hash: "$2a$10$7EqJtq98hPqEX7fNZaFWoO5o5o5o5o5o5o5o5o5o5o5o5o5o5o5oO"}]}
oauth: {enabled: true}
-- .hidden.yaml --
not: read
-- conf.d/.hidden.yaml --
not: read
-- conf.d/.git/c.yaml --
not: read
-- conf.d/a.yaml --
# what the parts share
policies:
  staff: {roles: [staff]}
providers:
  - {name: idp, issuer: https://idp.example, client_id: gw, client_secret_file: secrets/idp}
-- conf.d/b.yaml --
upstreams:
  wiki: {url: "https://127.0.0.1:9000", tls: {fingerprint: "sha256:` +
	`0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}}
routes:
  - {match: wiki.example/, upstream: wiki, auth: [session], policy: [staff]}
oauth:
  clients:
    - {id: app, secret_file: secrets/idp, redirect_uris: [https://app.example/cb], grants: [authorization_code]}
-- conf.d/empty.yaml --
# nothing yet
-- conf.d/secrets/idp --
one secret of thirty-two characters
`

func TestInclude(t *testing.T) {
	t.Parallel()
	path := includedFiles(t, included)
	conf := filepath.Join(filepath.Dir(path), "conf.d")
	must.Do(t, os.Symlink("a.yaml", filepath.Join(conf, "again.yaml")))
	must.Do(t, os.Symlink("../authgate.yaml", filepath.Join(conf, "main.yaml")))
	cfg := must.Get(Load(path))(t)
	var routes []string
	for _, route := range cfg.Routes {
		routes = append(routes, route.Match)
	}
	const secret = "one secret of thirty-two characters"
	if diff := cmp.Diff([]string{"main.example/", "wiki.example/"}, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if cfg.Providers[0].ClientSecret.Reveal() != secret || cfg.OAuth.Clients[0].Secret.Reveal() != secret {
		t.Error("the secrets beside the parts are not read")
	}
	want := []string{filepath.Join(conf, "a.yaml"), filepath.Join(conf, "b.yaml"), filepath.Join(conf, "empty.yaml")}
	if got := cfg.Parts(); !slices.Equal(got, want) {
		t.Errorf("the parts are %q, want %q", got, want)
	}
	if w := cfg.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %v", w)
	}
}

// A mistake is reported in the part that has it, and a name that comes twice with both places.
func TestIncludeMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change, main string
		want         []string
	}{
		"a key of the main file": {"listen: {http: 127.0.0.1:1}\n", "", []string{
			"conf.d/z.yaml:1:1: listen: unknown key; the keys here are oauth, policies, providers, routes, upstreams"}},
		"a value of the wrong type": {"routes:\n  - {match: 5, upstream: wiki, auth: [none]}\n", "", []string{
			"conf.d/z.yaml:2:13: routes[0].match: expected a string, found a number; put it in quotes"}},
		"an unknown word": {"upstreams:\n  one: {url: \"http://127.0.0.1:1\", balance: often}\n", "", []string{
			`conf.d/z.yaml:2:45: upstreams.one.balance: "often" is not a valid value; ` +
				`expected round_robin, least_requests or client`}},
		"an unknown upstream": {"routes:\n  - {match: z.example/, upstream: gone, auth: [none]}\n", "", []string{
			`conf.d/z.yaml:2:35: routes[0].upstream: there is no upstream "gone"; the upstreams are wiki`}},
		"an upstream twice": {"upstreams:\n  wiki: {url: \"http://127.0.0.1:1\"}\n", "", []string{
			`conf.d/z.yaml:2:9: upstreams.wiki: "wiki" is already defined at DIR/conf.d/b.yaml:2; ` +
				`choose another name, or remove one of the two`}},
		"an upstream of the main file twice": {"upstreams:\n  own: {url: \"http://127.0.0.1:1\"}\n",
			"upstreams: {own: {url: \"http://127.0.0.1:1\"}}\n", []string{
				`conf.d/z.yaml:2:8: upstreams.own: "own" is already defined at DIR/authgate.yaml:10; ` +
					`choose another name, or remove one of the two`}},
		"a policy twice": {"policies:\n  staff: {roles: [all]}\n", "", []string{
			`conf.d/z.yaml:2:10: policies.staff: "staff" is already defined at DIR/conf.d/a.yaml:3; ` +
				`choose another name, or remove one of the two`}},
		"a provider twice": {"providers:\n  - {name: idp, issuer: https://z.example, client_id: z}\n", "", []string{
			`conf.d/z.yaml:2:12: providers[0].name: "idp" is already the name of providers[0] at DIR/conf.d/a.yaml:5`}},
		"a client twice": {"oauth:\n  clients: [{id: app, redirect_uris: [https://z.example/cb]}]\n", "", []string{
			`conf.d/z.yaml:2:18: oauth.clients[0].id: "app" is already the client identifier of ` +
				`oauth.clients[0] at DIR/conf.d/b.yaml:7`}},
		"a route twice": {"routes:\n  - {match: main.example/, upstream: wiki, auth: [none]}\n", "", []string{
			`conf.d/z.yaml:2:13: routes[0].match: "main.example/": conflicts with "main.example/" of routes[0] ` +
				`at DIR/authgate.yaml:7: main.example/ matches ` +
				"the same requests as main.example/"}},
		"no YAML": {"routes: [\n", "", []string{"conf.d/z.yaml:1:9: document: not valid YAML: " +
			"sequence end token ']' not found"}},
		"cut off": {"routes: []", "", []string{"conf.d/z.yaml:1:11: document: " +
			"the file does not end with a line break, so it may be cut off; " +
			"write the whole file, with a line break at its end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main := strings.Replace(included, "oauth: {enabled: true}\n", "oauth: {enabled: true}\n"+c.main, 1)
			path := includedFiles(t, main+"-- conf.d/z.yaml --\n")
			dir := filepath.Dir(path) + string(filepath.Separator)
			must.Do(t, os.WriteFile(dir+"conf.d/z.yaml", []byte(c.change), 0o600))
			_, err := Load(path)
			problems, _ := err.(Diagnostics)
			var got []string
			for _, problem := range problems {
				got = append(got, strings.ReplaceAll(strings.TrimPrefix(problem.String(), dir), dir, "DIR/"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What LoadFiles returns tells when a part changes, comes or goes. Reread keeps the parts as
// they were: one with a mistake must not keep an account from going.
func TestIncludedFilesChange(t *testing.T) {
	t.Parallel()
	path := includedFiles(t, included)
	cfg, files, err := Environment{}.LoadFiles(path)
	must.Do(t, err)
	part := filepath.Join(filepath.Dir(path), "conf.d", "b.yaml")
	content := must.Get(os.ReadFile(part))(t)
	changed := func() bool {
		return slices.ContainsFunc(files, func(file File) bool { return !file.Same(file.Now()) })
	}
	for _, step := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"nothing", func() error { return nil }, false},
		{"a part comes", func() error { return os.WriteFile(part+".yaml", nil, 0o600) }, true},
		{"and goes", func() error { return os.Remove(part + ".yaml") }, false},
		{"a part is another file", func() error { return os.Rename(part, path+".old") }, true},
		{"with a mistake", func() error { return os.WriteFile(part, []byte("wrong"), 0o600) }, true},
	} {
		must.Do(t, step.do())
		if got := changed(); got != step.want {
			t.Errorf("%s: changed is %t", step.name, got)
		}
	}
	if _, err := Load(path); err == nil {
		t.Error("a part with a mistake is read")
	}
	if again := must.Get(cfg.Reread())(t); len(again.Routes) != 2 {
		t.Errorf("read again, there are %d routes", len(again.Routes))
	}
	must.Do(t, os.WriteFile(part, content, 0o600))
	must.Get(Load(path))(t)
}
