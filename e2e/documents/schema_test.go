package documents

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
	"authgate/gateway/config"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
)

// configSchema compiles the schema of the configuration, which must itself fit the
// schema of schemas.
func configSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const name = "config.schema.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestSchemaFits checks that valid files fit the schema, and that none fits with an
// unknown key anywhere.
func TestSchemaFits(t *testing.T) {
	t.Parallel()
	schema := configSchema(t)
	paths := world.Must(filepath.Glob(world.Path("gateway/config/testdata/good/*.txtar")))(t)
	if len(paths) < 10 {
		t.Fatalf("found %d archives", len(paths))
	}
	files := []txtar.File{{Name: "config.yaml", Data: world.Must(os.ReadFile(world.Path("config.yaml")))(t)}}
	for _, path := range paths {
		files = append(files, world.Must(txtar.ParseFile(path))(t).Files...)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name, ".yaml") {
			continue
		}
		t.Run(file.Name, func(t *testing.T) {
			t.Parallel()
			var value map[string]any
			if err := yaml.Unmarshal(file.Data, &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Error(err)
			}
			for _, mapping := range mappings(value) {
				mapping["no_such_key"] = 1
				if schema.Validate(value) == nil {
					t.Errorf("fits with an unknown key: %v", mapping)
				}
				delete(mapping, "no_such_key")
			}
		})
	}
}

// mappings returns all mappings within a value, each once.
func mappings(value any) (all []map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		all = append(all, value)
		for _, one := range value {
			all = append(all, mappings(one)...)
		}
	case []any:
		for _, one := range value {
			all = append(all, mappings(one)...)
		}
	}
	return all
}

// TestSchemaRefuses checks values that do not fit, beside ones that do.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := configSchema(t)
	for _, c := range []struct{ fits, does, not string }{
		{"a word", `tls: {mode: acme}`, `tls: {mode: automatic}`},
		{"a variable for a word", `log: {level: "${LEVEL}"}`, `log: {level: "$LEVEL"}`},
		{"an empty word that is the default", `providers: [{token_endpoint_auth_method: ""}]`, `providers: [{logout: ""}]`},
		{"a duration", `session: {lifetime: 1d12h}`, `session: {lifetime: 12h1d}`},
		{"no time", `session: {idle_timeout: 0}`, `session: {idle_timeout: 5}`},
		{"a number", `limits: {in_flight: 5}`, `limits: {in_flight: -5}`},
		{"a truth", `store: {tls: true}`, `store: {tls: "yes"}`},
		{"a list", `token: {audience: [a]}`, `token: {audience: a}`},
		{"one policy", `routes: [{policy: staff}]`, `routes: [{policy: 5}]`},
		{"some policies", `routes: [{policy: [staff, {roles: [a]}]}]`, `routes: [{policy: [staff, {role: [a]}]}]`},
		{"a policy in a policy", `policies: {a: {any: [b, {none: [c]}]}}`, `policies: {a: {any: [b, {unknown: [c]}]}}`},
		{"a secret", `token: {secret_file: a}`, `token: {secret_file: a, secret: b}`},
		{"an empty section", `tls:`, `routes:`},
	} {
		for text, fits := range map[string]bool{c.does: true, c.not: false} {
			var value any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); (err == nil) != fits {
				t.Errorf("%s: %s: fits is %t: %v", c.fits, text, !fits, err)
			}
		}
	}
}
