//go:build interop

package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
)

const directoryPage = "docs/how-to/directory.md"

// slapdConfig serves the directory of the page over TLS.
const slapdConfig = `
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile DIR/directory-ca.pem
TLSCertificateKeyFile DIR/key.pem
database mdb
suffix "dc=example,dc=org"
rootdn "cn=root,dc=example,dc=org"
rootpw root-only
directory DIR/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn="cn=reader,dc=example,dc=org" read by * none
`

// directory is a running slapd.
type directory struct{ dir, address string }

// startDirectory runs slapd with the people and groups of the page.
func startDirectory(t *testing.T) *directory {
	t.Helper()
	d := &directory{dir: t.TempDir(), address: world.FreeAddress(t)}
	key := world.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	certificate, private := world.SelfSigned(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, key)
	world.WriteAll(t, d.dir, map[string]string{
		"slapd.conf":       strings.ReplaceAll(slapdConfig, "DIR", d.dir),
		"directory.ldif":   world.DocumentedFile(t, directoryPage, "directory.ldif"),
		"directory-ca.pem": certificate, "key.pem": private,
	})
	world.NoError(t, os.Mkdir(filepath.Join(d.dir, "data"), 0o700))
	conf := filepath.Join(d.dir, "slapd.conf")
	if out, err := exec.Command(world.FindProgram(t, "slapadd"), "-f", conf, "-l",
		filepath.Join(d.dir, "directory.ldif")).CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	world.Spawn(t, exec.Command(world.FindProgram(t, "slapd"), "-d", "0", "-f", conf, "-h", "ldaps://"+d.address))
	world.Until(t, "slapd to listen", func() bool {
		conn, err := net.Dial("tcp", d.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return d
}

// change changes the directory as ldapmodify does.
func (d *directory) change(t *testing.T, ldif string) {
	t.Helper()
	cmd := exec.Command(world.FindProgram(t, "ldapmodify"), "-x", "-H", "ldaps://"+d.address,
		"-D", "cn=root,dc=example,dc=org", "-w", "root-only")
	cmd.Env = append(os.Environ(), "LDAPTLS_CACERT="+filepath.Join(d.dir, "directory-ca.pem"))
	cmd.Stdin = strings.NewReader(ldif)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ldapmodify: %v\n%s", err, out)
	}
}

// behindDex runs Dex and the gateway with the files of the page, whose dex.yaml is given, for a directory at an
// address. Dex finds its files in dir.
func behindDex(t *testing.T, dir, dexYAML, directory string) (d *world.Delegated, address string) {
	t.Helper()
	address = world.FreeAddress(t)
	issuer := "http://" + address
	d = &world.Delegated{Instance: world.Prepare(t), Up: world.Record(t)}
	world.WriteAll(t, dir, map[string]string{"dex.yaml": world.Substituted(t, dexYAML,
		"https://dex.example.org", issuer, "https://app.example.org/.authgate/callback", d.Base+"/callback",
		"127.0.0.1:5556", address,
		"directory.example.org:636", directory, "idTokens: 10m", "idTokens: 4s")})
	dex := exec.Command(builtProvider(t, "dex"), "serve", "dex.yaml")
	dex.Dir = dir
	dex.Env = append(os.Environ(), "DEX_SECRET=s3cret", "DIRECTORY_PASSWORD=read-only")
	world.Launch(t, issuer+"/.well-known/openid-configuration", dex)

	config := world.Substituted(t, world.DocumentedFile(t, directoryPage, "config.yaml"),
		"https://dex.example.org", issuer, "${DEX_SECRET}", "s3cret",
		"http://127.0.0.1:3000", d.Up.URL, "app.example.org/admin/", "/admin-resource", "app.example.org/,", "/,",
		"  - {match: dex.example.org/, upstream: dex, auth: [none]}     # the sign-in page of Dex\n", "",
		"  dex: {url: \"http://127.0.0.1:5556\"}\n", "", "endpoints: {prefix: /.authgate/}\n", "")
	d.Configure(world.WithoutAddresses(config))
	d.Run()
	return d, address
}

// staysOutside: with this name and password, a browser does not get past Dex.
func staysOutside(t *testing.T, d *world.Delegated, what, dex, user, password string) {
	t.Helper()
	b := browse(d.Instance)
	d.Up.All() // what came before
	b.Open(d.Base + "/login?provider=company&return_to=/secure-resource")
	b.Send(map[string]string{"login": user, "password": password})
	if b.URL.Host != dex || len(d.Up.All()) != 0 {
		t.Errorf("%s leads to %s", what, b.Describe())
	}
}

// TestDirectory signs users of a directory in with the three files of docs/how-to/directory.md. What changes in
// the directory applies with the next refresh.
func TestDirectory(t *testing.T) {
	slapd := startDirectory(t)
	d, address := behindDex(t, slapd.dir, world.Substituted(t, world.DocumentedFile(t, directoryPage, "dex.yaml"),
		"{type: sqlite3, config: {file: dex.db}}", "{type: memory}"), slapd.address)
	in := func(user, password string) *browser {
		return signInWith(t, d, "company", map[string]string{"login": user, "password": password})
	}
	bob := in("bob", "builder")
	identifies(t, d, bob, http.StatusForbidden, map[string]string{
		"X-Auth-User": "bob", "X-Auth-Email": "bob@example.org", "X-Auth-Name": "Bob Builder", "X-Auth-Roles": ""})
	alice := in("alice", "wonderland")
	identifies(t, d, alice, http.StatusOK, map[string]string{
		"X-Auth-User": "alice", "X-Auth-Roles": "admins", "X-Auth-Provider": "company"})

	staysOutside(t, d, "a wrong password", address, "alice", "guess")

	session := sessionOf(d, alice)
	slapd.change(t, "dn: cn=admins,ou=groups,dc=example,dc=org\nchangetype: modify\nreplace: member\n"+
		"member: uid=bob,ou=people,dc=example,dc=org\n")
	world.Until(t, "the end of a role", func() bool {
		return d.Status(d.Stranger(), "GET", "/admin-resource", "Cookie", session) == http.StatusForbidden
	})
	slapd.change(t, "dn: uid=alice,ou=people,dc=example,dc=org\nchangetype: delete\n")
	staysOutside(t, d, "a removed account", address, "alice", "wonderland")
}
