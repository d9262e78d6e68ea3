package examples

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestDocsMigrate runs the tests that the pages of docs/migrate show for their
// configurations.
func TestDocsMigrate(t *testing.T) {
	t.Parallel()
	pages := 0
	for name, doc := range world.Documents(t) {
		if !strings.HasPrefix(name, "docs/migrate/") {
			continue
		}
		pages++
		dir, config, ran := configurationFolder(t, doc), "", false
		for _, b := range doc.Blocks {
			switch b.Info {
			case "yaml":
				config = complete(b.Text())
			case "yaml tests":
				ran = true
				world.WriteAll(t, dir, map[string]string{"config.yaml": config,
					"access.test.yaml": "config: config.yaml\n" + b.Text()})
				cmd := exec.Command(world.Program("authgate"), "test", "access.test.yaml")
				cmd.Dir, cmd.Env = dir, os.Environ()
				for _, use := range variableUse.FindAllStringSubmatch(config, -1) {
					cmd.Env = append(cmd.Env, use[1]+"="+strings.Repeat("x", 32))
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %v\n%s", name, b.Line, err, out)
				}
			}
		}
		if !ran {
			t.Errorf("%s tests no configuration", name)
		}
	}
	if pages == 0 {
		t.Error("docs/migrate has no pages")
	}
}

// TestDocsMigrateKeys checks that the page for oauth2-proxy names each of its flags, and
// the words of its file of the new form.
func TestDocsMigrateKeys(t *testing.T) {
	t.Parallel()
	page := world.ReadDocument(t, "docs/migrate/oauth2-proxy.md").Prose
	names := []string{"OAUTH2_PROXY_", "injectRequestHeaders", "injectResponseHeaders", "claimSource", "secretSource",
		"additionalClaims", "upstreamConfig"}
	for line := range strings.Lines(world.ReadFile(t, "testdata/oauth2-proxy.flags")) {
		if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	if len(names) < 150 {
		t.Fatalf("there are %d names", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile("`"+regexp.QuoteMeta(name)+"[`=]").MatchString(page) &&
			!(strings.HasSuffix(name, "_") && strings.Contains(page, name)) {
			t.Errorf("the page does not name %s", name)
		}
	}
}
