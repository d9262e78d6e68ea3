package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// The chart for Helm. In the repository, its folder manifests is a link to the files that kubectl applies.
const (
	chartFolder     = "packaging/chart"
	manifestsFolder = "docs/deploy/kubernetes"
)

// chart returns the chart as a file for `helm install`, and its name.
func (r *release) chart() (name string, content []byte, err error) {
	inside, err := filesBelow(r.source, chartFolder)
	if err != nil {
		return "", nil, err
	}
	manifests, err := filesBelow(r.source, manifestsFolder)
	if err != nil {
		return "", nil, err
	}
	manifests = slices.DeleteFunc(manifests, func(f file) bool { // as .helmignore has it
		return strings.HasSuffix(f.name, ".example") || strings.HasSuffix(f.name, "kustomization.yaml")
	})
	number := chartVersion(r.number)
	inside = inside.with(manifests.below("manifests")...)
	for i, f := range inside {
		if f.name == "Chart.yaml" {
			changed := bytes.Replace(f.content, []byte("\nversion: 0.0.0 "), []byte("\nversion: "+number+" "), 1)
			changed = bytes.Replace(changed, []byte(`appVersion: "1.0"`), fmt.Appendf(nil, "appVersion: %q", number), 1)
			inside[i].content = changed
		}
	}
	content, err = inside.below("authgate").tarball(r.time)
	return "authgate-" + number + ".tgz", content, err
}

// chartVersion returns the version of a release's files as Semantic Versioning 2 has it.
func chartVersion(number string) string {
	number = strings.Replace(number, "~", "-", 1)
	if rest, ok := strings.CutPrefix(number, "0.0-"); ok {
		return "0.0.0-" + rest
	}
	return number
}

// filesBelow reads the files of a folder, with names relative to it. It follows no links.
func filesBelow(source, folder string) (tree, error) {
	root := filepath.Join(source, filepath.FromSlash(folder))
	var names []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err := readFiles(root, names, 0o644)
	return all.with(), err
}
