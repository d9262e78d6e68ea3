package login

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func loadKeys(tb testing.TB, algorithm, secret, privateKey, dataDir string) *Keys {
	tb.Helper()
	return must(LoadKeys(algorithm, secret, privateKey, dataDir))(tb)
}

// wantSameKeys fails the test unless each verifies what the other signs, with one kid.
func wantSameKeys(tb testing.TB, a, b *Keys) {
	tb.Helper()
	if a.id == "" || a.id != b.id || a.method.Alg() != b.method.Alg() {
		tb.Errorf("the kids are %q and %q", a.id, b.id)
	}
	for _, pair := range [][2]*Keys{{a, b}, {b, a}} {
		signature := must(pair[0].method.Sign("input", pair[0].sign))(tb)
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
			first := loadKeys(t, algorithm, "", "", dir)
			info, err := os.Stat(filepath.Join(dir, file))
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("got %v, %v, want a file of mode 0600", info, err)
			}
			wantSameKeys(t, first, loadKeys(t, algorithm, "", "", dir))
			if other := loadKeys(t, algorithm, "", "", t.TempDir()); other.id == first.id {
				t.Error("two data directories have one key")
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("got %v, %v, want the key file alone", entries, err)
			}
			if public, ok := first.verify.(*rsa.PublicKey); ok && public.N.BitLen() != 3072 {
				t.Errorf("got a key of %d bits", public.N.BitLen())
			}
			if secret, ok := first.sign.([]byte); ok && len(secret) < 32 {
				t.Errorf("got a secret of %d bytes", len(secret))
			}
		})
	}
}

func TestGivenKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := strings.Repeat("s", 32)
	given := loadKeys(t, "HS256", secret, "", dir)
	wantSameKeys(t, given, loadKeys(t, "HS256", secret, "", dir))
	if string(given.sign.([]byte)) != secret {
		t.Error("the secret is not its raw bytes")
	}
	if strings.Contains(given.id, secret[:4]) {
		t.Errorf("the kid %q tells of the secret", given.id)
	}

	key := must(testRSA())(t)
	pkcs8 := must(x509.MarshalPKCS8PrivateKey(key))(t)
	want := testKeys(t, "RS256")
	for kind, der := range map[string][]byte{"PRIVATE KEY": pkcs8, "RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(key)} {
		path := writePEM(t, kind, der)
		wantSameKeys(t, want, loadKeys(t, "RS256", "", path, dir))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("got %v, %v, want nothing generated", entries, err)
	}
}

func writePEM(tb testing.TB, kind string, der []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "key.pem")
	noError(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func TestLoadKeysRefuses(t *testing.T) {
	t.Parallel()
	key := must(testRSA())(t)
	public := must(x509.MarshalPKIXPublicKey(key.Public()))(t)
	file := func(name, content string) (dir string) {
		dir = t.TempDir()
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		return dir
	}
	weak := must(rsa.GenerateKey(rand.Reader, 1024))(t)
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		name, algorithm, secret, key, dir string
		want                              []string
	}{
		{name: "short secret", algorithm: "HS256", secret: strings.Repeat("s", 31), want: []string{"31 bytes", "at least 32"}},
		{name: "short secret kept", algorithm: "HS256", dir: file("token.secret", "short"), want: []string{"token.secret", "5 bytes", "at least 32"}},
		{name: "empty secret kept", algorithm: "HS256", dir: file("token.secret", ""), want: []string{"token.secret", "0 bytes"}},
		{name: "weak key", algorithm: "RS256", key: writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(weak)), want: []string{"key.pem", "1024 bits", "at least 2048"}},
		{name: "no key", algorithm: "RS256", key: missing, want: []string{"missing", "no such file"}},
		{name: "public key", algorithm: "RS256", key: writePEM(t, "PUBLIC KEY", public), want: []string{"key.pem", "private key"}},
		{name: "no PEM", algorithm: "RS256", dir: file("token.pem", "garbage"), want: []string{"token.pem", "private key"}},
		{name: "no directory", algorithm: "HS256", dir: missing, want: []string{"missing", "no such file"}},
		{name: "no directory for a key", algorithm: "RS256", dir: missing, want: []string{"missing", "no such file"}},
		{name: "none", algorithm: "none", want: []string{`"none" is not supported`, "HS256 or RS256"}},
		{name: "unknown", algorithm: "ES256", want: []string{`"ES256" is not supported`}},
		{name: "no algorithm", want: []string{`"" is not supported`}},
		{name: "small letters", algorithm: "hs256", secret: strings.Repeat("s", 32), want: []string{`"hs256" is not supported`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			keys, err := LoadKeys(test.algorithm, test.secret, test.key, test.dir)
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
		t.Errorf("HS256, whose key is secret: got %s, %v", got, err)
	}
	keys := testKeys(t, "RS256")
	got := must(keys.JWKS())(t)
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(got, &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("got %s, %v, want one key", got, err)
	}
	key := must(testRSA())(t)
	n := base64.RawURLEncoding.EncodeToString(key.N.Bytes())
	// RFC 7638, section 3: the required members, sorted by name.
	thumbprint := sha256.Sum256(fmt.Appendf(nil, `{"e":"AQAB","kty":"RSA","n":%q}`, n))
	want := map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "e": "AQAB", "n": n,
		"kid": base64.RawURLEncoding.EncodeToString(thumbprint[:]),
	}
	for name, value := range set.Keys[0] {
		if want[name] != value {
			t.Errorf("%s is %q, want %q", name, value, want[name])
		}
	}
	if len(set.Keys[0]) != len(want) {
		t.Errorf("got the members of %s, want these alone: %v", got, want)
	}
	if keys.id != want["kid"] {
		t.Errorf("tokens name the key %q, the set %q", keys.id, want["kid"])
	}
	for _, private := range append(slices.Clone(key.Primes), key.D) {
		if strings.Contains(string(got), base64.RawURLEncoding.EncodeToString(private.Bytes())) {
			t.Error("the set tells the private key")
		}
	}
}
