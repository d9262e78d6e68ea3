package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata. Each gets free ports in $HTTPS,
// $HTTP, $ADMIN and $UPSTREAM, the gateway's address in $BASE, and a curl that
// trusts the CA that the gateway makes in its folder. Besides the commands of
// testscript there are
//
//	await URL          waits until URL answers 200
//	field NAME VAR     sets $VAR to a field of the JSON object in stdout
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: func(env *testscript.Env) error { return prepare(t, env) },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await": awaitCommand,
			"field": fieldCommand,
		},
	})
}

func prepare(t *testing.T, env *testscript.Env) error {
	for _, name := range []string{"HTTPS", "HTTP", "ADMIN", "UPSTREAM"} {
		env.Setenv(name, freePort(t))
	}
	env.Setenv("BASE", "https://localhost:"+env.Getenv("HTTPS"))
	env.Setenv("CURL_CA_BUNDLE", filepath.Join(env.WorkDir, "data", "ca.pem"))
	env.Setenv("CURL_HOME", env.WorkDir) // nobody's own .curlrc
	env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
	return nil
}

func awaitCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await URL")
	}
	ts.Check(await(args[0], nil))
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
