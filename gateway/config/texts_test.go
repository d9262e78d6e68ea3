package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/pages"
	"authgate/internal/test/must"
)

// The texts of a file are in the configuration, and those that a new language lacks are told.
func TestOwnTexts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	texts := write("texts.yaml", "EN: {signin.submit: Enter}\nsv:\n  language.name: svenska\n"+
		"  signin.heading: Till {host}\n  wait.seconds.other: \"{n} s\"\n")
	main := write("gateway.yaml", "public_url: https://gw.example\nsite: {texts: texts.yaml}\n")
	c := must.Get(Load(main))(t)
	want := pages.Texts{
		"en": {"signin.submit": "Enter"},
		"sv": {"language.name": "svenska", "signin.heading": "Till {host}", "wait.seconds.other": "{n} s"},
	}
	if diff := cmp.Diff(want, c.Site.Pages().Texts); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(c.SideFiles(), texts) || !slices.Contains(c.PublicFiles(), texts) {
		t.Errorf("the files are %q, without secrets %q", c.SideFiles(), c.PublicFiles())
	}
	warned := c.Warnings().Error()
	if !strings.Contains(warned, texts+":3:3: site.texts.sv: ") || !strings.Contains(warned, " texts are missing, "+
		"and stay English: account.email, account.ends, account.mechanism, account.name, account.provider, …") {
		t.Error(warned)
	}
	write("texts.yaml", "en: {signin.submit: Go}\n")
	if got := must.Get(c.Reread())(t).Site.Own["en"]["signin.submit"]; got != "Go" {
		t.Errorf("read again, the text is %q", got)
	}
}
