package clientcert

import (
	"crypto/rsa"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"authgate/internal/test/must"
)

const passphrase = "correct horse"

// What the authority issues names its user where the configuration looks, and opens with the
// passphrase alone.
func TestIssue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own := must.Get(OpenAuthority(filepath.Join(t.TempDir(), "data"), start))(t)
	d.options.Authorities = []*x509.Certificate{own.Certificate}
	for kind, name := range map[string]string{
		CommonName: "Ålice", Email: "alice@example.org", URI: "urn:x:alice%41", DNS: "alice.example",
	} {
		file := must.Get(own.Issue(name, kind, passphrase, start, time.Hour))(t)
		key, leaf, above, err := pkcs12.DecodeChain(file, passphrase)
		if _, isRSA := key.(*rsa.PrivateKey); err != nil || !isRSA || len(above) != 1 ||
			!above[0].Equal(own.Certificate) {
			t.Fatalf("%s: %T with %d above it, %v", kind, key, len(above), err)
		}
		d.options.Username = kind
		_, err = (&Presented{chain: []*x509.Certificate{leaf}}).Identity(NewVerifier(d.options))
		if err == nil || !strings.Contains(err.Error(), `"`+name+`", and no account`) {
			t.Errorf("%s: %v", kind, err)
		}
		if !leaf.NotAfter.Equal(start.Add(time.Hour)) || leaf.Subject.CommonName != name {
			t.Errorf("%s: %v of %q", kind, leaf.NotAfter, leaf.Subject.CommonName)
		}
	}
	file := must.Get(own.Issue("alice", CommonName, passphrase, start, 2*authorityLives))(t)
	if _, leaf, _, err := pkcs12.DecodeChain(file, passphrase); err != nil ||
		leaf.NotAfter.After(own.Certificate.NotAfter) {
		t.Errorf("it outlives its authority: %v", err)
	}
	if _, _, _, err := pkcs12.DecodeChain(file, "wrong"); err == nil {
		t.Error("a wrong passphrase opens it")
	}
}

func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	own := must.Get(OpenAuthority(t.TempDir(), start))(t)
	for _, c := range []struct{ name, kind, want string }{
		{"ålice", Email, "not ASCII"}, {strings.Repeat("a", 65), CommonName, "64 characters"}, {"", Email, "no name"},
		{"http://[", URI, "cannot be in a certificate"},
	} {
		if _, err := own.Issue(c.name, c.kind, passphrase, start, time.Hour); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q as %s: %v", c.name, c.kind, err)
		}
	}
	if _, err := own.Issue("alice", CommonName, passphrase, start.Add(2*authorityLives), time.Hour); err == nil {
		t.Error("an expired authority issues")
	}
}

// The authority stays the same, its key is for its owner alone, and files that do not belong together
// are an error.
func TestOpenAuthority(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first, again := must.Get(OpenAuthority(folder, start))(t), must.Get(OpenAuthority(folder, start))(t)
	if !first.Certificate.Equal(again.Certificate) {
		t.Error("it is another one")
	}
	for name, mode := range map[string]os.FileMode{AuthorityFile: 0o644, authorityKeyFile: 0o600} {
		if got := must.Get(os.Stat(filepath.Join(folder, name)))(t).Mode(); got != mode {
			t.Errorf("%s has mode %v", name, got)
		}
	}
	must.Do(t, os.Remove(filepath.Join(folder, authorityKeyFile)))
	if _, err := OpenAuthority(folder, start); err == nil || !strings.Contains(err.Error(), "do not belong together") {
		t.Errorf("with another key: %v", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, AuthorityFile), []byte("text"), 0o600))
	if _, err := OpenAuthority(folder, start); err == nil || !strings.Contains(err.Error(), "no CERTIFICATE in PEM") {
		t.Errorf("with text: %v", err)
	}
}
