package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFileVersion(t *testing.T) {
	t.Parallel()
	committed := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	for described, want := range map[string]string{
		"v1.2.3":                            "1.2.3",
		"v1.2.3-dirty":                      "1.2.3+dirty",
		"v1.2.3-5-g8396dcb01234":            "1.2.3+5.g8396dcb01234",
		"v1.3.0-rc.1":                       "1.3.0~rc.1",
		"v1.3.0-rc.1-5-g8396dcb01234-dirty": "1.3.0~rc.1+5.g8396dcb01234.dirty",
		"v0.1.0+g8396dcb01234":              "0.1.0+g8396dcb01234",
		"v0.1.0+g8396dcb01234-dirty":        "0.1.0+g8396dcb01234.dirty",
		"8396dcb01234":                      "0.0~git20261123.8396dcb01234",
		"8396dcb01234-dirty":                "0.0~git20261123.8396dcb01234+dirty",
	} {
		if got, err := fileVersion(described, committed); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", described, got, err, want)
		}
	}
	for _, described := range []string{"", "devel", "v1.2", "p-docs", "v1.2.3_4", "v1.2.3-a b", "v1.2.3+x"} {
		if got, err := fileVersion(described, committed); err == nil {
			t.Errorf("%q is the version %q, want an error", described, got)
		}
	}
}

// TestSourceVersion asks .ci/version in a repository about each state of a release.
func TestSourceVersion(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../.ci/version")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := writeFolder(dir, map[string][]byte{name: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		identity := []string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}
		return strings.TrimSpace(command(t, "git", append(identity, args...)...))
	}
	is := func(state, want string) {
		t.Helper()
		if got := command(t, "sh", filepath.Join(dir, ".ci/version")); got != want+"\n" {
			t.Errorf("%s: the version is %q, want %q", state, got, want)
		}
	}
	write(".ci/version", string(script))
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n### Added\n\n- This.\n\n## 0.1.0 - 2026-11-26\n\n- That.\n")
	is("no repository", "devel")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	is("lines after the newest section", "v0.1.0+g"+git("rev-parse", "--short=12", "HEAD"))
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- This.\n\n"+
		"## 0.1.0 - 2026-11-26\n\n- That.\n")
	is("a release that is not committed", "v0.2.0+g"+git("rev-parse", "--short=12", "HEAD")+"-dirty")
	git("commit", "-q", "-a", "-m", "two")
	is("nothing after the newest section", "v0.2.0")
	git("tag", "v0.3.0")
	is("a tag", "v0.3.0")
	git("commit", "-q", "--allow-empty", "-m", "three")
	is("a commit after a tag", "v0.3.0-1-g"+git("rev-parse", "--short=12", "HEAD"))
}

// TestChangelogHasRelease checks that a release has a section in the change log with its date, and
// that this repository's is one.
func TestChangelogHasRelease(t *testing.T) {
	t.Parallel()
	changelog, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[string]bool{
		"0.1.0": true, "0.1.0+g8396dcb01234": true, "0.0~git20261123.8396dcb01234": true, "0.1.0+dirty": true,
		"9.9.9": false, "0.1": false, "0.1.0~rc.1": false, "0.1.": false,
	} {
		if err := inChangelog(changelog, number); (err == nil) != want {
			t.Errorf("%s: %v", number, err)
		}
	}
	if err := inChangelog([]byte("## 1.0.0\n\n## 1.1.0 - soon\n"), "1.0.0"); err == nil {
		t.Error("a section without a date is one of a release")
	}
}
