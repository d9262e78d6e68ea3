package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata. If a script has a config.yaml, it
// begins with the upstream of cmd/upstream and a gateway that run. The gateway's
// configuration is public_url, listen and the upstream resources, the accounts of
// people where the line "# people" is, and config.yaml; its log is in
// gateway.log. $BASE is its URL; $HTTP and $ADMIN are the ports of the other
// listeners. Besides the commands of testscript there are
//
//	curl STATUS ARGS...   runs curl -sSi with ARGS; the status must be STATUS
//	field NAME VAR        sets $VAR to a field of the JSON object in stdout
//	logged PATTERN        waits until a line of the log has the pattern
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: func(env *testscript.Env) error { return prepare(t, env) },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"curl":   curlCommand,
			"field":  fieldCommand,
			"logged": loggedCommand,
		},
	})
}

func prepare(t *testing.T, env *testscript.Env) error {
	for _, name := range []string{"HTTPS", "HTTP", "ADMIN", "UPSTREAM"} {
		env.Setenv(name, world.FreePort(t))
	}
	env.Setenv("BASE", "https://localhost:"+env.Getenv("HTTPS"))
	env.Setenv("CURL_CA_BUNDLE", filepath.Join(env.WorkDir, "data", "ca.pem"))
	env.Setenv("CURL_HOME", env.WorkDir) // no .curlrc of the user
	env.Setenv("PATH", world.Programs+string(os.PathListSeparator)+env.Getenv("PATH"))
	path := filepath.Join(env.WorkDir, "config.yaml")
	config, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text := `
public_url: ${BASE}
listen: {https: "127.0.0.1:${HTTPS}", http: "127.0.0.1:${HTTP}", admin: "127.0.0.1:${ADMIN}"}
upstreams: {resources: {url: "http://127.0.0.1:${UPSTREAM}"}}
` + strings.Replace(string(config), "# people\n", world.People, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if _, err := background(env, "upstream", "-listen", "127.0.0.1:"+env.Getenv("UPSTREAM")); err != nil {
		return err
	}
	ended, err := background(env, "authgate", "serve")
	if err != nil {
		return err
	}
	if err := world.Await("http://127.0.0.1:"+env.Getenv("ADMIN")+"/readyz", ended); err != nil {
		log, _ := os.ReadFile(filepath.Join(env.WorkDir, "gateway.log"))
		return fmt.Errorf("the gateway does not become ready: %w\n%s", err, log)
	}
	return nil
}

// background runs a program until the script ends.
func background(env *testscript.Env, program string, args ...string) (ended <-chan struct{}, err error) {
	output, err := os.OpenFile(filepath.Join(env.WorkDir, "gateway.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the process has its own
	cmd := exec.Command(world.Program(program), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = env.WorkDir, env.Vars, output, output
	ended, err = world.Begin(cmd)
	if err == nil {
		env.Defer(func() { world.Stop(cmd, ended) })
	}
	return ended, err
}

var statusLine = regexp.MustCompile(`(?m)^HTTP/[0-9.]+ ([0-9]{3})`)

func curlCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: curl STATUS ARGS...")
	}
	ts.Check(ts.Exec("curl", append([]string{"-sSi"}, args[1:]...)...))
	if got := statusLine.FindStringSubmatch(ts.ReadFile("stdout")); got == nil || got[1] != args[0] {
		ts.Fatalf("the status is %q, expected %s", got, args[0])
	}
}

func fieldCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: field NAME VAR")
	}
	stdout := ts.ReadFile("stdout")
	at := strings.Index(stdout, "{")
	if at < 0 {
		ts.Fatalf("stdout holds no JSON object")
	}
	var object map[string]any
	ts.Check(json.Unmarshal([]byte(stdout[at:]), &object))
	value, ok := object[args[0]]
	if !ok {
		ts.Fatalf("the object has no field %s", args[0])
	}
	ts.Setenv(args[1], fmt.Sprint(value))
}

func loggedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: logged PATTERN")
	}
	pattern := regexp.MustCompile(args[0])
	deadline := time.Now().Add(world.Patience)
	for !pattern.MatchString(ts.ReadFile("gateway.log")) {
		if time.Now().After(deadline) {
			ts.Fatalf("the log does not have %s:\n%s", pattern, ts.ReadFile("gateway.log"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
