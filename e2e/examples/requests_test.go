package examples

import (
	"path/filepath"
	"testing"

	"authgate/e2e/world"

	"golang.org/x/tools/txtar"
)

// fewestRequests is how many requests in words there are at least.
const fewestRequests = 30

// TestRequestsInWords runs what a reader of AGENTS.md writes for requests in plain words. Each file has the
// words, a configuration, and cases of who gets in where. Then the configuration is weakened in every way,
// as in TestDocsCookbook, and the cases must notice.
func TestRequestsInWords(t *testing.T) {
	t.Parallel()
	paths := world.Must(filepath.Glob("testdata/requests/*.txtar"))(t)
	if len(paths) < fewestRequests {
		t.Errorf("there are %d requests, fewer than %d", len(paths), fewestRequests)
	}
	var whole, weaker []trial
	for _, path := range paths {
		archive := world.Must(txtar.ParseFile(path))(t)
		if len(archive.Comment) == 0 || len(archive.Files) != 2 {
			t.Fatalf("%s: expected words, a configuration and cases", path)
		}
		config := world.DecodeYAML(t, complete(string(archive.Files[0].Data)))
		r := recipe{name: path, tests: world.DecodeYAML(t, string(archive.Files[1].Data))}
		for _, problem := range r.problems() {
			t.Error(problem)
		}
		whole = append(whole, trial{config, r.tests, path})
		what, configs := weakened(t, config, config)
		for i := range configs {
			weaker = append(weaker, trial{configs[i], r.tests, path + ": the cases pass without " + what[i]})
		}
	}
	tryAll(t, whole, weaker)
}
