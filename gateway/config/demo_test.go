package config

import (
	"os"
	"slices"
	"testing"
)

// The shipped file is valid without variables, demoHashes are its hashes, and its
// users and its provider are known as those of the demonstration.
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
	var hashes []Secret
	for _, u := range cfg.Basic.Users {
		hashes = append(hashes, u.PasswordHash)
	}
	for _, u := range cfg.Accounts.Users {
		hashes = append(hashes, u.PasswordHash)
		if slices.Contains(u.Roles, "admin") != (u.Username == "alice") {
			t.Errorf("%s has the roles %q", u.Username, u.Roles)
		}
	}
	users, providers := cfg.DemoUsers(), cfg.DemoProviders()
	if !slices.Equal(hashes, demoHashes) || !slices.Equal(users, []string{"service", "alice", "bob"}) || !slices.Equal(providers, []string{"demo"}) {
		t.Errorf("hashes %q, demonstration users %q and providers %q", hashes, users, providers)
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
