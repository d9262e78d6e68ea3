package config

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The shipped file is valid without variables, and demoHashes are its hashes.
func TestShippedConfig(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parse("config.yaml", source, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"service", "alice", "bob"}, cfg.DemoUsers()); diff != "" {
		t.Errorf("demonstration users (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"demo"}, cfg.DemoProviders()); diff != "" {
		t.Errorf("demonstration providers (-want +got):\n%s", diff)
	}
	var hashes []Secret
	for _, u := range cfg.Basic.Users {
		hashes = append(hashes, u.PasswordHash)
	}
	for _, u := range cfg.Accounts.Users {
		hashes = append(hashes, u.PasswordHash)
	}
	if !slices.Equal(hashes, demoHashes) {
		t.Error("demoHashes differ from the hashes of config.yaml")
	}
	roles := map[string][]string{}
	for _, u := range cfg.Accounts.Users {
		roles[u.Username] = u.Roles
	}
	if diff := cmp.Diff(map[string][]string{"alice": {"user", "admin"}, "bob": {"user"}}, roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

func TestDemoUsersAreNamedByTheirHash(t *testing.T) {
	t.Parallel()
	cfg := &Config{
		Basic:    Basic{Users: []BasicUser{{Username: "a", PasswordHash: demoHashes[1]}, {Username: "b", PasswordHash: "$2y$…"}}},
		Accounts: Accounts{Users: []Account{{Username: "alice", PasswordHash: "$2y$…"}, {Username: "c", PasswordHash: demoHashes[0]}}},
	}
	if got := cfg.DemoUsers(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %q", got)
	}
}
