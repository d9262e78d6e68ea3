package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// unmetHead has what the cases of TestWarningsOfUnmet add to.
const unmetHead = `store: {driver: memory}
endpoints: {prefix: /.authgate/}
upstreams: {app: {url: "http://127.0.0.1:9000"}}
`

const (
	withAccounts = "accounts: {file: accounts.yaml}\n"
	withAdmins   = "accounts: {file: accounts.yaml, admins: {roles: [admin]}}\n"
	withoutFile  = "accounts: {users: [{username: alice, roles: [admin], password_hash: \"" + strongHash + "\"}]}\n"
	withProvider = "providers: [{name: corp, issuer: \"https://id.example.org\", client_id: authgate}]\n"
	withGitHub   = "providers: [{name: hub, client_id: a, scopes: [user], authorization_url: \"https://hub.example/a\", " +
		"token_url: \"https://hub.example/t\", userinfo_url: \"https://hub.example/u\"}]\n"
	withMachines = "token: {trusted_issuers: [{name: machines, issuer: \"https://t.example.org\", audience: [gw]}]}\n"
	withOAuth    = "oauth: {enabled: true, scopes: {tools: [admin]}, clients: [{id: job, grants: [client_credentials], " +
		"roles: [robot], secret: 7d0f2c9a4b8e1635aa}]}\n"
	withAgents = "oauth: {enabled: true, cross_app: [{provider: corp, clients: [\"https://a.example/c\"]}], " +
		"clients: [{id: agent, grants: [token_exchange], secret: 7d0f2c9a4b8e1635aa, exchange: " +
		"{from: [\"https://localhost:8443\"], to: [\"https://localhost:8443\"]}}]}\n"
	withBasic      = "basic: {users: [{username: service, password_hash: \"" + strongHash + "\"}]}\n"
	strongHash     = "$2y$10$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
	accountsOfFile = "- {username: alice, email: alice@Example.org, roles: [admin, staff], password_hash: \"" +
		strongHash + "\"}\n- {username: dora, roles: [], disabled: true, password_hash: \"" + strongHash + "\"}\n"
)

// A rule that no user can meet is a warning, which says what was probably meant. What cannot be
// known, because a provider or another issuer says it, is none.
func TestWarningsOfUnmet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "accounts.yaml"), []byte(accountsOfFile), 0o600))
	for _, c := range []struct{ name, with, auth, policy, want string }{
		{"a mistyped account", withAccounts, "session", "users: [alcie]",
			`users[0]: no local account has the name "alcie"; did you mean "alice"?`},
		{"with its provider", withAccounts, "session", "users: [\"local:alcie\"]", `did you mean "alice"?`},
		{"beside others", withAccounts + withProvider, "session", "users: [alcie]", `did you mean "alice"?`},
		{"under none", withAccounts, "session", "none: [{users: [alcie]}]", `none[0].users[0]: no local account`},
		{"in an alternative", withAccounts, "session", "any: [{users: [alcie]}, {roles: [admin]}]",
			`any[0].users[0]: no local`},
		{"a user of a provider", withAccounts + withProvider, "session, oidc", "users: [nadia]",
			`write a user of a provider as corp:nadia`},
		{"an account that is not there", withAccounts, "session", "users: [nadia]",
			`add the account, or correct the name`},
		{"an account that may come", withAdmins, "session", "users: [nadia]", ""},
		{"a mistyped one that may come", withAdmins, "session", "users: [alise]", `did you mean "alice"?`},
		{"accounts", withAccounts, "session", "users: [alice, dora]", ""},
		{"who is at a provider", withAccounts + withProvider, "oidc", "users: [\"corp:alcie\"]", ""},
		{"a user of basic", withBasic, "basic", "users: [\"basic:servce\"]",
			`basic has no user "servce"; did you mean "service"?`},
		{"the user of basic", withBasic, "basic", "users: [\"basic:service\"]", ""},

		{"a mistyped role", withAccounts, "session", "roles: [stafff]",
			`no account has the role "stafff"; did you mean "staff"?`},
		{"a role of a client", withAccounts + withOAuth, "bearer", "roles: [robot]", ""},
		{"a role of a provider", withAccounts + withProvider, "oidc", "roles: [stafff]", ""},

		{"a mistyped domain", withAccounts, "session", "email_domains: [exmaple.org]",
			`no account has an address at "exmaple.org"; did you mean "example.org"?`},
		{"a domain", withAccounts, "session", "email_domains: [EXAMPLE.org]", ""},
		{"no addresses", withoutFile, "session", "email_domains: [example.org]",
			"there are no domains of their addresses"},
		{"domains of a provider", withAccounts + withProvider, "oidc", "email_domains: [other.example]", ""},
		{"domains of an issuer", withAccounts + withMachines, "bearer", "email_domains: [other.example]", ""},

		{"claims", withAccounts, "session", "any: [{roles: [admin]}, {claims: {dept: [sales]}}]",
			"any[1].claims: no user has claims"},
		{"claims of a provider", withAccounts + withProvider, "oidc", "claims: {dept: [sales]}", ""},
		{"claims of others", withAccounts + withProvider, "session", "claims: {dept: [sales]}",
			"no request can meet it: policy: claims.dept"},

		{"scopes", withAccounts, "bearer", "any: [{roles: [admin]}, {scopes: [tools]}]",
			"any[1].scopes[0]: no token has scopes"},
		{"a mistyped scope", withAccounts + withOAuth, "bearer", "scopes: [tolls]",
			`no token has the scope "tolls", because oauth.scopes does not; did you mean "tools"?`},
		{"scopes of clients", withAccounts + withOAuth, "bearer", "scopes: [tools, openid]", ""},
		{"scopes of an issuer", withAccounts + withMachines, "bearer", "scopes: [orders]", ""},
		{"scopes of sessions", withAccounts + withOAuth, "session", "scopes: [tools]",
			"no request can meet it: policy: scopes: needs one of tools; change the policy, auth or match"},

		{"a mechanism", withAccounts + withBasic, "session", "mechanisms: [basic]",
			"no request can meet it: policy: mechanisms"},
		{"a mechanism of several", withAccounts + withBasic, "session, basic", "mechanisms: [basic]", ""},
		{"a provider that auth leaves out", withAccounts + withProvider, "session", "providers: [corp]",
			"no request can meet it: policy: providers"},
		{"a user that auth leaves out", withAccounts + withProvider, "session", "users: [\"corp:eve\"]",
			"no request can meet it: policy: users"},
		{"a user of an issuer", withAccounts + withMachines, "bearer", "users: [\"machines:m1\"]", ""},
		{"a client", withAccounts + withOAuth, "bearer", "users: [\"client:job\"]", ""},
		{"an actor that never acts", withAccounts + withOAuth, "bearer", "actors: [\"client:job\"]",
			`actors[0]: the OAuth client "job" acts for no user`},
		{"a document that never acts", withAccounts + withOAuth, "bearer", "actors: [\"client:https://a.example/c\"]",
			`actors[0]: the OAuth client "https://a.example/c" acts for no user`},
		{"an actor", withAccounts + withProvider + withAgents, "bearer",
			"actors: [\"client:https://a.example/c\", \"client:agent\"]", ""},
		{"a client at a page", withAccounts + withOAuth, "session", "providers: [client]",
			"no request can meet it: policy: providers"},
		{"roles of basic", withAccounts + withBasic, "basic", "any: [{roles: [admin]}, {users: [alice]}]",
			"no request can meet it: policy: any"},

		{"two factors", withoutFile, "session", "any: [{roles: [admin]}, {factors: 2}]",
			"any[1].factors: no user can prove two factors"},
		{"two factors that are off", withAccounts + "factors: {totp: false, passkeys: false}\n", "session",
			"any: [{roles: [admin]}, {factors: 2}]", "no user can prove two factors"},
		{"two factors, of the file", withAccounts, "session", "factors: 2", ""},
		{"two factors, of a provider", withoutFile + withProvider, "session, oidc", "factors: 2", ""},
		{"two factors, of OAuth 2.0", withoutFile + withGitHub, "session, oidc", "any: [{roles: [admin]}, {factors: 2}]",
			"no user can prove two factors"},
		{"two factors of a password", withAccounts + withBasic, "basic", "factors: 2",
			"no request can meet it: policy: factors"},
		{"the time of a password", withAccounts + withBasic, "basic", "max_age: 1h",
			"no request can meet it: policy: max_age"},
		{"the time of OAuth 2.0", withGitHub, "oidc", "max_age: 1h", "no request can meet it: policy: max_age"},
		{"the time of a token", withAccounts, "bearer", "max_age: 1h", ""},

		{"all addresses", withAccounts, "session", "networks: [0.0.0.0]",
			`networks[0]: no client has the address 0.0.0.0: all addresses are 0.0.0.0/0`},
		{"all addresses of IPv6", withAccounts, "session", "networks: [\"::\"]", "all addresses are ::/0"},
		{"groups", withAccounts, "session", "networks: [224.0.0.0/8]", "multicast"},
		{"networks", withAccounts, "session", "networks: [0.0.0.0/0, \"::/0\", 127.0.0.1, \"fe80::/10\"]", ""},
		{"networks apart", withAccounts, "session", "networks: [10.0.0.0/8], all: [{networks: [192.0.2.0/24]}]",
			"no request can meet it: policy: networks"},
	} {
		source := unmetHead + c.with + "routes:\n  - {match: /, upstream: app, auth: [" + c.auth + "], policy: {" +
			c.policy + "}}\n"
		got := warnings(t, filepath.Join(dir, "c.yaml"), source)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got the warnings\n%s\nwant one with %q", c.name, got, c.want)
		}
	}
}

// The policies of clients and of who looks after accounts, the roles that scopes lend, and those that
// an application has other names for, have the same warnings.
func TestWarningsOfUnmetElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "accounts.yaml"), []byte(accountsOfFile), 0o600))
	const client = "oauth: {enabled: true, scopes: {tools: [%r]}, clients: [{id: wiki, secret: 7d0f2c9a4b8e1635aa, " +
		"policy: who, redirect_uris: [\"https://wiki.example.org/\"]}]}\npolicies: {who: {%p}}\n"
	oauth := func(role, who string) string {
		return withAccounts + strings.NewReplacer("%r", role, "%p", who).Replace(client)
	}
	upstream := func(roles string) string {
		return withAccounts + "upstreams: {app: {url: \"http://127.0.0.1:9000\", roles: {" + roles + "}}}\n"
	}
	for _, c := range []struct{ name, source, key, want string }{
		{"admins", "accounts: {file: accounts.yaml, admins: {mechanisms: [bearer]}}\n", "accounts.admins",
			"no request can meet it: policy: mechanisms: needs authentication by one of bearer; only a session counts here"},
		{"mistyped admins", "accounts: {file: accounts.yaml, admins: {users: [alcie]}}\n", "accounts.admins.users[0]",
			`did you mean "alice"?`},
		{"good admins", "accounts: {file: accounts.yaml, admins: {users: [alice], factors: 2}}\n", "", ""},
		{"a client", oauth("admin", "mechanisms: [basic]"), "oauth.clients[0].policy", "no request can meet it: policy who"},
		{"a client by scopes", oauth("admin", "scopes: [tools]"), "oauth.clients[0].policy", "policy who: scopes"},
		{"a good client", oauth("admin", "roles: [admin], factors: 2"), "", ""},
		{"a scope", oauth("amdin", "roles: [admin]"), "oauth.scopes.tools[0]", `did you mean "admin"?`},
		{"an upstream", upstream("amdin: Editor"), "upstreams.app.roles.amdin", `did you mean "admin"?`},
		{"the wrong way round", upstream("Editor: staff"), "upstreams.app.roles.Editor",
			"the name here comes first: write staff: Editor"},
		{"a good upstream", upstream("staff: Editor"), "", ""},
	} {
		got := warnings(t, filepath.Join(dir, "c.yaml"), "store: {driver: memory}\n"+c.source)
		checkWarning(t, c.name, got, c.want != "", c.key, c.want)
	}
}
