package main

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"
	"unicode/utf8"

	"authgate/gateway/strictyaml"
)

//go:embed init.yaml.tmpl
var initTemplate string

//go:embed init.accounts.tmpl
var initAccountsTemplate string

// The lines of proxies, as docs/how-to/behind-a-proxy.md shows them.
var (
	//go:embed init.nginx.tmpl
	nginxLines string
	//go:embed init.caddy.tmpl
	caddyLines string
	//go:embed init.traefik.tmpl
	traefikLines string
	//go:embed init.haproxy.tmpl
	haproxyLines string
)

// fill fills in a template, and aligns the comments behind its lines.
func fill(text string, answers *firstSteps) ([]byte, error) {
	var filled bytes.Buffer
	parsed := template.Must(template.New("").Funcs(template.FuncMap{
		"quote": strictyaml.Quoted, "text": strictyaml.Text, "key": strictyaml.Key, "join": strings.Join,
	}).Parse(text))
	err := parsed.Execute(&filled, answers)
	return aligned(filled.String()), err
}

// aligned returns a text whose comments, each of which follows a tab, begin in one column.
func aligned(text string) []byte {
	column := 0
	for line := range strings.Lines(text) {
		if code, _, ok := strings.Cut(line, "\t#"); ok {
			column = max(column, utf8.RuneCountInString(code)+2)
		}
	}
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		if code, comment, ok := strings.Cut(line, "\t#"); ok {
			line = code + strings.Repeat(" ", column-utf8.RuneCountInString(code)) + "#" + comment
		}
		b.WriteString(line)
	}
	return b.Bytes()
}
