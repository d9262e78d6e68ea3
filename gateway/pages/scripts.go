package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"path"
	"slices"
	"strings"
)

// Each file is a script that a template can have at its end: {{script "its name"}}. Pages must work
// without it, except where no form can do the same.
//
//go:embed scripts/*.js
var scriptFiles embed.FS

// scripts are the scripts of the pages, by their names. They are parts of the pages, as the
// style sheet is.
type scripts map[string]script

type script struct {
	source string
	hash   string // as a source of a Content-Security-Policy
}

func readScripts() (scripts, error) {
	files, err := scriptFiles.ReadDir("scripts")
	if err != nil {
		return nil, err
	}
	all := scripts{}
	for _, file := range files {
		content, err := scriptFiles.ReadFile("scripts/" + file.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file.Name(), path.Ext(file.Name()))
		all[name] = script{source: string(content), hash: hashSource(string(content))}
	}
	return all, nil
}

// hashSource returns the source of a Content-Security-Policy that allows a style sheet or a
// script in the page.
func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// element returns a script for a template. It is not escaped, so that its hash matches.
func (s scripts) element(name string) (template.HTML, error) {
	found, ok := s[name]
	if !ok {
		return "", fmt.Errorf("there is no script %q", name)
	}
	return template.HTML("<script>" + found.source + "</script>"), nil
}

// policy returns the part of a Content-Security-Policy for the scripts of a page: it allows them,
// and requests to this origin. It is empty for a page without scripts.
func (s scripts) policy(page []byte) string {
	sources := ""
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if bytes.Contains(page, []byte("<script>"+s[name].source+"</script>")) {
			sources += " " + s[name].hash
		}
	}
	if sources == "" {
		return ""
	}
	return "; script-src" + sources + "; connect-src 'self'"
}
