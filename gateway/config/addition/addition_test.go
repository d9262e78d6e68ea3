package addition

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"authgate/gateway/config"
	"authgate/internal/test/must"
	"authgate/policy"
)

var wiki = Application{
	Name: "added-wiki", URL: "http://127.0.0.1:4000", Match: "added.example.org/", Auth: []policy.Mechanism{policy.None},
	Title: "Wiki: \"ours\"", Description: "#1",
}

// keeps reports whether a text is another one with more in between.
func keeps(text, of []byte) bool {
	for _, b := range text {
		if len(of) > 0 && b == of[0] {
			of = of[1:]
		}
	}
	return len(of) == 0
}

// hasAt reports whether a text has a change of the application at its line.
func hasAt(text []byte, change Change) bool {
	lines := strings.SplitAfter(string(text), "\n")
	from := strings.Join(lines[change.Line-1:], "")
	at := strings.Index(from, change.Text)
	return strings.Contains(change.Text, "added-wiki") && at >= 0 && at <= strings.IndexByte(from+"\n", '\n')
}

// The application is added to any valid configuration, and nothing else changes.
func TestInto(t *testing.T) {
	t.Parallel()
	for name, source := range sources(t) {
		old, err := config.Parse(name, source)
		if err != nil {
			continue // it needs files
		}
		text, changes, err := wiki.Into(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, change := range changes {
			if !hasAt(text, change) {
				t.Errorf("%s: what is new in %s is not at line %d:\n%s", name, change.Section, change.Line, change.Text)
			}
		}
		if !keeps(text, source) {
			t.Errorf("%s: bytes are lost:\n%s", name, text)
		}
		new, err := config.Parse(name, text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		if err := wiki.Check(old, new); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if err := wiki.Taken(new); err == nil {
			t.Errorf("%s: the name is free still", name)
		}
		if err := wiki.Check(old, old); err == nil {
			t.Errorf("%s: an addition without the application is right", name)
		}
	}
}

// Line breaks stay as they are, also in a file that has two kinds of them. What is added has those
// of the line before it. A list may begin with a dash alone.
func TestIntoKeepsLineBreaks(t *testing.T) {
	t.Parallel()
	app := Application{Name: "wiki", URL: "http://127.0.0.1:4000", Match: "wiki.example.org/"}
	for name, c := range map[string]struct{ source, want string }{
		"two kinds": {
			"upstreams:\r\n  app: {url: \"http://127.0.0.1:3000\"}\r\n# end\nroutes: # all\n" +
				"- {match: /, upstream: app}\n# end\r\n",
			"upstreams:\r\n  app: {url: \"http://127.0.0.1:3000\"}\r\n  wiki: {url: \"http://127.0.0.1:4000\"}\r\n" +
				"# end\nroutes: # all\n- {match: /, upstream: app}\n" +
				"- {match: wiki.example.org/, upstream: wiki, auth: []}\n# end\r\n",
		},
		"two kinds in brackets": {
			"upstreams: {\r\n  app: {url: \"http://127.0.0.1:3000\"},\n}\nroutes: [\n  {match: /, upstream: app}\r\n]\r\n",
			"upstreams: {\r\n  wiki: {url: \"http://127.0.0.1:4000\"},\r\n  app: {url: \"http://127.0.0.1:3000\"},\n}\n" +
				"routes: [\n  {match: wiki.example.org/, upstream: wiki, auth: []},\n  {match: /, upstream: app}\r\n]\r\n",
		},
		"no section": {
			"# a part\n# of two kinds\r\n",
			"# a part\n# of two kinds\r\n\r\nupstreams:\r\n  wiki:\r\n    url: \"http://127.0.0.1:4000\"\r\n\r\n" +
				"routes:\r\n  - match: wiki.example.org/\r\n    upstream: wiki\r\n    auth: []\r\n",
		},
		"dashes alone": {
			"upstreams: {}\nroutes:\n-\n  match: /\n  upstream: app\n",
			"upstreams: {wiki: {url: \"http://127.0.0.1:4000\"}}\nroutes:\n-\n  match: /\n  upstream: app\n" +
				"- match: wiki.example.org/\n  upstream: wiki\n  auth: []\n",
		},
	} {
		if got, _, err := app.Into([]byte(c.source)); err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%q, want\n%q", name, err, got, c.want)
		}
	}
}

// A name can be any text that is valid as one.
func TestIntoQuotesNames(t *testing.T) {
	t.Parallel()
	const source = "upstreams: {}\nroutes: []\n"
	old := must.Get(config.Parse("config.yaml", []byte(source)))(t)
	for _, name := range []string{"${X}", "$${X}", "a: b", `a"b`, "<<", "null", "~", "1", "&a", "é", "a #b", "- c"} {
		app := wiki
		app.Name = name
		text, _, err := app.Into([]byte(source))
		must.Do(t, err)
		if new, err := config.Parse("config.yaml", text); err != nil {
			t.Errorf("%q: %v\n%s", name, err, text)
		} else if err := app.Check(old, new); err != nil {
			t.Errorf("%q: %v\n%s", name, err, text)
		}
	}
}

// sources returns valid configurations, as they are written by people.
func sources(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, path := range must.Get(filepath.Glob("../testdata/good/*.txtar"))(t) {
		for _, file := range must.Get(txtar.ParseFile(path))(t).Files {
			all[filepath.Base(path)+" "+file.Name] = file.Data
		}
	}
	for _, path := range []string{"../../../config.yaml", "../../../packaging/etc/config.yaml", "../../../provider.yaml"} {
		all[path] = must.Get(os.ReadFile(path))(t)
	}
	if len(all) < 4 {
		t.Fatalf("only %d sources", len(all))
	}
	return all
}

// Check finds what else has changed.
func TestCheck(t *testing.T) {
	t.Parallel()
	const head = "accounts: {users: [{username: alice, password_hash: \"$2y$10$" +
		"5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW\"}]}\nupstreams:\n"
	const before = head + "  app: {url: \"http://127.0.0.1:3000\"}\n" +
		"policies: {staff: {roles: [staff]}}\nroutes:\n  - {match: /, upstream: app, auth: [session], policy: staff}\n"
	const more = "  - {match: added.example.org/, upstream: added-wiki, auth: [session]"
	const upstream = "  added-wiki: {url: \"http://127.0.0.1:4000\"}\n"
	old := must.Get(config.Parse("config.yaml", []byte(before)))(t)
	app := wiki
	app.Auth, app.Roles = []policy.Mechanism{policy.Session}, []string{"writers"}
	named := app
	named.Policy = "staff"
	const url, own = "http://127.0.0.1:3000", ", policy: {roles: [writers]}"
	elsewhere, other, public := app, app, app
	elsewhere.Match, other.Name, public.Auth = "else.example.org/", "app", []policy.Mechanism{policy.None}
	for name, c := range map[string]struct {
		app                      Application
		url, policy, rule, added string
		want                     error
	}{
		"the application":                   {app, url, "staff", "staff", own, nil},
		"the application, a policy":         {named, url, "staff", "staff", ", policy: staff", nil},
		"a rule of a route":                 {app, url, "{roles: [other]}", "staff", own, ErrMore},
		"a policy":                          {app, url, "staff", "other", own, ErrMore},
		"an upstream":                       {app, "http://127.0.0.1:3001", "staff", "staff", own, ErrMore},
		"another rule of the application":   {app, url, "staff", "staff", ", policy: {roles: [writers, other]}", ErrMore},
		"no rule of the application":        {app, url, "staff", "staff", "", ErrMore},
		"another policy of it":              {named, url, "staff", "staff", own, ErrMore},
		"everybody may use the application": {wiki, url, "staff", "staff", own, ErrMore},
		"another place of it":               {elsewhere, url, "staff", "staff", own, ErrMore},
		"another upstream of it":            {other, url, "staff", "staff", own, ErrMore},
		"sign-in where it has none":         {public, url, "staff", "staff", own, ErrMore},
	} {
		text := head + "  app: {url: \"" + c.url + "\"}\n" + upstream +
			"policies: {staff: {roles: [" + c.rule + "]}}\nroutes:\n" +
			"  - {match: /, upstream: app, auth: [session], policy: " + c.policy + "}\n" + more + c.added + "}\n"
		new := must.Get(config.Parse("config.yaml", []byte(text)))(t)
		if err := c.app.Check(old, new); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"no route": strings.Replace(before, "policies:", upstream+"policies:", 1),
		"another upstream more": strings.Replace(before, "policies:", upstream+
			"  more: {url: \"http://127.0.0.1:4001\"}\npolicies:", 1) + more + own + "}\n",
	} {
		new := must.Get(config.Parse("config.yaml", []byte(text)))(t)
		if err := app.Check(old, new); !errors.Is(err, ErrMore) {
			t.Errorf("%s: %v, want %v", name, err, ErrMore)
		}
	}
}

// FuzzInto adds an application to any text. Every byte of it stays.
func FuzzInto(f *testing.F) {
	for _, source := range sources(f) {
		f.Add(source)
	}
	f.Add([]byte("upstreams: [\n]\nroutes: {}\n"))
	f.Add([]byte("upstreams:\n- a\n\n# b\n- c\nroutes: &a\n  x: *a\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		if _, err := config.Parse("config.yaml", source); err != nil {
			return
		}
		if text, _, err := wiki.Into(source); err == nil && !keeps(text, source) {
			t.Errorf("%q becomes %q", source, text)
		}
	})
}
