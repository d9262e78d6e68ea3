//go:build interop

package oauth

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"authgate/e2e/world"
)

// apacheConfiguration is an Apache with mod_auth_openidc, in front of a program that shows
// its environment.
var apacheConfiguration = template.Must(template.New("").Parse(`
ServerRoot "{{.Dir}}"
PidFile "{{.Dir}}/pid"
ErrorLog /dev/stderr
KeepAlive Off
DefaultRuntimeDir "{{.Dir}}"
User www-data
Listen 127.0.0.1:{{.Port}}
ServerName 127.0.0.1
{{range .Modules}}LoadModule {{.}}_module /usr/lib/apache2/modules/mod_{{.}}.so
{{end}}
OIDCProviderMetadataURL {{.Issuer}}/.well-known/openid-configuration
OIDCClientID apache
OIDCClientSecret "{{.Secret}}"
OIDCRedirectURI http://127.0.0.1:{{.Port}}/app/callback
OIDCCryptoPassphrase "of the tests"
OIDCPKCEMethod S256
OIDCScope "openid profile email groups"
OIDCRemoteUserClaim preferred_username
OIDCCABundlePath "{{.Dir}}/ca.pem"
DocumentRoot "{{.Dir}}/public"
ScriptAlias /app/ "{{.Dir}}/app/"
<Location /app/>
  AuthType openid-connect
  Require valid-user
</Location>
<Location /app/admin>
  AuthType openid-connect
  Require claim groups:nobody
</Location>
`))

// startApache starts Apache as a relying party of a server. It is one process (-X), which ends
// with the test, and has one connection at a time.
func startApache(t *testing.T, s *server, port, secret string) {
	t.Helper()
	dir := t.TempDir()
	world.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // Apache's processes are not root
	const program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n"
	var configuration bytes.Buffer
	world.NoError(t, apacheConfiguration.Execute(&configuration, map[string]any{
		"Dir": dir, "Port": port, "Issuer": s.Base, "Secret": secret,
		"Modules": []string{"mpm_prefork", "authn_core", "authz_core", "authz_user", "alias", "cgi", "auth_openidc"},
	}))
	for name, content := range map[string]string{
		"httpd.conf": configuration.String(), "public/out": "signed out", "app/show": program, "app/admin": program,
		"ca.pem": world.ReadFile(t, filepath.Join(s.Dir, s.CA)),
	} {
		file := filepath.Join(dir, name)
		world.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		world.NoError(t, os.WriteFile(file, []byte(content), 0o755))
	}
	apache := world.FindProgram(t, "apache2")

	world.Launch(t, "http://127.0.0.1:"+port+"/out", exec.Command(apache, "-X", "-f", filepath.Join(dir, "httpd.conf")))

}

// TestApache: Apache with mod_auth_openidc signs a user in, and gives an application the claims.
// Its session ends when the login at the gateway does, and the login when the user signs out at
// Apache.
func TestApache(t *testing.T) {
	t.Parallel()
	const secret = "a secret without quotes"
	port := world.FreePort(t)
	home := "http://127.0.0.1:" + port
	s := prepare(t, "    - {id: apache, secret: '"+secret+"', redirect_uris: ['"+home+"/app/callback'],\n"+
		"       post_logout_redirect_uris: ['"+home+"/out'],\n"+
		"       backchannel_logout_uri: '"+home+"/app/callback?logout=backchannel'}\n")
	s.Run()
	startApache(t, s, port, secret)
	alice := user{world.Browse(s.Instance)}
	alice.T = t

	alice.allow(home + "/app/show")
	for _, line := range []string{
		"REMOTE_USER=alice", "OIDC_CLAIM_name=Alice Example",
		"OIDC_CLAIM_email=alice@example.org", "OIDC_CLAIM_email_verified=1",
		"OIDC_CLAIM_groups=user,admin", "OIDC_CLAIM_iss=" + s.Base, "OIDC_CLAIM_aud=apache",
	} {
		if !strings.Contains(alice.Page.Body, line+"\n") {
			t.Errorf("the application does not get %s:\n%s", line, alice.Page.Body)
		}
	}
	here := &world.Instance{T: t, Base: home, Log: s.Log}
	got := here.Status(alice.Client, "GET", "/app/admin")
	if got != http.StatusUnauthorized && got != http.StatusForbidden {
		t.Errorf("without the group, Apache answers %d", got)
	}

	world.WantStatus(t, "the logout", s.Do(alice.Client, "POST", "/logout", "", "Origin", s.Base), http.StatusOK)
	world.Until(t, "the end of the session at Apache", func() bool {
		return here.Status(alice.Client, "GET", "/app/show") == http.StatusUnauthorized
	})

	alice.allow(home + "/app/show")
	alice.Open(home + "/app/callback?logout=" + home + "/out")
	if alice.Page.Body != "signed out" {
		t.Errorf("after the logout: %s", alice.Describe())
	}
	if got := s.Status(alice.Client, "GET", "/me"); got != http.StatusUnauthorized {
		t.Errorf("after the logout at Apache, /me of the gateway is %d", got)
	}
}
