package documents

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestDocsMigrate runs the tests that the pages of docs/migrate show for their
// configurations.
func TestDocsMigrate(t *testing.T) {
	t.Parallel()
	pages := 0
	for name, doc := range documents(t) {
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
