package wire

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// cgiServers are commands of real servers that run the CGI scripts of a folder on a
// port of 127.0.0.1.
var cgiServers = map[string]func(t *testing.T, folder, port string) *exec.Cmd{
	"lighttpd": func(t *testing.T, folder, port string) *exec.Cmd {
		config := filepath.Join(t.TempDir(), "lighttpd.conf")
		text := fmt.Sprintf("server.modules = (\"mod_cgi\")\nserver.document-root = %q\nserver.bind = "+
			"\"127.0.0.1\"\nserver.port = %s\ncgi.assign = (\".cgi\" => \"\")\n",
			folder, port)
		world.NoError(t, os.WriteFile(config, []byte(text), 0o600))
		return exec.Command(world.FindProgram(t, "lighttpd"), "-D", "-f", config)
	},
	"busybox httpd": func(t *testing.T, folder, port string) *exec.Cmd {
		return exec.Command(world.FindProgram(t, "busybox"), "httpd", "-f", "-p", "127.0.0.1:"+port, "-h", folder)
	},
}

// startCGI starts a server with a CGI script that prints its environment, and
// returns the URL of the script.
func startCGI(t *testing.T, command func(t *testing.T, folder, port string) *exec.Cmd) string {
	t.Helper()
	folder := t.TempDir()
	script := filepath.Join(folder, "cgi-bin", "env.cgi")
	world.NoError(t, os.Mkdir(filepath.Dir(script), 0o700))
	world.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nenv\n"),
		0o700))
	port, out := world.FreePort(t), &world.Output{}
	cmd := command(t, folder, port)
	cmd.Stdout, cmd.Stderr = out, out
	ended := world.Spawn(t, cmd)
	url := "http://127.0.0.1:" + port + "/cgi-bin/env.cgi"
	if err := world.Await(url, ended); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return url
}

// TestCGIHeaders: real servers map many header names to one environment variable.
// Whatever spelling a client uses, the script gets the gateway's value.
func TestCGIHeaders(t *testing.T) {
	t.Parallel()
	for name, command := range cgiServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := startCGI(t, command)
			g := world.Start(t, world.People+world.App(strings.TrimSuffix(url, "/cgi-bin/env.cgi"))+`
routes:
  - {match: /public/, upstream: app, auth: [none], strip_prefix: /public}
  - {match: /session/, upstream: app, auth: [session], strip_prefix: /session}
`)
			session := g.SignIn(g.Stranger(), "alice").Session
			for _, separator := range strings.Split(world.TokenSeparators, "") {
				foldedByServer(t, url, separator)
				attack := ""
				for _, header := range []string{"X-Auth-User", "X-Auth-Roles", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP",
					"True-Client-IP", "Remote-User", "X-Forwarded-User"} {
					attack += strings.ReplaceAll(header, "-", separator) + ": " + spoofed + "\n"
				}
				for path, user := range map[string][]string{"/public": nil, "/session": {"alice"}} {
					a := g.Raw(t, "GET "+path+"/cgi-bin/env.cgi HTTP/1.1\nHost: localhost\nCookie: "+session+"\n"+attack+"\n")
					if a.Status != http.StatusOK || strings.Contains(a.Body, spoofed) {
						t.Errorf("with %q for -: %d, the script sees:\n%s", separator, a.Status, a.Body)
					}
					for variable, want := range map[string][]string{"HTTP_X_AUTH_USER": user, "HTTP_X_FORWARDED_FOR": {"127.0.0.1"},
						"HTTP_X_FORWARDED_HOST": {"localhost"}} {
						if got := variables(a.Body, variable); !slices.Equal(got, want) {
							t.Errorf("with %q for -, on %s: the script sees %s: %q, want %q", separator, path, variable, got, want)
						}
					}
				}
			}
		})
	}
}

// variables returns the values of a variable in the output of env.
func variables(environment, name string) (values []string) {
	for line := range strings.Lines(environment) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// foldedByServer checks the assumption of the test: the server reads the separator as
// "-".
func foldedByServer(t *testing.T, url, separator string) {
	t.Helper()
	request := world.Must(http.NewRequest(http.MethodGet, url, nil))(t)
	request.Header["X"+separator+"Auth"+separator+"User"] = []string{"direct"}
	response := world.Must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !slices.Equal(variables(string(body), "HTTP_X_AUTH_USER"), []string{"direct"}) {
		t.Errorf("with %q for -, without the gateway: %v, the script sees:\n%s", separator, err, body)
	}
}
