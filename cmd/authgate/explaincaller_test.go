package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"authgate/gateway/explain"
	"authgate/internal/test/must"
)

// readCallerFlags returns the caller of a command line of explain.
func readCallerFlags(t *testing.T, line ...string) (*explain.Caller, error) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	var c callerFlags
	c.addFlags(flags)
	must.Do(t, flags.Parse(line))
	return c.readLogin(flags.Changed)
}

// The flags about who makes a request become a caller; without any, there is none.
func TestCallerFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "claims.json")
	must.Do(t, os.WriteFile(file, []byte(`{"sub": "repo:a"}`), 0o600))
	for line, want := range map[string]*explain.Caller{
		"":                                   nil,
		"--as=none":                          nil,
		"--as=alice":                         {User: "alice"},
		"--as=alice --mechanism=basic":       {User: "alice", Mechanism: "basic"},
		"--as=alice --api-token --roles=a":   {User: "alice", APIToken: true, Roles: []string{"a"}},
		"--as=alice --client=c --scopes=s":   {User: "alice", Client: "c", Scopes: []string{"s"}},
		"--as=alice --factors=2 --age=5m":    {User: "alice", Factors: 2, Age: 5 * time.Minute},
		"--factors=2":                        {Factors: 2},
		"--username=eve --provider=p":        {Username: "eve", Provider: "p"},
		"--claim=a=1 --claim=a=2 --claim=b=": {Claims: map[string][]string{"a": {"1", "2"}, "b": {""}}},
		"--issuer=ci --claims=" + file:       {Issuer: "ci", Token: map[string]any{"sub": "repo:a"}},
	} {
		got, err := readCallerFlags(t, strings.Fields(line)...)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
}

// Flags that contradict each other, or that say nothing, are mistakes of the command line.
func TestCallerFlagsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	list := filepath.Join(folder, "list.json")
	must.Do(t, os.WriteFile(list, []byte(`["sub"]`), 0o600))
	for line, want := range map[string]string{
		"--as=":                              "--as is empty",
		"--api-token":                        "--api-token needs --as",
		"--as=alice --client=":               "must not be empty",
		"--as=alice --resource=":             "must not be empty",
		"--as=alice --actor=":                "must not be empty",
		"--as=alice --api-token --scopes=s":  "--api-token goes with --as and --roles alone",
		"--as=alice --roles=a":               "--as names a user",
		"--as=alice --claim=a=b":             "--as names a user",
		"--as=none --scopes=s":               "--as none has none",
		"--username=eve --claim=a":           "expected NAME=VALUE",
		"--claim==b":                         "expected NAME=VALUE",
		"--issuer=ci":                        "go together",
		"--claims=claims.json":               "go together",
		"--issuer=ci --claims=x --as=alice":  "describe all of a token",
		"--issuer=ci --claims=x --factors=2": "describe all of a token",
		"--issuer=ci --claims=" + list:       "is not a JSON object",
		"--issuer=ci --claims=" + folder:     "--claims: ",
		"--as=none --factors=2":              "there is none",
		"--as=alice --factors=3":             "--factors: ",
		"--as=alice --age=soon":              "is not a duration",
		"--as=alice --age=0s":                "--age: ",
	} {
		_, err := readCallerFlags(t, strings.Fields(line)...)
		mistake, ok := errors.AsType[*usageError](err)
		if !ok || !strings.Contains(mistake.Error(), want) {
			t.Errorf("%s: %v, want a usage error with %q", line, err, want)
		}
	}
}
