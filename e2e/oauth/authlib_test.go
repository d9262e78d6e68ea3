//go:build interop

package oauth

import (
	"os"
	"testing"
)

// TestAuthlib: Authlib signs a user in, checks the ID token by the published keys, renews and
// revokes its tokens, and signs the user out.
func TestAuthlib(t *testing.T) {
	t.Parallel()
	const python = "venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("Authlib is not installed; make interop installs it: %v", err)
	}
	s := start(t, "")
	runProgram(t, s.Instance, python, "-W", "ignore", "testdata/relying-party.py", s.Base, s.port, shopSecret)
	s.wantUpstream(t, "/api/authlib", "alice", "user,admin")
	s.wantUpstream(t, "/api/machine", "client:shop", "machine")
	if got := s.up.AskedFor("/api/authlib"); len(got) != 2 {
		t.Errorf("%d requests reached the API, expected those before the tokens were revoked: 2", len(got))
	}
}
