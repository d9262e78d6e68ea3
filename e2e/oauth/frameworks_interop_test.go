//go:build interop

package oauth

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
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
	bin := needed(t, "venv/bin/flask")
	eachFramework(t, func(t *testing.T, f *framework) {
		f.launch(t, bin, "flask run --port 3000")
		f.wantSignIn(t, "/logout", `"name":"NAME"`, `"roles":["staff"]`)
	}, "app.py")
}

// TestFrameworkDjango: the page's application with Authlib and Django signs a user in, with the role, and out.
func TestFrameworkDjango(t *testing.T) {
	t.Parallel()
	bin := needed(t, "venv/bin/django-admin")
	eachFramework(t, func(t *testing.T, f *framework) {
		f.launch(t, bin, "python notes.py runserver --noreload 3000")
		f.wantSignIn(t, "/logout", `"name": "NAME"`, `"roles": ["staff"]`)
	}, "notes.py")
}

// TestFrameworkSpring: the page's application with Spring Security signs a user in, with the role, and out. The test
// compiles and runs it, because Maven's command on the page needs the network.
func TestFrameworkSpring(t *testing.T) {
	t.Parallel()
	jars := filepath.Join(needed(t, "spring/jars/.installed"), "*")
	const authority = "/srv/authgate/data/ca.pem"
	trust := onPage(t, "keytool -importcert -noprompt -file "+authority+" -keystore trust.p12 -storepass changeit")
	options := onPage(t, "-Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit")
	eachFramework(t, func(t *testing.T, f *framework) {
		for _, command := range [][]string{
			strings.Fields(strings.Replace(trust, authority, filepath.Join(f.Dir, f.CA), 1)),
			{"javac", "-parameters", "-d", "classes", "-cp", jars, "Notes.java"},
		} {
			if said, err := world.ShellIn(f.dir, nil, command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command[0], err, said)
			}
		}
		f.environment = append(f.environment, "SERVER_PORT="+f.port, "JAVA_TOOL_OPTIONS="+options)
		f.start(t, world.ShellIn(f.dir, f.environment, "java", "-cp", "classes:"+jars, "notes.Notes"))
		f.wantSignIn(t, "/logout", `"name":"NAME"`, `"ROLE_staff"`)
	}, "Notes.java", "application.yaml")
}

// signOutLink matches the page's link to sign out of oauth2-proxy.
var signOutLink = regexp.MustCompile("`(/oauth2/sign_out[^`]+)`")

// TestFrameworkOAuth2Proxy: oauth2-proxy, as the page configures it, signs a user in for an application, with the
// role, and out by the page's link.
func TestFrameworkOAuth2Proxy(t *testing.T) {
	t.Parallel()
	bin := needed(t, world.Path("bin/interop/oauth2-proxy"))
	link := signOutLink.FindStringSubmatch(world.ReadDocument(t, frameworksPage).Text)
	if link == nil {
		t.Fatalf("%s has no link to sign out of oauth2-proxy", frameworksPage)
	}
	application := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s is %s", r.Header.Get("X-Forwarded-User"), r.Header.Get("X-Forwarded-Groups"))
	})
	eachFramework(t, func(t *testing.T, f *framework) {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		config := world.Substituted(t, f.here(world.DocumentedFile(t, frameworksPage, "oauth2-proxy.cfg")),
			"the secret itself", "wonderland", "32 random bytes in base64", base64.URLEncoding.EncodeToString(key),
			"http://127.0.0.1:3001", application)
		config += fmt.Sprintf("provider_ca_files = [%q]\n", filepath.Join(f.Dir, f.CA))
		out := f.here(link[1])
		if f.home == f.Base {
			config = world.Substituted(t, config, "cookie_secure = false", "cookie_secure = true",
				"http://127.0.0.1:"+f.port+"/oauth2", f.home+"/oauth2")
			out = world.Substituted(t, out, "http%3A%2F%2F127.0.0.1%3A"+f.port, url.QueryEscape(f.home),
				"%2Foauth%2Flogout", "%2F.authgate%2Foauth%2Flogout")
		}
		world.WriteAll(t, f.dir, map[string]string{"oauth2-proxy.cfg": config})
		f.launch(t, bin, "oauth2-proxy --config oauth2-proxy.cfg")
		f.wantSignIn(t, out, "USER is staff")
	})
}

// needed returns the absolute folder of a file that make interop installs.
func needed(t *testing.T, file string) string {
	t.Helper()
	path := world.Must(filepath.Abs(file))(t)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("make interop installs what this needs: %v", err)
	}
	return filepath.Dir(path)
}
