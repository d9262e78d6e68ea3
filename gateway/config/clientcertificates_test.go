package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/certtest"
	"authgate/internal/test/must"
)

// clientSource is a configuration that accepts certificates of clients, with what follows
// client_ca.
func clientSource(more string) string {
	return `
tls: {client_ca: ca.pem` + more + `}
certificates: {username: san_uri}
accounts: {users: [{username: "urn:alice", password_hash: "` + environment["HASH"] + `"}]}
upstreams: {app: {url: "http://127.0.0.1:9000"}}
routes: [{match: /, upstream: app, auth: [certificate]}]
`
}

// A list that no client CA has signed is an error. A stale one is a warning, and so are authorities
// without a route.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t, "clients", time.Now()), t.TempDir()
	write := func(name, content string) { must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)) }
	path := filepath.Join(dir, "c.yaml")
	write("ca.pem", certtest.PEM(ca))
	write("fresh.pem", certtest.ListPEM(ca.List(time.Hour)))
	write("stale.pem", certtest.ListPEM(ca.List(-time.Hour)))
	write("other.pem", certtest.ListPEM(certtest.New(t, "clients", time.Now()).List(time.Hour)))
	for _, c := range []struct{ more, want string }{
		{"", ""}, {", crl: fresh.pem", ""}, {", crl: stale.pem", "tls.crl: the list of \"CN=clients\" is stale since"},
	} {
		got := warnings(t, path, strings.ReplaceAll(clientSource(c.more), "2a$05", "2a$12"))
		if c.want == "" && strings.Contains(got, "tls.") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.more, got, c.want)
		}
	}
	_, err := parse(path, []byte(clientSource(", crl: other.pem")), lookup)
	if err == nil || !strings.Contains(err.Error(), "no certificate of tls.client_ca has signed it") {
		t.Errorf("a list of another authority: %v", err)
	}
	write("empty.pem", "")
	_, err = parse(path, []byte(strings.ReplaceAll(clientSource(""), "ca.pem", "empty.pem")), lookup)
	if err == nil || !strings.Contains(err.Error(), "empty.pem is no list of certificates in PEM") {
		t.Errorf("an empty file of authorities: %v", err)
	}
	got := warnings(t, path, strings.ReplaceAll(clientSource(""), "auth: [certificate]", "auth: [session]"))
	if !strings.Contains(got, "tls.client_ca: no route accepts certificates") {
		t.Errorf("without a route: %q", got)
	}
	cfg := must.Get(parse(path, []byte(clientSource(", crl: fresh.pem")), lookup))(t)
	if files := strings.Join(cfg.SideFiles(), " "); !strings.Contains(files, "ca.pem") ||
		!strings.Contains(files, "fresh.pem") {
		t.Errorf("a change of %s is noticed", files)
	}
}

// The authority of the gateway's own has signed the list, once it is there.
func TestListOfLocalAuthority(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t, "clients", time.Now()), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "list.pem"), []byte(certtest.ListPEM(ca.List(time.Hour))), 0o600))
	source := []byte("data_dir: .\n" + strings.ReplaceAll(clientSource(", crl: list.pem"), "ca.pem", "local"))
	if _, err := parse(filepath.Join(dir, "c.yaml"), source, lookup); err == nil {
		t.Error("a list without its authority is accepted")
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "clients-ca.pem"), []byte(certtest.PEM(ca)), 0o600))
	if _, err := parse(filepath.Join(dir, "c.yaml"), source, lookup); err != nil {
		t.Error(err)
	}
}

// What issues certificates reads its keys alone.
func TestClientIssuerOf(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	for source, want := range map[string]string{
		"data_dir: state\ncertificates: {username: cn}\nroutes: wrong\n": "",
		"data_dir: state\n":                `"" does not say`,
		"certificates: {username: dn}\n":   `"dn" does not say`,
		"certificates: {username: [cn]}\n": "certificates.username",
	} {
		must.Do(t, os.WriteFile(path, []byte(source), 0o600))
		issuer, err := ClientIssuerOf(path)
		switch {
		case want == "" && (err != nil || issuer.Username != "cn" ||
			issuer.DataDir != filepath.Join(filepath.Dir(path), "state")):
			t.Errorf("%q: %+v, %v", source, issuer, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %+v, %v", source, issuer, err)
		}
	}
}
