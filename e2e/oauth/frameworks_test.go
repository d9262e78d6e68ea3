package oauth

import (
	"fmt"
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
	dir, port   string
	home        string // the application's address for browsers
	pages       string // the beginning of the addresses of the gateway's own pages
	environment []string
}

// eachFramework calls test with an application of the page at its port, and with one that browsers reach by https. In
// the latter case the gateway stands in front of it, and lets all requests through.
func eachFramework(t *testing.T, test func(t *testing.T, f *framework), files ...string) {
	t.Helper()
	for _, name := range []string{"http", "https"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &framework{Instance: world.Prepare(t), dir: t.TempDir(), port: world.FreePort(t)}
			application := "http://127.0.0.1:" + f.port
			f.home, f.pages = application, f.Base+"/"
			config := f.here(world.WithoutAddresses(world.DocumentedFile(t, frameworksPage, "gateway.yaml")))
			if name == "https" {
				f.home, f.pages = f.Base, f.Base+"/.authgate/"
				config = world.Substituted(t, config, application, f.Base) + fmt.Sprintf("endpoints: {prefix: /.authgate/}\n"+
					"upstreams: {app: {url: %q}}\nroutes: [{match: /, upstream: app, auth: [none]}]\n", application)
			}
			f.Configure(config)
			f.Run()
			for _, file := range files {
				world.WriteAll(t, f.dir, map[string]string{file: f.here(world.DocumentedFile(t, frameworksPage, file))})
			}
			authority := filepath.Join(f.Dir, f.CA)
			f.environment = []string{
				"ISSUER=" + f.Base, "CLIENT_ID=notes", "CLIENT_SECRET=wonderland", "APP_URL=" + f.home, "PORT=" + f.port,
				"SESSION_SECRET=of the application, 32 bytes long", "REQUESTS_CA_BUNDLE=" + authority,
				"NODE_EXTRA_CA_CERTS=" + authority,
			}
			test(t, f)
		})
	}
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

// wantSignIn signs alice in to the application and out of it, and then bob, who has no name. Each time, the gateway
// asks for a password. USER in shows is the user's account, and NAME the name.
func (f *framework) wantSignIn(t *testing.T, logout string, shows ...string) {
	t.Helper()
	person := user{world.Browse(f.Instance)}
	person.T = t
	for _, who := range []struct{ user, name string }{{"alice", "Alice Example"}, {"bob", "bob"}} {
		person.Open(f.home + "/")
		f.press(person)
		f.wantPassword(person, "before "+who.user)
		person.Send(map[string]string{"username": who.user, "password": "wonderland"})
		for _, text := range shows {
			text = strings.NewReplacer("USER", who.user, "NAME", who.name).Replace(text)
			if !strings.HasPrefix(person.URL.String(), f.home+"/") || !strings.Contains(person.Page.Body, text) {
				t.Fatalf("signed in, without %q: %s", text, person.Describe())
			}
		}
		person.Open(f.home + logout)
		f.press(person)
		f.wantPassword(person, "after "+who.user)
	}
}

// press presses the buttons that an application shows before the user goes to the gateway. Its pages load nothing of
// other sites.
func (f *framework) press(person user) {
	person.T.Helper()
	for range 2 {
		if _, ok := person.Form(); ok && !strings.HasPrefix(person.URL.String(), f.pages) {
			if strings.Contains(person.Page.Body, `src="http`) {
				person.T.Errorf("a page of the application loads a file of another site: %s", person.Describe())
			}
			person.Send(nil)
		}
	}
}

// wantPassword fails the test unless the gateway's page asks for a user name and a password.
func (f *framework) wantPassword(person user, when string) {
	person.T.Helper()
	if form, _ := person.Form(); !strings.HasPrefix(person.URL.String(), f.pages) || !form.Fields.Has("username") {
		person.T.Fatalf("%s: the gateway does not ask for a sign-in: %s", when, person.Describe())
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
	eachFramework(t, func(t *testing.T, f *framework) {
		world.NoError(t, os.Symlink(modules, filepath.Join(f.dir, "node_modules")))
		f.launch(t, "", "node "+file)
		f.wantSignIn(t, "/logout", `"name":"NAME"`, `"roles":["staff"]`)
	}, file)
}
