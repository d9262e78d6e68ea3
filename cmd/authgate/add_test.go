package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"authgate/gateway/config"
	"authgate/internal/test/must"
)

// Each archive of testdata/add has the arguments of commands in its comment, and files before
// them. After come what the commands print, and the files as they are then; -update writes that.
func TestAdd(t *testing.T) {
	for _, path := range must.Get(filepath.Glob("testdata/add/*.txtar"))(t) {
		path := must.Get(filepath.Abs(path))(t)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			source := must.Get(os.ReadFile(path))(t)
			got := txtar.Format(afterAdd(t, txtar.Parse(source)))
			switch {
			case *update:
				must.Do(t, os.WriteFile(path, got, 0o600))
			case !bytes.Equal(got, source):
				t.Errorf("run go test ./cmd/authgate -run TestAdd -update; the archive becomes\n%s", got)
			}
		})
	}
}

// afterAdd runs the commands of an archive, and returns it with what comes after them.
func afterAdd(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	t.Chdir(t.TempDir())
	next := &txtar.Archive{Comment: archive.Comment}
	for _, file := range archive.Files {
		if strings.HasPrefix(file.Name, "after/") || file.Name == "printed" {
			continue
		}
		next.Files = append(next.Files, file)
		must.Do(t, os.MkdirAll(filepath.Dir(file.Name), 0o700))
		must.Do(t, os.WriteFile(file.Name, file.Data, 0o640))
		must.Do(t, os.Chmod(file.Name, 0o640))
	}
	var printed bytes.Buffer
	for line := range strings.Lines(string(archive.Comment)) {
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), "$ authgate "); ok {
			printed.WriteString(strings.TrimSpace(line) + "\n")
			cmd := root()
			cmd.SetArgs(strings.Fields(args))
			cmd.SetOut(&printed)
			cmd.SetErr(&printed)
			if err := cmd.Execute(); err != nil {
				printed.WriteString("authgate: " + err.Error() + "\n")
			}
		}
	}
	next.Files = append(next.Files, txtar.File{Name: "printed", Data: printed.Bytes()})
	for _, file := range next.Files {
		if file.Name == "printed" {
			continue
		}
		now := must.Get(os.ReadFile(file.Name))(t)
		if !bytes.Equal(now, file.Data) {
			next.Files = append(next.Files, txtar.File{Name: "after/" + file.Name, Data: now})
			wantMode(t, file.Name, 0o640)
		}
	}
	if _, err := config.Load("config.yaml"); err != nil && !bytes.Contains(printed.Bytes(), []byte("config.yaml:")) {
		t.Errorf("the configuration is not valid any more: %v", err)
	}
	return next
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if mode := must.Get(os.Stat(path))(t).Mode().Perm(); mode != want {
		t.Errorf("%s has the mode %o, want %o", path, mode, want)
	}
}

// add asks for what is missing, checks each answer at once, and asks again.
func TestAddAsks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	steps := defaults()
	must.Do(t, steps.settle(path, false))
	must.Do(t, steps.write(path, "correct horse", false))
	var a adding
	must.Do(t, a.open(path, config.Environment{}))
	person := &script{answers: []string{
		"", "app", "wiki",
		"a b", "app.localhost", "https://wiki.localhost:8443/", // the address of a page
		"nowhere", "http://127.0.0.1:4000",
		",", "admin",
		"Wiki",
	}}
	if err := a.ask(person); err != nil || len(person.answers) > 0 {
		t.Fatalf("%v, with %q to come\n%s", err, person.answers, person.said.String())
	}
	for _, part := range []string{
		"a name is needed", `there is an upstream "app" already`,
		"neither a host nor", "[wiki.localhost]: ", "serves app.localhost/ already",
		`"nowhere" does not begin with http://`, "no role is given",
	} {
		if !strings.Contains(person.said.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, person.said.String())
		}
	}
	var out bytes.Buffer
	must.Do(t, a.run(t.Context(), &out, &out))
	cfg := must.Get(config.Load(path))(t)
	last := cfg.Routes[len(cfg.Routes)-1]
	if last.Match != "wiki.localhost/" || last.App == nil || last.App.Title != "Wiki" || len(last.Policy) != 1 {
		t.Errorf("the answers became %+v\n%s", last, out.String())
	}
}

// The start page lists an application by its name, unless another title or none is wanted.
func TestAddAsksTitle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	steps := defaults()
	must.Do(t, steps.settle(path, false))
	must.Do(t, steps.write(path, "correct horse", false))
	for answer, want := range map[string]string{"": "wiki", "Our wiki": "Our wiki", "none": ""} {
		var a adding
		must.Do(t, a.open(path, config.Environment{}))
		a.app.Name, a.app.URL, a.host, a.public = "wiki", "http://127.0.0.1:4000", "wiki.localhost", true
		must.Do(t, a.ask(&script{answers: []string{answer}}))
		if a.app.Title != want {
			t.Errorf("%q: the title is %q, want %q", answer, a.app.Title, want)
		}
	}
}

// The name of a role lets in only users who have it, also where the role is called users.
func TestAddAsksWho(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte("accounts: {users: [{username: alice, roles: [users], password_hash: \""+
		exampleHash+"\"}]}\nupstreams: {}\nroutes: []\n"), 0o600))
	for answer, want := range map[string]string{
		"": "[session] []", "all users": "[session] []", "public": "[none] []",
		"users": "[session] [users]", "users, staff": "[session] [users staff]", "public, staff": "[session] [public staff]",
		"Public": "[session] [Public]", "everybody": "[session] [everybody]",
	} {
		var a adding
		must.Do(t, a.open(path, config.Environment{}))
		a.app.Name, a.app.URL, a.app.Title, a.host = "wiki", "http://127.0.0.1:4000", "Wiki", "wiki.example.org"
		must.Do(t, a.ask(&script{answers: []string{answer}}))
		app := must.Get(a.application(a.cfg))(t)
		if got := fmt.Sprint(app.Auth, app.Roles); got != want {
			t.Errorf("%q: %s, want %s", answer, got, want)
		}
	}
}

// A refused name does not reach the terminal with its control characters.
func TestAddPrintsNoControlCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte("upstreams: {}\nroutes: []\n"), 0o600))
	cmd := addCommand()
	cmd.SetArgs([]string{"wi\x1b[31mki", "--config", path, "--host", "wiki.lan", "--upstream", "http://127.0.0.1:1"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || strings.Contains(err.Error(), "\x1b") ||
		!strings.Contains(err.Error(), "control") {
		t.Errorf("a name with an escape sequence: %q", err)
	}
}

// With a provider, whose users can be strangers, no answer lets all users in.
func TestAddAsksWhoOfProvider(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte("endpoints: {prefix: /.authgate/}\nupstreams: {}\nroutes: []\n"+
		"providers: [{name: idp, issuer: \"https://idp.example.org\", client_id: gate}]\n"), 0o600))
	var a adding
	must.Do(t, a.open(path, config.Environment{}))
	a.app.Name, a.app.URL, a.app.Title, a.host = "wiki", "http://127.0.0.1:4000", "Wiki", "wiki.example.org"
	person := &script{answers: []string{"", "staff"}}
	must.Do(t, a.ask(person))
	if app := must.Get(a.application(a.cfg))(t); fmt.Sprint(app.Roles) != "[staff]" {
		t.Errorf("the roles are %v", app.Roles)
	}
	if said := person.said.String(); !strings.Contains(said, "all users (those of the providers too)") ||
		!strings.Contains(said, "an answer is needed") || strings.Contains(said, "[all users]") {
		t.Errorf("it says:\n%s", said)
	}
}

// add names a policy that says what --roles says: the first by name, in the files as they are when
// add writes. An editor may have saved them since add has begun.
func TestAddNamesPolicyOfTheFiles(t *testing.T) {
	t.Parallel()
	const head = "accounts: {users: [{username: alice, roles: [staff], password_hash: \"" + exampleHash + "\"}]}\n" +
		"include: [part.yaml]\nupstreams: {}\nroutes: []\n"
	const before = "policies: {c: {roles: [staff]}, d: {roles: [staff]}, b: {roles: [staff]}}\n"
	const saved = "policies: {c: {roles: [staff]}, d: {roles: [staff]}, b: {roles: [staff, guests]}}\n"
	for name, c := range map[string]struct {
		main, part, savedMain, savedPart string
		want                             string
	}{
		"nothing changes":       {head + before, "", head + before, "", "b"},
		"the main file changes": {head + before, "", head + saved, "", "c"},
		"a part changes":        {head, before, head, saved, "c"},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "config.yaml")
		save := func(main, part string) {
			must.Do(t, os.WriteFile(path, []byte(main), 0o600))
			must.Do(t, os.WriteFile(filepath.Join(folder, "part.yaml"), []byte(part), 0o600))
		}
		save(c.main, c.part)
		var a adding
		must.Do(t, a.open(path, config.Environment{}))
		a.app.Name, a.app.URL, a.host = "wiki", "http://127.0.0.1:4000", "wiki.example.org"
		must.Do(t, a.setRoles("staff"))
		save(c.savedMain, c.savedPart)
		var out bytes.Buffer
		must.Do(t, a.run(t.Context(), &out, &out))
		route := must.Get(config.Load(path))(t).Routes[0]
		if len(route.Policy) != 1 || route.Policy[0].Name != c.want {
			t.Errorf("%s: the policy is %+v, want %s", name, route.Policy, c.want)
		}
	}
}

// The host that add suggests is beside that of the gateway.
func TestAddSuggestsHost(t *testing.T) {
	t.Parallel()
	for public, want := range map[string]string{
		"https://localhost:8443": "wiki.localhost", "https://127.0.0.1": "wiki.localhost",
		"https://login.example.org": "wiki.example.org", "https://example.org": "wiki.example.org",
		"https://gate": "wiki.gate", "https://a.b.example.co.uk": "wiki.b.example.co.uk", "https://app.lan": "wiki.lan",
		"https://example.co.uk": "wiki.example.co.uk", "https://me.github.io": "wiki.me.github.io",
		"https://wiki.example.org": "wiki.wiki.example.org", "https://wiki.localhost": "wiki.wiki.localhost",
		"https://192.0.2.7:8443": "192.0.2.7/wiki/", "https://[2001:db8::1]:8443": "[2001:db8::1]/wiki/",
	} {
		a := adding{cfg: &config.Config{PublicURL: must.Get(url.Parse(public))(t)}}
		a.app.Name = "wiki"
		if got := a.likelyHost(); got != want {
			t.Errorf("%s: %s, want %s", public, got, want)
		}
	}
	for name, want := range map[string]string{
		"Wiki": "wiki.example.org", "My_first wiki!": "my-first-wiki.example.org", "ウィキ": "app.example.org",
	} {
		if got := besideHost("login.example.org", name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
