//go:build interop

package oidc

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// builtProvider returns the path of a provider that .ci/deps has built.
func builtProvider(t *testing.T, name string) string {
	t.Helper()
	return world.Path("bin/interop/" + name)
}

// signInWith opens a page that leads to the form of a provider, and fills it in.
func signInWith(t *testing.T, d *world.Delegated, provider string, fields map[string]string) *browser {
	t.Helper()
	b := browse(d.Instance)
	b.Open(d.Base + "/login?provider=" + provider + "&return_to=/secure-resource")
	if fields != nil {
		b.Send(fields)
	}
	if b.URL.String() != d.Base+"/secure-resource" || b.Page.Status != http.StatusOK {
		t.Fatalf("%s does not send the browser back: %s\n%s", provider, b.Describe(), d.Log)
	}
	d.Up.All()
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
	address, control := world.FreeAddress(t), world.FreeAddress(t)
	d := &world.Delegated{Instance: world.Prepare(t), Up: world.Record(t)}
	page := world.ReadDocument(t, "docs/providers/dex.md")
	var shown string
	for _, b := range page.Blocks {
		if name, ok := b.File(); ok && name == "dex.yaml" {
			shown = b.Text()
		}
	}
	issuer := "http://" + address + "/dex"
	callbacks := d.Base + `/callback/dex", "` + d.Base + "/callback/mock"
	config := world.Substituted(t, shown, "https://dex.example.org", issuer,
		"https://app.example.org/callback", callbacks, "idTokens: 10m", "idTokens: 4s") +
		strings.NewReplacer("ADDRESS", address, "CONTROL", control).Replace(dexUsers)
	provider := func(name, connector string) string {
		return "  - {name: " + name + ", issuer: '" + issuer + "', client_id: authgate, client_secret: s3cret, scopes: " +
			"[openid, profile, email, groups, offline_access], " +
			"roles_claim: groups, authorization_params: {connector_id: " + connector + "}}\n"
	}
	d.Configure(strings.Replace(world.DelegatedRoutes, "roles: [admin]", "roles: [authors]",
		1) + world.App(d.Up.URL) + "providers:\n" + provider("dex", "local") + provider("mock", "mock"))
	d.Run()
	file := filepath.Join(t.TempDir(), "dex.yaml")
	world.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	dex := exec.Command(builtProvider(t, "dex"), "serve", file)
	dex.Env = append(os.Environ(), "DEX_SECRET=s3cret")
	world.Launch(t, issuer+"/.well-known/openid-configuration", dex)

	local := func() *browser {
		return signInWith(t, d, "dex", map[string]string{"login": "service@example.org", "password": "s3rvice"})
	}
	for name, story := range map[string]func(*testing.T){
		"code flow with PKCE": func(t *testing.T) {
			identifies(t, d, local(), http.StatusForbidden, map[string]string{
				"X-Auth-User": "service@example.org", "X-Auth-Email": "service@example.org", "X-Auth-Name": "alice",
				"X-Auth-Roles": "", "X-Auth-Provider": "dex"})
		},
		"groups": func(t *testing.T) {
			identifies(t, d, signInWith(t, d, "mock", nil), http.StatusOK, map[string]string{
				"X-Auth-User": "kilgore@kilgore.trout", "X-Auth-Roles": "authors", "X-Auth-Provider": "mock"})
		},
		"refresh": func(t *testing.T) {
			session := sessionOf(d, signInWith(t, d, "mock", nil))
			const tokens = `authgate_provider_duration_seconds_count{operation="token",provider="mock",result="success"}`
			before := d.Scrape(t)[tokens]
			world.Until(t, "three refreshes", func() bool {
				wantIn(t, d, session)
				return d.Scrape(t)[tokens] >= before+3
			})
		},
		"refresh token revoked": func(t *testing.T) {
			session := sessionOf(d, signInWith(t, d, "mock", nil))
			wantIn(t, d, session)
			d.Status(d.Stranger(), "GET", "/secure-resource", "Cookie", session)
			_, subject, _ := strings.Cut(d.Up.One(t).Value(t, "X-Auth-Subject"), ":")
			revokeAtDex(t, control, subject)
			world.Until(t, "the end of the session", func() bool {
				return d.Status(d.Stranger(), "GET", "/secure-resource", "Cookie", session) == http.StatusUnauthorized
			})
			wantOut(t, d, session)
			world.Until(t, "the log to say why", func() bool {
				_, why, _ := strings.Cut(d.Log.String(), `"login_ended_by_provider"`)
				why, _, _ = strings.Cut(why, "\n")
				return strings.Contains(why, "invalid_request")
			})
		},
		"logout": func(t *testing.T) {
			b := local()
			session := sessionOf(d, b)
			b.Open(d.Base + "/logout")
			wantOut(t, d, session)
		},
	} {
		t.Run(name, story)
	}
}

// revokeAtDex revokes the refresh token of a user over Dex's API. The first fields of its
// messages have the types of those of the wrappers.
func revokeAtDex(t *testing.T, address, subject string) {
	t.Helper()
	conn := world.Must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	request, notFound := wrapperspb.String(subject), new(wrapperspb.BoolValue)
	request.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "authgate"))
	world.NoError(t, conn.Invoke(t.Context(), "/api.Dex/RevokeRefresh", request, notFound))
	if notFound.Value {
		t.Fatalf("Dex has no refresh token of %s", subject)
	}
}

// TestZitadel signs a user in at the example server of zitadel/oidc, a library of certified
// providers, as a client with a secret and as a public one.
func TestZitadel(t *testing.T) {
	port := world.FreePort(t)
	d := &world.Delegated{Instance: world.Prepare(t), Up: world.Record(t)}
	issuer := "http://localhost:" + port + "/"
	const scopes = "scopes: [openid, profile, email, offline_access]"
	d.Configure(world.DelegatedRoutes + world.App(d.Up.URL) + "providers:\n" +
		"  - {name: web, issuer: '" + issuer + "', client_id: web, client_secret: secret, " + scopes + "}\n" +
		"  - {name: native, issuer: '" + issuer + "', client_id: native, " + scopes + "}\n" +
		"  - {name: redirect, issuer: '" + issuer + "', client_id: web, client_secret: secret, logout: " +
		"redirect, " + scopes + "}\n")
	d.Run()
	op := exec.Command(builtProvider(t, "zitadel"))
	callbacks := d.Base + "/callback/web," + d.Base + "/callback/native," + d.Base + "/callback/redirect"
	op.Env = append(os.Environ(), "PORT="+port, "REDIRECT_URI="+callbacks)
	world.Launch(t, issuer+".well-known/openid-configuration", op)

	user := map[string]string{"username": "test-user@localhost", "password": "verysecure"}
	for name, story := range map[string]func(*testing.T){
		"code flow with PKCE": func(t *testing.T) {
			for _, provider := range []string{"web", "native"} {
				identifies(t, d, signInWith(t, d, provider, user), http.StatusForbidden, map[string]string{
					"X-Auth-User": "test-user@localhost", "X-Auth-Subject": provider + ":id1",
					"X-Auth-Email": "test-user@zitadel.ch", "X-Auth-Roles": "", "X-Auth-Provider": provider})
			}
		},
		"logout": func(t *testing.T) {
			for _, provider := range []string{"web", "native"} {
				b := signInWith(t, d, provider, user)
				session := sessionOf(d, b)
				b.Open(d.Base + "/logout")
				wantOut(t, d, session)
				count := `authgate_provider_duration_seconds_count{operation="logout",provider="` + provider + `",result="success"}`
				world.Until(t, "a logout at the provider", func() bool { return d.Scrape(t)[count] == 1 })
			}
		},
		"logout redirects": func(t *testing.T) {
			b := signInWith(t, d, "redirect", user)
			session := sessionOf(d, b)
			b.StopAt = issuer
			b.Open(d.Base + "/logout")
			wantOut(t, d, session)
			if !strings.HasPrefix(b.Next, issuer+"end_session?") || world.QueryOf(b.Next).Get("id_token_hint") == "" {
				t.Errorf("the browser is not sent to the provider: %s", b.Describe())
			}
		},
	} {
		t.Run(name, story)
	}
}
