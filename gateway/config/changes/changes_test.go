package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/config"
	"authgate/internal/test/must"
)

// hash is of a password.
const hash = "$2a$05$Cj2Uz06dB9glrWi2CkzdLOgicT5SRMqoxdycGqW2on5R3QOFP1nBy"

// base is a configuration that TestChanges edits.
const base = `public_url: https://gw.example
basic:
  users: [{username: service, password_hash: "` + hash + `"}]
accounts:
  users:
    - {username: alice, password_hash: "` + hash + `", roles: [user]}
    - {username: bob, password_hash: "` + hash + `", name: Bob}
token: {secret: "0123456789012345678901234567890a"}
identity_headers: {user: X-User}
upstreams:
  app: {url: "http://127.0.0.1:1", timeout: 3s}
  many: {urls: ["http://127.0.0.1:2", "http://127.0.0.1:3"]}
policies:
  admin: {roles: [admin]}
  staff: {any: [{roles: [staff]}, admin]}
routes:
  - {match: /a/, upstream: app, auth: [session], policy: admin}
  - {match: /b/, upstream: app, auth: [session, bearer], headers: {set: {X-Key: sesame}}}
  - {match: c.example/, upstream: many, auth: [session], policy: {roles: [a], methods: [GET]}}
  - {match: d.example/, upstream: app, auth: [session]}
oauth:
  clients:
    - {id: wiki, secret: a-secret-of-the-wiki, redirect_uris: ["https://wiki.example/cb"]}
    - {id: chat, secrets: [one-secret-of-the-chat, another-secret-of-it], redirect_uris: ["https://chat.example/cb"]}
  scopes: {read: [user]}
`

// TestChanges: each edit is told with its path, and no secret.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"policy: admin}", "policy: staff}", "routes[0].policy: admin -> staff"},
		{"policy: admin}", "policy: [admin, staff]}", "routes[0].policy: admin -> [admin, staff]"},
		{", policy: admin}", "}", "routes[0].policy: admin -> none"},
		{"policy: admin}", "policy: {roles: [admin]}}", "routes[0].policy: admin -> a policy in place"},
		{"{roles: [a], methods", "{roles: [a, b], methods", "routes[2].policy.roles: [a] -> [a, b]"},
		{"{roles: [staff]}, admin", "{roles: [crew]}, admin", "policies.staff.any[0].roles: [staff] -> [crew]"},
		{"timeout: 3s", "timeout: 4s", "upstreams.app.timeout: 3s -> 4s"},
		{"timeout: 3s", "host: target, retries: 0",
			"upstreams.app.retries: 1 -> 0\nupstreams.app.host: client -> target\nupstreams.app.timeout: 3s -> 30s"},
		{"127.0.0.1:1", "127.0.0.1:9", "upstreams.app.url: http://127.0.0.1:1 -> http://127.0.0.1:9"},
		{"127.0.0.1:3", "127.0.0.1:9",
			"upstreams.many.urls: [http://127.0.0.1:2, http://127.0.0.1:3] -> [http://127.0.0.1:2, http://127.0.0.1:9]"},
		{"user: X-User", "user: X-Other", "identity_headers.user: X-User -> X-Other"},
		{"timeout: 3s}", "timeout: 3s, identity_headers: {user: X-Mine}}",
			"upstreams.app.identity_headers.user: X-User -> X-Mine"},
		{"sesame", "open", "routes[1].headers.set.X-Key: changed"},
		{"67890a", "67890b", "token.secret: changed"},
		{"a-secret-of-the-wiki", "an-other-one-of-it", "oauth.clients[wiki].secret: changed"},
		{"one-secret-of-the-chat", "an-other-one-of-it-too", "oauth.clients[chat].secrets: changed"},
		{"id: chat,", "id: talk,", "oauth.clients[talk]: added\noauth.clients[chat]: removed"},
		{"{read: [user]}", "{read: [user, admin]}", "oauth.scopes.read: [user] -> [user, admin]"},
		{"roles: [user]", "roles: [user, admin], disabled: true",
			"accounts.users[alice].roles: [user] -> [user, admin]\naccounts.users[alice].disabled: false -> true"},
		{"name: Bob", "name: \"Bob \\u202e -> x\"", `accounts.users[bob].name: Bob -> "Bob \u202e -> x"`},
		{"username: bob", "username: carol", "accounts.users[carol]: added\naccounts.users[bob]: removed"},
		{"  - {match: /a/", "  - {match: /0/, upstream: app, auth: [basic]}\n  - {match: /a/", "routes[0]: added (/0/)"},
		{"match: /b/", "match: /d/", "routes[1]: added (/d/)\nroutes[1]: removed (/b/)"},
		{
			"  - {match: /a/", "  - {match: d.example/x/, upstream: app, auth: [basic]}\n  - {match: /a/",
			"routes[0]: added (d.example/x/)",
		},
		{
			"  - {match: d.example/", "  - {match: e.example/",
			"tls.domains: [gw.example, c.example, d.example, localhost, 127.0.0.1, ::1]" +
				" -> [gw.example, c.example, e.example, localhost, 127.0.0.1, ::1]\n" +
				"routes[3]: added (e.example/)\nroutes[3]: removed (d.example/)",
		},
		{"  many:", "  more: {url: \"http://127.0.0.1:4\"}\n  many:", "upstreams.more: added"},
		{"[session, bearer]", "[bearer, session]", "routes[1].auth: [session, bearer] -> [bearer, session]"},
		{"name: Bob", "name: " + strings.Repeat("x", 500),
			"accounts.users[bob].name: Bob -> " + strings.Repeat("x", 120) + "…"},
	} {
		old, err := config.Parse("config.yaml", []byte(base))
		if err != nil {
			t.Fatal(err)
		}
		if c.old != "" && strings.Count(base, c.old) == 0 {
			t.Fatalf("%q is not in the configuration", c.old)
		}
		changed, err := config.Parse("config.yaml", []byte(strings.Replace(base, c.old, c.new, 1)))
		if err != nil {
			t.Fatalf("%s: %v", c.new, err)
		}
		if got := strings.Join(Between(old, changed), "\n"); got != c.want {
			t.Errorf("%s becomes %s:\n%s\nwant\n%s", c.old, c.new, got, c.want)
		}
	}
}

// The order of domains means nothing, except that clients which ask for no host get the
// certificate of the first.
func TestSameDomains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b []string
		want bool
	}{
		{[]string{"x", "y", "z"}, []string{"x", "z", "y"}, true},
		{[]string{"x", "y"}, []string{"y", "x"}, false},
		{[]string{"x", "y"}, []string{"x", "z"}, false},
		{[]string{"x", "y"}, []string{"x"}, false},
		{[]string{"x"}, nil, false},
		{nil, []string{"x"}, false},
	} {
		if got := sameDomains(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

// TestChangesOfFiles: the content of a file is told by the key that names it, and
// users of a file by their names.
func TestChangesOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	content, err := os.ReadFile("../testdata/files/tls-certificate.pem")
	if err != nil {
		t.Fatal(err)
	}
	pem := string(content)
	account := `{"username": "%s", "password_hash": "` + hash + "\"}\n"
	write("ca.pem", pem)
	write("secret", "01234567890123456789012345678901\n")
	write("accounts.jsonl", fmt.Sprintf(account, "alice"))
	path := write("config.yaml", `public_url: https://gw.example
accounts: {file: accounts.jsonl}
token: {secret_file: secret}
upstreams: {app: {url: "https://127.0.0.1:1", tls: {ca: ca.pem}}}
routes: [{match: /, upstream: app, auth: [session]}]
`)
	old, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var many strings.Builder
	for i := range 150 {
		fmt.Fprintf(&many, account, fmt.Sprintf("u%03d", i))
	}
	write("ca.pem", pem+pem)
	write("secret", "another8901234567890123456789012\n")
	write("accounts.jsonl", many.String())
	changed, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got := Between(old, changed)
	if len(got) != 101 || got[0] != "accounts.users[u000]: added" || got[100] != "and 53 more" {
		t.Errorf("%d changes: %q", len(got), got)
	}
	write("accounts.jsonl", fmt.Sprintf(account, "alice"))
	if changed, err = config.Load(path); err != nil {
		t.Fatal(err)
	}
	want := []string{"token.secret: changed", "upstreams.app.tls.ca: the content of the file changed"}
	if got := Between(old, changed); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A change of factors is told, without what they are.
func TestChangesOfFactors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	const before = `{"username":"alice","totp":{"secret":"c2VhbGVk","step":1}}` + "\n" + `{"username":"bob"}` + "\n"
	write("accounts.jsonl", before)
	path := write("config.yaml", "public_url: https://gw.example\naccounts: {file: accounts.jsonl}\n"+
		"upstreams: {app: {url: \"http://127.0.0.1:1\"}}\nroutes: [{match: /, upstream: app, auth: [session]}]\n")
	old := must.Get(config.Load(path))(t)
	if got := Between(old, must.Get(config.Load(path))(t)); len(got) > 0 {
		t.Errorf("nothing has changed: %q", got)
	}
	write("accounts.jsonl", `{"username":"alice"}`+"\n"+`{"username":"bob"}`+"\n")
	got := Between(old, must.Get(config.Load(path))(t))
	if !slices.Equal(got, []string{"accounts.users[alice].factors: changed"}) {
		t.Errorf("got %q", got)
	}
}
