//go:build interop

package oauth

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestFrameworkFlask: the page's application with Authlib and Flask signs a user in, with the role, and out.
func TestFrameworkFlask(t *testing.T) {
	t.Parallel()
	f := prepareFramework(t, "app.py")
	f.launch(t, needed(t, "venv/bin/flask"), "flask run --port 3000")
	f.wantSignIn(t, "/logout", `"name":"Alice Example"`, `"roles":["staff"]`)
}

// TestFrameworkDjango: the page's application with Authlib and Django signs a user in, with the role, and out.
func TestFrameworkDjango(t *testing.T) {
	t.Parallel()
	f := prepareFramework(t, "notes.py")
	f.launch(t, needed(t, "venv/bin/django-admin"), "python notes.py runserver --noreload 3000")
	f.wantSignIn(t, "/logout", `"name": "Alice Example"`, `"roles": ["staff"]`)
}

// TestFrameworkSpring: the page's application with Spring Security signs a user in, with the role, and out. The test
// compiles and runs it, because Maven's command on the page needs the network.
func TestFrameworkSpring(t *testing.T) {
	t.Parallel()
	jars := filepath.Join(needed(t, "spring/jars/.installed"), "*")
	f := prepareFramework(t, "Notes.java", "application.yaml")
	trust := onPage(t, "keytool -importcert -noprompt -file data/ca.pem -keystore trust.p12 -storepass changeit")
	for _, command := range [][]string{
		strings.Fields(strings.Replace(trust, "data/ca.pem", filepath.Join(f.Dir, f.CA), 1)),
		{"javac", "-parameters", "-d", "classes", "-cp", jars, "Notes.java"},
	} {
		if said, err := world.ShellIn(f.dir, nil, command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, said)
		}
	}
	const options = "-Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit"
	f.environment = append(f.environment, "SERVER_PORT="+f.port, "JAVA_TOOL_OPTIONS="+onPage(t, options))
	f.start(t, world.ShellIn(f.dir, f.environment, "java", "-cp", "classes:"+jars, "notes.Notes"))
	f.wantSignIn(t, "/logout", `"name":"Alice Example"`, `"ROLE_staff"`)
}

// TestFrameworkOAuth2Proxy: oauth2-proxy, as the page configures it, signs a user in for an application, with the
// role, and out by the page's link.
func TestFrameworkOAuth2Proxy(t *testing.T) {
	t.Parallel()
	folder := needed(t, world.Path("bin/interop/oauth2-proxy"))
	f := prepareFramework(t)
	application := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s is %s", r.Header.Get("X-Forwarded-User"), r.Header.Get("X-Forwarded-Groups"))
	})
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	config := world.Substituted(t, f.here(world.DocumentedFile(t, frameworksPage, "oauth2-proxy.cfg")),
		"the secret itself", "wonderland", "32 random bytes in base64", base64.URLEncoding.EncodeToString(key),
		"http://127.0.0.1:3001", application)
	world.WriteAll(t, f.dir, map[string]string{
		"oauth2-proxy.cfg": config + fmt.Sprintf("provider_ca_files = [%q]\n", filepath.Join(f.Dir, f.CA)),
	})
	f.launch(t, folder, "oauth2-proxy --config oauth2-proxy.cfg")
	link := signOutLink.FindStringSubmatch(world.ReadDocument(t, frameworksPage).Text)
	if link == nil {
		t.Fatalf("%s has no link to sign out of oauth2-proxy", frameworksPage)
	}
	f.wantSignIn(t, f.here(link[1]), "alice is staff")
}

// signOutLink matches the page's link to sign out of oauth2-proxy.
var signOutLink = regexp.MustCompile("`(/oauth2/sign_out[^`]+)`")

// needed returns the absolute folder of a file that make interop installs.
func needed(t *testing.T, file string) string {
	t.Helper()
	path := world.Must(filepath.Abs(file))(t)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("make interop installs what this needs: %v", err)
	}
	return filepath.Dir(path)
}
