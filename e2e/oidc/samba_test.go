//go:build interop

package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/goccy/go-yaml"
)

// sambaAddress is the loopback address at which Samba serves LDAP. Its ports are fixed, so no other test has it.
const sambaAddress = "127.77.0.5"

// sambaConfig is added to the configuration of a domain controller, which then serves LDAP alone.
const sambaConfig = `
[global]
	server services = ldap
	interfaces = ` + sambaAddress + `/8
	bind interfaces only = yes
	log file = DIR/log
	pid directory = DIR/run
	ncalrpc dir = DIR/ncalrpc
	panic action =
	tls certfile = DIR/directory-ca.pem
	tls keyfile = DIR/key.pem
	tls cafile = DIR/directory-ca.pem
`

// samba is a running domain controller of an Active Directory.
type samba struct{ dir, conf string }

// startSamba makes a domain with the people and groups of the page, and a user whose account is disabled. Alice is
// in admins by another group.
func startSamba(t *testing.T) *samba {
	t.Helper()
	dir := t.TempDir()
	s := &samba{dir, filepath.Join(dir, "ad/etc/smb.conf")}
	if os.Geteuid() != 0 {
		t.Skip("only root can listen at the ports of LDAP")
	}
	s.tool(t, "domain", "provision", "--realm=EXAMPLE.ORG", "--domain=EXAMPLE", "--server-role=dc", "--dns-backend=NONE",
		"--adminpass=Only-4-this-test", "--targetdir="+filepath.Join(dir, "ad"),
		"--option=posix:eadb="+filepath.Join(dir, "eadb.tdb"))
	key := world.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	certificate, private := world.SelfSigned(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.ParseIP(sambaAddress)},
	}, key)
	world.WriteAll(t, dir, map[string]string{"directory-ca.pem": certificate, "key.pem": private})
	config := world.ReadFile(t, s.conf) + strings.ReplaceAll(sambaConfig, "DIR", dir)
	world.NoError(t, os.WriteFile(s.conf, []byte(config), 0o600))
	for _, folder := range []string{"run", "ncalrpc"} {
		world.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	s.tool(t, "domain", "passwordsettings", "set", "--complexity=off", "--min-pwd-length=4", "-s", s.conf)
	s.change(t, "ou create OU=people", "ou create OU=groups",
		"user create alice wonderland --userou=OU=people --mail-address=alice@example.org --given-name=Alice "+
			"--surname=Archer",
		"user create bob builder --userou=OU=people --mail-address=bob@example.org --given-name=Bob --surname=Builder",
		"user create carol carol-left --userou=OU=people --mail-address=carol@example.org", "user disable carol",
		"user create reader read-only", "group add admins --groupou=OU=groups", "group add owners --groupou=OU=groups",
		"group addmembers admins owners", "group addmembers owners alice")
	log := &world.Output{}
	cmd := exec.Command(world.FindProgram(t, "samba"), "--foreground", "--no-process-group", "--model=single",
		"--debug-stdout", "-s", s.conf)
	cmd.Stdout, cmd.Stderr = log, log
	world.Spawn(t, cmd)
	world.Eventually(t, world.Patience, "samba", func() error {
		conn, err := net.Dial("tcp", sambaAddress+":636")
		if err != nil {
			return fmt.Errorf("%w: %s", err, log)
		}
		return conn.Close()
	})
	return s
}

// tool runs samba-tool.
func (s *samba) tool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(world.FindProgram(t, "samba-tool"), args...).CombinedOutput(); err != nil {
		t.Fatalf("samba-tool %q: %v\n%s", args, err, out)
	}
}

// change runs commands of samba-tool on the directory.
func (s *samba) change(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		s.tool(t, append(strings.Fields(command), "-s", s.conf)...)
	}
}

// activeDirectory returns the file dex.yaml of the page with the keys of its table for Active Directory.
func activeDirectory(t *testing.T) string {
	t.Helper()
	whole := world.DecodeYAML(t, world.DocumentedFile(t, directoryPage, "dex.yaml"))
	whole["storage"] = map[string]any{"type": "memory"}
	connector := whole["connectors"].([]any)[0].(map[string]any)["config"].(map[string]any)
	code, rows := regexp.MustCompile("`([^`]+)`"), 0
	for line := range strings.SplitSeq(world.ReadFile(t, world.Path(directoryPage)), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		var value any
		world.NoError(t, yaml.Unmarshal([]byte(code.FindStringSubmatch(cells[1])[1]), &value))
		section := ""
		for _, key := range code.FindAllStringSubmatch(cells[0], -1) {
			name := key[1]
			if before, after, nested := strings.Cut(name, "."); nested {
				section, name = before, after
			}
			to := connector
			if section != "" {
				to = connector[section].(map[string]any)
			}
			to[name] = value
		}
	}
	if rows < 6 {
		t.Fatalf("the table of %s has %d rows", directoryPage, rows)
	}
	return string(world.Must(yaml.Marshal(whole))(t))
}

// TestActiveDirectory signs users of an Active Directory in with the files of docs/how-to/directory.md and its table.
func TestActiveDirectory(t *testing.T) {
	ad := startSamba(t)
	d, address := behindDex(t, ad.dir, activeDirectory(t), sambaAddress+":636")
	bob := signInWith(t, d, "company", map[string]string{"login": "bob", "password": "builder"})
	identifies(t, d, bob, http.StatusForbidden, map[string]string{
		"X-Auth-User": "bob", "X-Auth-Email": "bob@example.org", "X-Auth-Name": "Bob Builder", "X-Auth-Roles": ""})
	alice := signInWith(t, d, "company", map[string]string{"login": "alice", "password": "wonderland"})
	identifies(t, d, alice, http.StatusOK, map[string]string{"X-Auth-User": "alice", "X-Auth-Provider": "company"})
	staysOutside(t, d, "a wrong password", address, "alice", "guess")
	staysOutside(t, d, "a disabled account", address, "carol", "carol-left")

	session := sessionOf(d, alice)
	ad.change(t, "group removemembers owners alice")
	world.Until(t, "the end of a role", func() bool {
		return d.Status(d.Stranger(), "GET", "/admin-resource", "Cookie", session) == http.StatusForbidden
	})
	ad.change(t, "user delete alice")
	staysOutside(t, d, "a removed account", address, "alice", "wonderland")
}
