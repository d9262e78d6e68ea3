package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"authgate/gateway/password"
)

// exported compares the settings of configurations.
var exported = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreTypes(password.Hash{})}

// mustParse parses a valid text.
func mustParse(t testing.TB, source string) *Config {
	t.Helper()
	cfg, err := parse("config.yaml", []byte(source+"\n"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The configuration of the design and the one without its default values are
// equal.
func TestDefaultsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	written, err := parseTestdata(t, "testdata/design/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	short, err := parseTestdata(t, "testdata/design/without-defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, short, exported); diff != "" {
		t.Errorf("defaults differ from the design (-design +defaults):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v, want fs.ErrNotExist", err)
	}
	cfg, err := Load("testdata/good/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Routes[0].Name != "/" || cfg.DataDir != filepath.Join("testdata", "good", "data") {
		t.Errorf("got the route %q and data_dir %q", cfg.Routes[0].Name, cfg.DataDir)
	}
	_, err = Load("testdata/bad/unknown-key.yaml")
	if diagnostics, ok := errors.AsType[Diagnostics](err); !ok || len(diagnostics) < 2 {
		t.Errorf("a bad file: %v, want several Diagnostics", err)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	source := []byte("# " + strings.Repeat("x", maxConfigSize))
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		t.Fatal(err)
	}
	_, loadErr := Load(path)
	_, parseErr := Parse(path, source)
	for _, err := range []error{loadErr, parseErr} {
		if err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
			t.Errorf("got %.200v, want an error about the size", err)
		}
	}
}

// Reread reads the accounts file again, but not the main file.
func TestReread(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	account := "- {username: %s, password_hash: \"" + environment["HASH"] + "\"}\n"
	write("config.yaml", "accounts: {file: accounts.yaml}\nlog: {level: warn}\n")
	write("accounts.yaml", fmt.Sprintf(account, "alice"))
	cfg, err := Load(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := cfg.Reread()
	if err != nil || !cmp.Equal(cfg, same, exported) {
		t.Fatalf("nothing has changed, but Reread gives %+v (%v)", same, err)
	}
	write("config.yaml", "log: {level: debug}\n")
	write("accounts.yaml", fmt.Sprintf(account, "alice")+fmt.Sprintf(account, "bob"))
	changed, err := same.Reread()
	if err != nil {
		t.Fatal(err)
	}
	if len(changed.Accounts.Users) != 2 || changed.Log.Level != "warn" {
		t.Errorf("got %d accounts and level %s; want the new accounts and the old level", len(changed.Accounts.Users), changed.Log.Level)
	}
	write("accounts.yaml", "")
	if _, err := changed.Reread(); err == nil {
		t.Error("a truncated accounts file is accepted")
	}
	write("accounts.yaml", "[]\n")
	none, err := changed.Reread()
	if err != nil || len(none.Accounts.Users) != 0 {
		t.Errorf("an empty list: %d accounts (%v), want none", len(none.Accounts.Users), err)
	}
}

// A Config does not share memory with the argument of Parse.
func TestParseCopiesItsSource(t *testing.T) {
	t.Parallel()
	source := []byte("log: {level: warn}\n")
	cfg, err := Parse("config.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	copy(source, strings.Repeat("x", len(source)))
	if _, err := cfg.Reread(); err != nil {
		t.Error(err)
	}
}

func TestOriginIsCanonical(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://Gateway.Example.ORG:443": "https://gateway.example.org",
		"https://localhost:8443":          "https://localhost:8443",
		"https://[2001:DB8::1]:443":       "https://[2001:db8::1]",
	} {
		if got := mustParse(t, "public_url: "+raw).PublicURL.String(); got != want {
			t.Errorf("%s becomes %s, want %s", raw, got, want)
		}
	}
}
