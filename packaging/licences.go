package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

// thirdParty is the file with the licences of all modules in a program.
const thirdParty = "THIRD-PARTY-LICENSES.txt"

// standardLibrary is the name of Go's standard library among the modules, as the
// vulnerability database of Go calls it.
const standardLibrary = "std"

// accepted are the licences that a module may have. None of them asks for the source
// of a program that uses the module.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0"}

// module is a module in a program, with its licences.
type module struct {
	path, version string
	dir           string          // where its source is
	folders       map[string]bool // of its packages that are in a program
	licences      []string        // as SPDX calls them, sorted
	texts         tree            // its files about licences
}

// readModules returns the modules in the programs for all platforms, by path.
func readModules(source string, platforms []platform) (map[string]*module, error) {
	all := map[string]*module{}
	for _, on := range platforms {
		out, err := output(source, on.environment(), "go", "list", "-deps", "-f",
			`{{with .Module}}{{if not .Main}}{{.Path}}|{{.Version}}|{{.Dir}}|{{$.Dir}}{{end}}{{end}}`, "./cmd/authgate")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			fields := strings.Split(strings.TrimSpace(line), "|")
			if len(fields) != 4 {
				continue // a package of the standard library, or of the product
			}
			if all[fields[0]] == nil {
				all[fields[0]] = &module{path: fields[0], version: fields[1], dir: fields[2], folders: map[string]bool{}}
			}
			all[fields[0]].folders[fields[3]] = true
		}
	}
	out, err := output(source, nil, "go", "env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, root, _ := strings.Cut(strings.TrimSpace(out), "\n")
	all[standardLibrary] = &module{
		path: standardLibrary, version: version, dir: root, folders: map[string]bool{root: true},
	}
	return all, readLicences(all)
}

// readLicences finds the licences of modules.
func readLicences(all map[string]*module) error {
	known, err := assets.DefaultClassifier()
	if err != nil {
		return err
	}
	for _, path := range sortedKeys(all) {
		m := all[path]
		if err := m.readTexts(); err != nil {
			return err
		}
		for _, text := range m.texts {
			for _, match := range known.Match(text.content).Matches {
				if (match.MatchType == "License" || match.MatchType == "Header") && !slices.Contains(m.licences, match.Name) {
					m.licences = append(m.licences, match.Name)
				}
			}
		}
		slices.Sort(m.licences)
		if len(m.licences) == 0 {
			return fmt.Errorf("%s %s has no licence that is known; its files: %s", m.path, m.version, m.dir)
		}
		for _, licence := range m.licences {
			if !slices.Contains(accepted, licence) {
				return fmt.Errorf("%s %s has the licence %s, which is not among those that we accept: %s",
					m.path, m.version, licence, strings.Join(accepted, ", "))
			}
		}
	}
	return nil
}

var aboutLicences = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)`)

// readTexts reads the files about licences in the folders of the module's packages
// and in the folders above them.
func (m *module) readTexts() error {
	seen := map[string]bool{}
	for folder := range m.folders {
		for ; !seen[folder] && strings.HasPrefix(folder+"/", m.dir+"/"); folder = filepath.Dir(folder) {
			seen[folder] = true
		}
	}
	for _, folder := range sortedKeys(seen) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.IsDir() || !aboutLicences.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err != nil {
				return err
			}
			name, err := filepath.Rel(m.dir, filepath.Join(folder, entry.Name()))
			if err != nil {
				return err
			}
			m.texts = append(m.texts, file{name: filepath.ToSlash(name), content: content, mode: 0o644})
		}
	}
	return nil
}

// expression returns the licences as an expression of SPDX.
func (m *module) expression() string { return strings.Join(m.licences, " AND ") }

// licenceTable returns docs/licences.md. It has no versions, which change often.
func licenceTable(all map[string]*module) []byte {
	out := bytes.NewBufferString(`# Licences of dependencies

This page is for those who check licences. authgate is under the [Apache License 2.0](../LICENSE). Its programs contain Go's standard
library (` + "`" + standardLibrary + "`" + `) and these modules. A module with several licences has parts under each of them.
` + "`" + thirdParty + "`" + ` in each archive and package has the versions and the full texts.

A test writes this page (` + "`go test -C packaging -run TestLicences -update .`" +
		`), and fails if a module has a licence that is not accepted:
` + strings.Join(accepted, ", ") + `.

| Licence | Modules |
|---|---|
`)
	modules := map[string][]string{} // by their licence
	for _, path := range sortedKeys(all) {
		licence := all[path].expression()
		modules[licence] = append(modules[licence], "`"+path+"`")
	}
	for _, licence := range sortedKeys(modules) {
		fmt.Fprintf(out, "| %s | %s |\n", licence, strings.Join(modules[licence], ", "))
	}
	return out.Bytes()
}

// licenceTexts returns the file thirdParty.
func licenceTexts(all map[string]*module) []byte {
	out := bytes.NewBufferString("authgate contains the following modules. Their licences follow, module by module.\n\n")
	for _, path := range sortedKeys(all) {
		fmt.Fprintf(out, "  %s %s: %s\n", path, all[path].version, all[path].expression())
	}
	for _, path := range sortedKeys(all) {
		for _, text := range all[path].texts {
			fmt.Fprintf(out, "\n%s\n%s %s, %s\n\n%s\n",
				strings.Repeat("=", 80), path, all[path].version, text.name, bytes.TrimSpace(text.content))
		}
	}
	return out.Bytes()
}
