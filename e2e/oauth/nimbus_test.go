//go:build interop

package oauth

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNimbus: the OpenID Connect SDK of Nimbus signs a user in, checks the ID token by the
// published keys, renews and revokes its tokens, and signs the user out.
func TestNimbus(t *testing.T) {
	t.Parallel()
	const jars = "nimbus/jars"
	if _, err := os.Stat(jars); err != nil {
		t.Fatalf("Nimbus is not installed; make interop installs it: %v", err)
	}
	s := start(t, "")
	trust := filepath.Join(t.TempDir(), "trust.p12")
	keytool := exec.Command("keytool", "-importcert", "-noprompt", "-alias", "gate", "-file", filepath.Join(s.Dir, s.CA),
		"-keystore", trust, "-storepass", "of the tests")
	if said, err := keytool.CombinedOutput(); err != nil {
		t.Fatalf("keytool: %v\n%s", err, said)
	}
	runProgram(t, s.Instance, "java",
		"-Djavax.net.ssl.trustStore="+trust, "-Djavax.net.ssl.trustStorePassword=of the tests",
		"-cp", filepath.Join(jars, "*"), "nimbus/RelyingParty.java", s.Base, s.port, shopSecret)
	s.wantUpstream(t, "/api/nimbus", "alice", "user,admin")
	s.wantUpstream(t, "/api/machine", "client:shop", "machine")
}
