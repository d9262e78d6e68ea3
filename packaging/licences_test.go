package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/licences.md")

// TestLicences checks that docs/licences.md lists each module in the programs for all
// platforms. Reading them fails for a licence that is not accepted.
func TestLicences(t *testing.T) {
	t.Parallel()
	const page = "../docs/licences.md"
	modules, err := readModules("..", platforms)
	if err != nil {
		t.Fatal(err)
	}
	want := licenceTable(modules)
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v); run: go test -C packaging -run TestLicences -update .", page, err)
	}
	texts := string(licenceTexts(modules))
	for path, m := range modules {
		if !strings.Contains(texts, "\n"+path+" "+m.version+", ") {
			t.Errorf("%s has no text of the licence of %s", thirdParty, path)
		}
	}
}

// TestLicenceRefused checks that modules without a licence, and with one that is not
// accepted, stop a release.
func TestLicenceRefused(t *testing.T) {
	t.Parallel()
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General " +
		"Public License as published by the Free Software Foundation, either version 3 of the License, or (at your " +
		"option) any later version. This program is distributed in the hope that it will be useful, but WITHOUT ANY " +
		"WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See " +
		"the GNU General Public License for more details. You should have received a copy of the GNU General Public " +
		"License along with this program. If not, see <http://www.gnu.org/licenses/>."
	for want, text := range map[string]string{
		"no licence that is known": "All rights reserved.\n", "not among those that we accept": gpl,
	} {
		dir := t.TempDir()
		below := filepath.Join(dir, "internal", "parser") // the licence is above the package
		if err := writeFolder(dir, map[string][]byte{"LICENSE": []byte(text), "internal/parser/parser.go": nil}); err != nil {
			t.Fatal(err)
		}
		m := &module{path: "example.org/m", version: "v1.0.0", dir: dir, folders: map[string]bool{below: true}}
		if err := readLicences(map[string]*module{m.path: m}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want an error with %q", text, err, want)
		}
	}
}
