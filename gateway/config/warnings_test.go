package config

import (
	"strings"
	"testing"
)

// A role that no account has is probably misspelled. Under none, such a rule
// excludes no user.
func TestWarningsOfRoles(t *testing.T) {
	t.Parallel()
	const users = "accounts: {users: [{username: alice, password_hash: \"${HASH}\", roles: [admin]}]}\n"
	const rest = "upstreams: {app: {url: \"http://127.0.0.1:9000\"}}\n" +
		"routes: [{match: /, upstream: app, auth: [session], policy: {roles: [admin, admni]}}]\n" +
		"policies: {a: {all_roles: [admin, user]}, b: {none: [{roles: [Admin]}]}, c: {roles: [admin]}}\n"
	var got []string
	for _, w := range mustParse(t, users+rest).Warnings() {
		got = append(got, w.String())
	}
	want := []string{
		`config.yaml:3:77: routes[0].policy.roles[1]: no account has the role "admni"; did you mean "admin"?`,
		`config.yaml:4:35: policies.a.all_roles[1]: no account has the role "user"; the roles of accounts are admin`,
		`config.yaml:4:63: policies.b.none[0].roles[0]: no account has the role "Admin"; did you mean "admin"?`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// A provider or another issuer may give any role.
	for _, source := range []string{
		"providers: [{name: company, issuer: https://id.example.org, client_id: gateway}]\n",
		"token: {trusted_issuers: [{issuer: https://id.example.org, audience: [app]}]}\n",
	} {
		if warnings := mustParse(t, users+rest+source).Warnings(); len(warnings) > 0 {
			t.Errorf("with %s: %v", source, warnings)
		}
	}
}
