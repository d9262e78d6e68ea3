package oauth

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// frameworksPage has an application for each framework.
const frameworksPage = "docs/how-to/frameworks.md"

// framework is an application of the page, and the gateway of the page, at which its users sign in.
type framework struct {
	*world.Instance
	dir, port, home string
	environment     []string
}

// prepareFramework runs the page's gateway, and writes files of the page into a folder.
func prepareFramework(t *testing.T, files ...string) *framework {
	t.Helper()
	f := &framework{Instance: world.Prepare(t), dir: t.TempDir(), port: world.FreePort(t)}
	f.home = "http://127.0.0.1:" + f.port
	f.Configure(f.here(world.WithoutAddresses(world.DocumentedFile(t, frameworksPage, "gateway.yaml"))))
	f.Run()
	for _, name := range files {
		world.WriteAll(t, f.dir, map[string]string{name: f.here(world.DocumentedFile(t, frameworksPage, name))})
	}
	authority := filepath.Join(f.Dir, f.CA)
	f.environment = []string{
		"ISSUER=" + f.Base, "CLIENT_ID=notes", "CLIENT_SECRET=wonderland", "APP_URL=" + f.home, "PORT=" + f.port,
		"SESSION_SECRET=of the application, 32 bytes long", "REQUESTS_CA_BUNDLE=" + authority,
		"NODE_EXTRA_CA_CERTS=" + authority,
	}
	return f
}

// here replaces the addresses of the page, also where they are encoded.
func (f *framework) here(text string) string {
	return strings.NewReplacer("login.example.org", strings.TrimPrefix(f.Base, "https://"),
		"127.0.0.1:3000", "127.0.0.1:"+f.port, "127.0.0.1%3A3000", "127.0.0.1%3A"+f.port).Replace(text)
}

// onPage returns a text that the page must have.
func onPage(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains(world.ReadDocument(t, frameworksPage).Text, text) {
		t.Fatalf("%s does not say %s", frameworksPage, text)
	}
	return text
}

// launch starts the application by the page's command, whose program is in the folder bin or PATH.
func (f *framework) launch(t *testing.T, bin, command string) {
	t.Helper()
	words := strings.Fields(strings.Replace(onPage(t, command), "3000", f.port, 1))
	if bin != "" {
		words[0] = filepath.Join(bin, words[0])
	}
	f.start(t, world.ShellIn(f.dir, f.environment, words[0], words[1:]...))
}

// start starts the application, and waits until it listens. Its pages lead to the gateway, which has a certificate
// that world.Launch does not trust.
func (f *framework) start(t *testing.T, command *exec.Cmd) {
	t.Helper()
	said := &world.Output{}
	command.Stdout, command.Stderr = said, said
	ended := world.Spawn(t, command)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote\n%s", command.Path, said)
		}
	})
	world.Until(t, "the application", func() bool {
		select {
		case <-ended:
			t.Fatal("the application has ended")
		default:
		}
		connection, err := net.Dial("tcp", "127.0.0.1:"+f.port)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
}

// wantSignIn signs alice in to the application and out of it. Then the application asks for a sign-in, and so does
// the gateway.
func (f *framework) wantSignIn(t *testing.T, logout string, shows ...string) {
	t.Helper()
	alice := user{world.Browse(f.Instance)}
	alice.T = t
	signIn := func(when string) {
		t.Helper()
		alice.Open(f.home + "/")
		f.press(alice)
		if form, _ := alice.Form(); !strings.HasPrefix(alice.URL.String(), f.Base) || !form.Fields.Has("username") {
			t.Fatalf("%s: the gateway does not ask for a sign-in: %s", when, alice.Describe())
		}
		alice.Send(map[string]string{"username": "alice", "password": "wonderland"})
		for _, text := range shows {
			if !strings.HasPrefix(alice.URL.String(), f.home+"/") || !strings.Contains(alice.Page.Body, text) {
				t.Fatalf("%s: signed in, without %q: %s", when, text, alice.Describe())
			}
		}
	}
	signIn("at first")
	alice.Open(f.home + logout)
	f.press(alice)
	if form, _ := alice.Form(); !form.Fields.Has("username") {
		t.Fatalf("signed out: the application does not lead to a sign-in: %s", alice.Describe())
	}
	signIn("signed out")
}

// press presses the buttons that an application shows before the user goes to the gateway.
func (f *framework) press(person user) {
	person.T.Helper()
	for range 2 {
		if _, ok := person.Form(); ok && strings.HasPrefix(person.URL.String(), f.home) {
			person.Send(nil)
		}
	}
}

// TestFrameworkExpress: the page's application with Express and openid-client signs a user in, with the role, and out.
func TestFrameworkExpress(t *testing.T) {
	t.Parallel()
	javaScript(t, "app.mjs")
}

// TestFrameworkAuthJS: the page's application with Auth.js signs a user in, with the role, and out.
func TestFrameworkAuthJS(t *testing.T) {
	t.Parallel()
	javaScript(t, "auth.mjs")
}

func javaScript(t *testing.T, file string) {
	t.Helper()
	modules := world.Must(filepath.Abs("node_modules"))(t)
	if _, err := os.Stat(filepath.Join(modules, "@auth/express")); err != nil {
		t.Fatalf("the libraries are not installed, run make deps: %v", err)
	}
	f := prepareFramework(t, file)
	world.NoError(t, os.Symlink(modules, filepath.Join(f.dir, "node_modules")))
	f.launch(t, "", "node "+file)
	f.wantSignIn(t, "/logout", `"name":"Alice Example"`, `"roles":["staff"]`)
}
