package explain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/gateway"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// What is explained is signed by a key that nothing verifies, and leaves no file behind.
func TestExplainSignsWithPassingKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := rig.Parse(t, dir, rig.Edit(t, rig.Base, `  app: {url: "http://app.invalid"}`,
		`  app: {url: "http://app.invalid", assertion: {}}`)+"oauth: {enabled: true}\n")
	cfg.DataDir = filepath.Join(dir, "not-there")
	e := must.Get(gateway.NewExplainer(cfg))(t)
	defer e.Close()
	described := &Request{Method: "GET", URL: "https://gw.example/session/", Caller: &Caller{Username: "alice"}}
	x := must.Get(e.Explain(described))(t)
	if assertion := x.Header.Get("X-Auth-Assertion"); strings.Count(assertion, ".") != 2 {
		t.Errorf("the assertion is %q", assertion)
	}
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("data_dir: %v", err)
	}
	must.Do(t, os.Mkdir(cfg.DataDir, 0o700))
	keys := must.Get(jose.Load("RS256", "", "", cfg.DataDir))(t)
	reader := jose.NewReader(keys, jose.ReaderOptions{})
	if reader.Signed(x.Header.Get("X-Auth-Assertion")) {
		t.Error("the explained assertion is signed by the gateway's key")
	}
}
