package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A configuration of which only the secrets and addresses are missing is valid with stand-ins,
// and what is wrong beside them is not.
const withoutEnvironment = `
public_url: ${PUBLIC_URL}
tls: {mode: "off"}
listen: {http: "127.0.0.1:${PORT:-8080}", trusted_proxies: ["${PROXIES}"]}
store: {driver: redis, addresses: ["${REDIS}"], password: "${REDIS_PASSWORD}", encryption_key: "${KEY}"}
session: {lifetime: "${LIFETIME}"}
token:
  secret_file: /run/secrets/none
  private_key: /run/secrets/none.pem
  trusted_issuers: [{name: ci, issuer: "${CI}", audience: [gw]}]
accounts:
  users: [{username: "${ADMIN}", password_hash: "${ADMIN_HASH}"}, {username: bob, password_hash_file: /run/secrets/bob}]
oauth:
  enabled: true
  clients: [{id: app, secrets: ["${APP_HASH}"], redirect_uris: ["${APP_URL}"], grants: [authorization_code]}]
providers:
  - {name: idp, issuer: "${ISSUER}", client_id: "${CLIENT}", client_secret: "${CLIENT_SECRET}"}
webhooks:
  - {name: ops, url: "${OPS_URL}", secret: "${OPS_SECRET}"}
  - {name: chat, url_file: /run/secrets/chat, secrets: ["${CHAT_SECRET}"]}
upstreams:
  wiki: {url: "${WIKI}", timeout: "${TIMEOUT}"}
  blog: {url: "http://blog:${BLOG_PORT}", retries: "${RETRIES}", fast_path: "${FAST}"}
routes:
  - {match: "${HOST}/", upstream: wiki, auth: [session, oidc], policy: {email_domains: ["${DOMAIN}"]}}
  - {match: "blog.${DOMAIN}/", upstream: blog, auth: [bearer], headers: {set: {X-Key: "${API_KEY}"}}}
`

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	for name, c := range map[string]struct {
		change []string
		want   []string // the mistakes
	}{
		"all is there but secrets": {},
		"a mistake": {[]string{"upstream: wiki", "upstream: gone"},
			[]string{`routes[0].upstream: there is no upstream "gone"; the upstreams are blog, wiki`}},
		"no certificate": {[]string{`mode: "off"`, "mode: files, certificate: none.pem, key: none.key"},
			[]string{"tls.certificate: cannot read none.pem: no such file or directory",
				"tls.key: cannot read none.key: no such file or directory"}},
		"no list of users": {[]string{"accounts:", "accounts:\n  file: none.yaml"},
			[]string{"accounts.file: cannot read none.yaml: no such file or directory"}},
		"a policy that is not known": {[]string{"policy: {email_domains: [\"${DOMAIN}\"]}", `policy: "${POLICY}"`},
			[]string{`routes[0].policy: there is no policy "policy.placeholder.example"; none is defined ` +
				`under policies; here a stand-in has the place of a variable that is not set, or of a file`}},
		"not a variable": {[]string{"${ADMIN}", "${ADMIN"},
			[]string{"accounts.users[0].username: ${ must be followed by the name of an environment variable and }; " +
				"write $${ for the text ${ itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := withoutEnvironment
			if c.change != nil {
				source = strings.Replace(source, c.change[0], c.change[1], 1)
			}
			environment := Environment{Lookup: none, Placeholders: true}
			cfg, _, err := environment.parse("config.yaml", &sources{main: []byte(source)})
			problems, _ := err.(Diagnostics)
			var got []string
			for _, problem := range problems {
				got = append(got, problem.Key+": "+problem.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c.want == nil && (cfg == nil || cfg.Upstreams["wiki"].URL.Host != "wiki.placeholder.example") {
				t.Errorf("got %+v", cfg)
			}
			_, err = parse("config.yaml", []byte(source), none)
			problems, _ = err.(Diagnostics)
			if !slices.ContainsFunc(problems, func(d Diagnostic) bool { return d.Key == "token.secret_file" }) {
				t.Errorf("without stand-ins: %v", err)
			}
		})
	}
}
