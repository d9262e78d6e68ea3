//go:build interop

package oauth

import (
	"testing"

	"authgate/e2e/world"
)

// TestRequestsOAuthlib: requests-oauthlib names no scope, and takes those that the gateway gives.
func TestRequestsOAuthlib(t *testing.T) {
	t.Parallel()
	python := world.FindProgram(t, "./venv/bin/python")
	s := start(t, "  scopes: {read: [user], manage: [admin]}\n")
	runProgram(t, s.Instance, python, "-W", "error", "testdata/no-scope.py", s.Base, s.port, shopSecret)
	s.wantUpstream(t, "/api/no-scope", "alice", "user,admin")
	if got := s.up.AskedFor("/api/no-scope"); len(got) != 2 {
		t.Errorf("%d requests reached the API, expected one before the refresh and one after", len(got))
	}
}
