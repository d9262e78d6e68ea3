package jose

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
)

// wantSameKeys fails the test unless each verifies what the other signs, with one kid.
func wantSameKeys(tb testing.TB, a, b *Keys) {
	tb.Helper()
	if a.id == "" || a.id != b.id || a.method.Alg() != b.method.Alg() {
		tb.Errorf("the kids are %q and %q, want one", a.id, b.id)
	}
	for _, pair := range [][2]*Keys{{a, b}, {b, a}} {
		signature := must.Get(pair[0].method.Sign("input", pair[0].sign))(tb)
		if err := pair[1].method.Verify("input", signature, pair[1].verify); err != nil {
			tb.Errorf("the keys differ: %v", err)
		}
	}
}

func TestGeneratedKeysAreKept(t *testing.T) {
	t.Parallel()
	for algorithm, file := range map[string]string{"HS256": "token.secret", "RS256": "token.pem"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := must.Get(Load(algorithm, "", "", dir))(t)
			again := must.Get(Load(algorithm, "", "", dir))(t)
			wantSameKeys(t, first, again)
			if one := first.Derive("one"); len(one) != 32 || !bytes.Equal(one, again.Derive("one")) ||
				bytes.Equal(one, first.Derive("two")) {
				t.Errorf("derived %x of the key for one purpose, %x again, and %x for another", one, again.Derive("one"),
					first.Derive("two"))
			}
			if info := must.Get(os.Stat(filepath.Join(dir, file)))(t); info.Mode() != 0o600 {
				t.Errorf("the key file has the mode %v, want 0600", info.Mode())
			}
			if other := must.Get(Load(algorithm, "", "", t.TempDir()))(t); other.id == first.id ||
				bytes.Equal(other.Derive("one"), first.Derive("one")) {
				t.Error("two data directories have one key")
			}
			if public, ok := first.verify.(*rsa.PublicKey); ok && public.N.BitLen() != 3072 {
				t.Errorf("got a key of %d bits, want 3072", public.N.BitLen())
			}
			if secret, ok := first.sign.([]byte); ok && len(secret) < 32 {
				t.Errorf("got a secret of %d bytes, want 32", len(secret))
			}
		})
	}
}

func TestGivenKeys(t *testing.T) {
	t.Parallel()
	dir, secret := t.TempDir(), strings.Repeat("s", 32)
	given := must.Get(Load("HS256", secret, "", dir))(t)
	wantSameKeys(t, given, must.Get(Load("HS256", secret, "", dir))(t))
	if string(given.sign.([]byte)) != secret || strings.Contains(given.id, secret[:4]) {
		t.Errorf("got the secret %q and the kid %q, want the raw bytes, and nothing of them in the kid", given.sign, given.id)
	}
	key := must.Get(testRSA())(t)
	for kind, der := range map[string][]byte{"PRIVATE KEY": must.Get(x509.MarshalPKCS8PrivateKey(key))(t),
		"RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(key)} {
		wantSameKeys(t, testKeys(t, "RS256"), must.Get(Load("RS256", "", writePEM(t, kind, der), dir))(t))
	}
	if entries := must.Get(os.ReadDir(dir))(t); len(entries) != 0 {
		t.Errorf("got %v, want nothing generated", entries)
	}
}

func writePEM(tb testing.TB, kind string, der []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "key.pem")
	must.Do(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	public := must.Get(x509.MarshalPKIXPublicKey(must.Get(testRSA())(t).Public()))(t)
	weak := writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(must.Get(rsa.GenerateKey(rand.Reader, 1024))(t)))
	holding := func(name, content string) (dir string) {
		dir = t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		return dir
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		name, algorithm, secret, key, dir string
		want                              []string
	}{
		{"short secret", "HS256", strings.Repeat("s", 31), "", "", []string{"31 bytes", "at least 32"}},
		{"short secret kept", "HS256", "", "", holding("token.secret", "short"),
			[]string{"token.secret", "5 bytes", "at least 32"}},
		{"weak key", "RS256", "", weak, "", []string{"key.pem", "1024 bits", "at least 2048"}},
		{"no key", "RS256", "", missing, "", []string{"missing", "no such file"}},
		{"public key", "RS256", "", writePEM(t, "PUBLIC KEY", public), "", []string{"key.pem", "private key"}},
		{"no PEM", "RS256", "", "", holding("token.pem", "garbage"), []string{"token.pem", "private key"}},
		{"no directory", "HS256", "", "", missing, []string{"missing", "no such file"}},
		{"none", "none", "", "", "", []string{`"none" is not supported`, "HS256 or RS256"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			keys, err := Load(test.algorithm, test.secret, test.key, test.dir)
			if keys != nil || err == nil {
				t.Fatalf("got %v, %v, want an error alone", keys, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if test.secret != "" && strings.Contains(err.Error(), test.secret) {
				t.Errorf("the error quotes the secret: %v", err)
			}
		})
	}
}

func TestJWKS(t *testing.T) {
	t.Parallel()
	if got, err := testKeys(t, "HS256").JWKS(); err != nil || string(got) != `{"keys":[]}` {
		t.Errorf("HS256, whose key is secret: got %s, %v, want no keys", got, err)
	}
	keys, n := testKeys(t, "RS256"), base64url(must.Get(testRSA())(t).N.Bytes())
	var set map[string][]map[string]string
	must.Do(t, json.Unmarshal(must.Get(keys.JWKS())(t), &set))
	// RFC 7638, section 3: the required members, sorted by name.
	thumbprint := sha256.Sum256(fmt.Appendf(nil, `{"e":"AQAB","kty":"RSA","n":%q}`, n))
	kid := base64url(thumbprint[:])
	// No other member, so nothing of the private key.
	want := map[string][]map[string]string{"keys": {{"kty": "RSA", "use": "sig", "alg": "RS256", "e": "AQAB", "n": n,
		"kid": kid}}}
	if diff := cmp.Diff(want, set); diff != "" || keys.id != kid {
		t.Errorf("tokens name the key %q; the set (-want +got):\n%s", keys.id, diff)
	}
}
