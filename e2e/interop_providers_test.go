//go:build interop

package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// builtProvider returns the path of a provider that .ci/deps has built.
func builtProvider(t *testing.T, name string) string {
	t.Helper()
	return must(filepath.Abs(filepath.Join("..", "bin", "interop", name)))(t)
}

// signInWith opens a page that leads to the form of a provider, and fills it in.
func (d *delegated) signInWith(t *testing.T, provider string, fields map[string]string) *browser {
	t.Helper()
	b := d.browse()
	b.open(d.base + "/login?provider=" + provider + "&return_to=/secure-resource")
	if fields != nil {
		b.send(fields)
	}
	if b.url.String() != d.base+"/secure-resource" || b.page.status != http.StatusOK {
		t.Fatalf("%s does not send the browser back: %s\n%s", provider, b.describe(), d.log)
	}
	d.up.all()
	return b
}

// dexHash is a hash of s3rvice with the lowest cost that Dex accepts.
const dexHash = "$2b$10$gH7/0nWnSDKZk2vnA7sOX.RZMm2rC9cBGv29c4jiUw2NKzmiVJinS"

// dexUsers completes the configuration of docs/providers/dex.md: a user with the password s3rvice.
const dexUsers = `
storage: {type: memory}
web: {http: ADDRESS}
grpc: {addr: CONTROL}
enablePasswordDB: true
staticPasswords:
  - {email: service@example.org, username: alice, userID: "1001", hash: "` + dexHash + `"}
connectors: [{type: mockCallback, id: mock, name: Mock}]
`

// TestDex signs users in at Dex with the configuration of docs/providers/dex.md: one of its
// own passwords, and one of a connector with groups.
func TestDex(t *testing.T) {
	address, control := freeAddress(t), freeAddress(t)
	d := &delegated{instance: prepared(t), up: record(t)}
	page := parseDocument(t, "docs/providers/dex.md", readFile(t, "../docs/providers/dex.md"))
	var shown string
	for _, b := range page.blocks {
		if name, ok := b.file(); ok && name == "dex.yaml" {
			shown = b.text()
		}
	}
	issuer := "http://" + address + "/dex"
	callbacks := d.base + `/callback/dex", "` + d.base + "/callback/mock"
	config := substituted(t, shown, "https://dex.example.org", issuer,
		"https://app.example.org/callback", callbacks, "idTokens: 10m", "idTokens: 4s") +
		strings.NewReplacer("ADDRESS", address, "CONTROL", control).Replace(dexUsers)
	provider := func(name, connector string) string {
		return "  - {name: " + name + ", issuer: '" + issuer + "', client_id: authgate, client_secret: s3cret, scopes: [openid, profile, email, groups, offline_access], " +
			"roles_claim: groups, authorization_params: {connector_id: " + connector + "}}\n"
	}
	d.configure(strings.Replace(delegatedRoutes, "roles: [admin]", "roles: [authors]", 1) + app(d.up.url) + "providers:\n" + provider("dex", "local") + provider("mock", "mock"))
	d.run()
	file := filepath.Join(t.TempDir(), "dex.yaml")
	noError(t, os.WriteFile(file, []byte(config), 0o600))
	dex := exec.Command(builtProvider(t, "dex"), "serve", file)
	dex.Env = append(os.Environ(), "DEX_SECRET=s3cret")
	launch(t, issuer+"/.well-known/openid-configuration", dex)

	local := func() *browser {
		return d.signInWith(t, "dex", map[string]string{"login": "service@example.org", "password": "s3rvice"})
	}
	for name, story := range map[string]func(*testing.T){
		"code flow with PKCE": func(t *testing.T) {
			d.identifies(t, local(), http.StatusForbidden, map[string]string{
				"X-Auth-User": "service@example.org", "X-Auth-Email": "service@example.org", "X-Auth-Name": "alice", "X-Auth-Roles": "", "X-Auth-Provider": "dex"})
		},
		"groups": func(t *testing.T) {
			d.identifies(t, d.signInWith(t, "mock", nil), http.StatusOK, map[string]string{
				"X-Auth-User": "kilgore@kilgore.trout", "X-Auth-Roles": "authors", "X-Auth-Provider": "mock"})
		},
		"refresh": func(t *testing.T) {
			session := d.session(d.signInWith(t, "mock", nil))
			const tokens = `authgate_provider_duration_seconds_count{operation="token",provider="mock",result="success"}`
			before := d.scrape(t)[tokens]
			until(t, "three refreshes", func() bool {
				d.lives(t, session)
				return d.scrape(t)[tokens] >= before+3
			})
		},
		"refresh token revoked": func(t *testing.T) {
			session := d.session(d.signInWith(t, "mock", nil))
			d.lives(t, session)
			d.status(d.stranger(), "GET", "/secure-resource", "Cookie", session)
			_, subject, _ := strings.Cut(d.up.one(t).value(t, "X-Auth-Subject"), ":")
			revokeAtDex(t, control, subject)
			until(t, "the end of the session", func() bool {
				return d.status(d.stranger(), "GET", "/secure-resource", "Cookie", session) == http.StatusUnauthorized
			})
			d.ended(t, session)
			until(t, "the log to say why", func() bool {
				_, why, _ := strings.Cut(d.log.String(), `"login_ended_by_provider"`)
				why, _, _ = strings.Cut(why, "\n")
				return strings.Contains(why, "invalid_request")
			})
		},
		"logout": func(t *testing.T) {
			b := local()
			session := d.session(b)
			b.open(d.base + "/logout")
			d.ended(t, session)
		},
	} {
		t.Run(name, story)
	}
}

// revokeAtDex revokes the refresh token of a user over Dex's API. The first fields of its
// messages have the types of those of the wrappers.
func revokeAtDex(t *testing.T, address, subject string) {
	t.Helper()
	conn := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	request, notFound := wrapperspb.String(subject), new(wrapperspb.BoolValue)
	request.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "authgate"))
	noError(t, conn.Invoke(t.Context(), "/api.Dex/RevokeRefresh", request, notFound))
	if notFound.Value {
		t.Fatalf("Dex has no refresh token of %s", subject)
	}
}

// TestZitadel signs a user in at the example server of zitadel/oidc, a library of certified
// providers, as a client with a secret and as a public one.
func TestZitadel(t *testing.T) {
	port := freePort(t)
	d := &delegated{instance: prepared(t), up: record(t)}
	issuer := "http://localhost:" + port + "/"
	const scopes = "scopes: [openid, profile, email, offline_access]"
	d.configure(delegatedRoutes + app(d.up.url) + "providers:\n" +
		"  - {name: web, issuer: '" + issuer + "', client_id: web, client_secret: secret, " + scopes + "}\n" +
		"  - {name: native, issuer: '" + issuer + "', client_id: native, " + scopes + "}\n" +
		"  - {name: redirect, issuer: '" + issuer + "', client_id: web, client_secret: secret, logout: redirect, " + scopes + "}\n")
	d.run()
	op := exec.Command(builtProvider(t, "zitadel"))
	callbacks := d.base + "/callback/web," + d.base + "/callback/native," + d.base + "/callback/redirect"
	op.Env = append(os.Environ(), "PORT="+port, "REDIRECT_URI="+callbacks)
	launch(t, issuer+".well-known/openid-configuration", op)

	user := map[string]string{"username": "test-user@localhost", "password": "verysecure"}
	for name, story := range map[string]func(*testing.T){
		"code flow with PKCE": func(t *testing.T) {
			for _, provider := range []string{"web", "native"} {
				d.identifies(t, d.signInWith(t, provider, user), http.StatusForbidden, map[string]string{
					"X-Auth-User": "test-user@localhost", "X-Auth-Subject": provider + ":id1", "X-Auth-Email": "test-user@zitadel.ch", "X-Auth-Roles": "", "X-Auth-Provider": provider})
			}
		},
		"logout": func(t *testing.T) {
			for _, provider := range []string{"web", "native"} {
				b := d.signInWith(t, provider, user)
				session := d.session(b)
				b.open(d.base + "/logout")
				d.ended(t, session)
				count := `authgate_provider_duration_seconds_count{operation="logout",provider="` + provider + `",result="success"}`
				until(t, "a logout at the provider", func() bool { return d.scrape(t)[count] == 1 })
			}
		},
		"logout redirects": func(t *testing.T) {
			b := d.signInWith(t, "redirect", user)
			session := d.session(b)
			b.stopAt = issuer
			b.open(d.base + "/logout")
			d.ended(t, session)
			if !strings.HasPrefix(b.next, issuer+"end_session?") || queryOf(b.next).Get("id_token_hint") == "" {
				t.Errorf("the browser is not sent to the provider: %s", b.describe())
			}
		},
	} {
		t.Run(name, story)
	}
}
