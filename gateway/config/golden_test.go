package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what Parse reports to the .want files of testdata/bad")

// environment is what the files of testdata may ask for.
var environment = map[string]string{
	"HOST":     "gateway.example.org",
	"HOME_DIR": "/srv",
	"SUB":      "state",
	"NUMBER":   "7",
	"DURATION": "90s",
	"TRUE":     "true",
	"HASH":     "$2a$05$Cj2Uz06dB9glrWi2CkzdLOgicT5SRMqoxdycGqW2on5R3QOFP1nBy",
	"SECRET":   "a secret from the environment that is long enough",
	"YAML":     "info, format: text}",
}

func lookup(name string) (string, bool) {
	value, ok := environment[name]
	return value, ok
}

// parseTestdata parses a file of testdata.
func parseTestdata(t *testing.T, path string) (*Config, error) {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(path, source, lookup)
}

func TestBad(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 60 {
		t.Fatalf("found %d bad files (%v)", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			cfg, err := parseTestdata(t, path)
			diagnostics, ok := errors.AsType[Diagnostics](err)
			if !ok || cfg != nil {
				t.Fatalf("got %v and the error %v; want Diagnostics alone", cfg, err)
			}
			got := diagnostics.Error() + "\n"
			golden := strings.TrimSuffix(path, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("diagnostics differ (-want +got):\n%s", diff)
			}
			checkNothingSecret(t, got)
		})
	}
}

// checkNothingSecret finds what the files of testdata mark as secret.
func checkNothingSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{
		"never be shown", "neverbeshown", "hidden-password", "not-shown", "a secret", "thismust",
		"$2a$0", "$2y$0", "$2y$1", "$2y$3", "$argon2id$v=19$m=1", "$apr1$", "{SHA}", "12345678", "not here",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the diagnostics show %q:\n%s", secret, text)
		}
	}
}

func TestGood(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d good files (%v)", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			if _, err := parseTestdata(t, path); err != nil {
				t.Error(err)
			}
		})
	}
}
