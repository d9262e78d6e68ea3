package clientcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/certtest"
	"authgate/internal/test/clocktest"
	"authgate/policy"
)

// Only a certificate proves an identity that is valid now, for clients, on a whole path to a
// client CA, and that names exactly one account.
func TestVerify(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice, other := certtest.Named("alice"), certtest.New(t, "root", start)
	between := d.ca.Intermediate("between")
	expired := func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Second) }
	early := func(c *x509.Certificate) { c.NotBefore = start.Add(time.Hour) }
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	anyUse := func(c *x509.Certificate) { c.ExtKeyUsage = nil }
	anyKeyUse := func(c *x509.Certificate) { c.KeyUsage = 0 }
	encrypts := func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement }
	broken := between.Client(alice)
	broken.Certificate = broken.Certificate[:1]
	long := d.ca.Client(alice)
	for range 10 {
		long.Certificate = append(long.Certificate, d.ca.Certificate.Raw)
	}
	byLeaf := d.ca.Client(alice)
	byLeaf.Certificate[0] = other.Client(alice).Certificate[0]
	for _, c := range []struct {
		name   string
		issued tls.Certificate
		want   string
	}{
		{"valid", d.ca.Client(alice), ""},
		{"by an intermediate", between.Client(alice), ""},
		{"without a usage", d.ca.Client(alice, anyUse), ""},
		{"without a usage of its key", d.ca.Client(alice, anyKeyUse), ""},
		{"with a key for encryption", d.ca.Client(alice, encrypts), "for signatures"},
		{"another CA of the same name", other.Client(alice), "no certificate of tls.client_ca"},
		{"the leaf of another CA", byLeaf, "no certificate of tls.client_ca"},
		{"without its intermediate", broken, "one between them is missing"},
		{"expired", d.ca.Client(alice, expired), "not valid at this time"},
		{"not yet valid", d.ca.Client(alice, early), "not valid at this time"},
		{"for servers", d.ca.Client(alice, server), "for the authentication of clients"},
		{"too long", long, "11 certificates"},
		{"a stranger", d.ca.Client(certtest.Named("mallory")), `names "mallory"`},
		{"without a name", d.ca.Client(certtest.Email("alice")), "no name of the kind cn"},
		{"an empty name", d.ca.Client(certtest.Named("")), "no name of the kind cn"},
		{"two names", d.ca.Client(certtest.Named("alice", "bob")), "several names of the kind cn"},
		{"one name twice", d.ca.Client(certtest.Named("alice", "alice")), "several names of the kind cn"},
	} {
		d.want(c.name, c.issued, c.want)
	}
}

// A name is compared as its bytes are in the certificate.
func TestNames(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "root", start)
	dns := func(c *x509.Certificate) { c.DNSNames = []string{"alice.example"} }
	email, uri := certtest.Email("alice@example.org"), certtest.URI("urn:x:alice%41")
	leaf := ca.Client(certtest.Named("al"), email, uri, dns).Leaf
	for kind, want := range map[string]string{
		CommonName: "al", Email: "alice@example.org", URI: "urn:x:alice%41", DNS: "alice.example",
	} {
		if got, err := nameOf(leaf, kind); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", kind, got, err, want)
		}
	}
	two := ca.Client(certtest.Email("alice@example.org", "bob@example.org")).Leaf
	for kind, want := range map[string]string{Email: "several", URI: "no name", "unknown": "no name"} {
		if got, err := nameOf(two, kind); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
	}
}

// A list revokes what its authority has issued, with all that a revoked intermediate has signed,
// also when it is stale, and also if the intermediate itself is trusted.
func TestRevocation(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice := certtest.Named("alice")
	between := d.ca.Intermediate("between")
	gone, stays, below := d.ca.Client(alice), d.ca.Client(alice), between.Client(alice)
	d.revoke(d.ca.List(time.Hour, gone.Leaf))
	d.want("revoked", gone, "tls.crl revokes")
	d.want("another one", stays, "")
	d.want("below an intermediate", below, "")
	d.revoke(d.ca.List(-time.Hour, gone.Leaf), d.ca.List(time.Hour, between.Certificate))
	d.want("revoked by a stale list", gone, "tls.crl revokes")
	d.want("below a revoked intermediate", below, "tls.crl revokes")
	d.options.Authorities = append(d.options.Authorities, between.Certificate)
	d.revoke(d.ca.List(time.Hour, between.Certificate))
	d.want("the revoked intermediate is trusted itself", below, "tls.crl revokes")
	d.revoke(between.List(time.Hour, below.Leaf))
	d.want("revoked by its intermediate", below, "tls.crl revokes")

	same := certtest.New(t, "root", start)
	d.options.Authorities = []*x509.Certificate{d.ca.Certificate, same.Certificate}
	serial := func(c *x509.Certificate) { c.SerialNumber = gone.Leaf.SerialNumber }
	d.revoke(d.ca.List(time.Hour, gone.Leaf))
	d.want("the same number, of another authority of the name", same.Client(alice, serial), "")
}

func TestReadLists(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	good := d.ca.List(time.Hour)
	other := certtest.New(t, "root", start).List(time.Hour)
	for _, c := range []struct {
		name, content string
		lists         int
		want          string
	}{
		{"DER", string(good), 1, ""},
		{"PEM", certtest.ListPEM(good, good), 2, ""},
		{"of another authority", string(other), 0, "no certificate of tls.client_ca has signed it"},
		{"one of another authority", certtest.ListPEM(good, other), 0, "list 2: no certificate of tls.client_ca"},
		{"a certificate", certtest.PEM(d.ca), 0, "no X509 CRL"},
		{"two in DER", string(good) + string(good), 0, "list 1: "},
		{"two that nothing separates", strings.ReplaceAll(certtest.ListPEM(good, good), "\n-----BEGIN", "-----BEGIN") +
			certtest.ListPEM(good), 0, "3 times X509 CRL"},
		{"one that is cut off", certtest.ListPEM(good) + certtest.ListPEM(good)[:200], 0, "2 times X509 CRL"},
		{"one that is damaged", certtest.ListPEM(good) + strings.Replace(certtest.ListPEM(good), "M", "?", 1), 0,
			"2 times X509 CRL"},
		{"of other authorities' certificates", string(d.ca.IndirectList(d.ca.Client().Leaf)), 0,
			"names another issuer"},
		{"text", "hello", 0, "list 1: "},
		{"nothing", "", 0, "list 1: "},
	} {
		lists, err := ReadLists([]byte(c.content), d.options.Authorities)
		if len(lists) != c.lists || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d lists, %v", c.name, len(lists), err)
		}
	}
}

// Authorities are read whole or not at all.
func TestReadAuthorities(t *testing.T) {
	t.Parallel()
	good := certtest.PEM(certtest.New(t, "root", start))
	for _, c := range []struct {
		name, content string
		certificates  int
		want          string
	}{
		{"two with a text between them", good + "# the next one\n" + good, 2, ""},
		{"two that nothing separates", good + strings.TrimSpace(good) + good, 0, "3 times CERTIFICATE"},
		{"one that is cut off", good + good[:200], 0, "2 times CERTIFICATE"},
		{"a list", certtest.ListPEM([]byte("list")), 0, "no CERTIFICATE"},
		{"what is none", strings.ReplaceAll(certtest.ListPEM([]byte("list")), "X509 CRL", "CERTIFICATE"), 0,
			"certificate 1: "},
	} {
		certificates, err := ReadAuthorities([]byte(c.content))
		if len(certificates) != c.certificates || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d certificates, %v", c.name, len(certificates), err)
		}
	}
}

// A list that becomes stale while the gateway runs is told once.
func TestStaleList(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.revoke(d.ca.List(time.Hour))
	var log bytes.Buffer
	d.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	v := NewVerifier(d.options)
	look := func() {
		d.wantOf("", &Presented{chain: certtest.Chain(t, d.ca.Client(certtest.Named("alice")))}, v, "")
	}
	if look(); log.Len() > 0 {
		t.Errorf("of a fresh list: %s", &log)
	}
	d.clock.Advance(2 * time.Hour)
	look()
	look()
	if n := strings.Count(log.String(), "is stale"); n != 1 {
		t.Errorf("told %d times: %s", n, &log)
	}
}

// A connection costs one verification, and one more after a reload and at the end of validity.
func TestVerifyOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ends := func(c *x509.Certificate) { c.NotAfter = start.Add(time.Minute) }
	p := &Presented{chain: certtest.Chain(t, d.ca.Client(certtest.Named("alice"), ends))}
	v := NewVerifier(d.options)
	for range 3 {
		d.wantOf("valid", p, v, "")
	}
	if d.verified != 1 {
		t.Errorf("verified %d times", d.verified)
	}
	d.wantOf("after a reload", p, NewVerifier(d.options), "")
	if d.verified != 2 {
		t.Errorf("verified %d times, with a reload", d.verified)
	}
	d.clock.Advance(time.Minute)
	d.wantOf("to its last second", p, v, "")
	d.clock.Advance(time.Second)
	d.wantOf("after its end", p, v, "not valid at this time")

	early := &Presented{chain: certtest.Chain(t, d.ca.Client(certtest.Named("alice"), func(c *x509.Certificate) {
		c.NotBefore = d.clock.Now().Add(time.Minute).UTC()
	}))}
	d.wantOf("before its time", early, v, "not valid at this time")
	d.clock.Advance(2 * time.Minute)
	d.wantOf("at its time", early, v, "")
}

// Requests of one connection share what was found out about its certificate.
func TestOfConnection(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := &http.Request{}
	if OfConnection(r) != nil {
		t.Error("plain HTTP has a certificate")
	}
	r.TLS = &tls.ConnectionState{}
	if OfConnection(r) != nil {
		t.Error("a connection without a certificate has one")
	}
	r.TLS.PeerCertificates = certtest.Chain(t, d.ca.Client(certtest.Named("alice")))
	r = r.WithContext(Context(t.Context()))
	if first := OfConnection(r); first == nil || first != OfConnection(r.Clone(r.Context())) {
		t.Error("two requests do not share it")
	}
}

// What a proxy describes is read by RFC 9440, and remembered.
func TestProxied(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p, v := NewProxied(), NewVerifier(d.options)
	below := certtest.Fields(d.ca.Intermediate("between").Client(certtest.Named("alice")))
	leaf := certtest.Fields(d.ca.Client(certtest.Named("alice")))[0]
	for _, c := range []struct {
		name  string
		lines []string
		want  string // "-": there is none
	}{
		{"a leaf", []string{leaf}, ""},
		{"a chain", below, ""},
		{"with parameters", []string{leaf + ";a=1"}, ""},
		{"with an empty chain", []string{leaf, "Client-Cert-Chain: "}, ""},
		{"with an empty line", []string{"Client-Cert: ", leaf}, ""},
		{"nothing", nil, "-"},
		{"empty", []string{"Client-Cert: "}, "-"},
		{"an empty sequence", []string{"Client-Cert: ::"}, "-"},
		{"a chain alone", below[1:], "-"},
		{"without its chain", below[:1], "one between them is missing"},
		{"PEM", []string{"Client-Cert: -----BEGIN CERTIFICATE-----"}, "not one byte sequence"},
		{"a string", []string{`Client-Cert: "alice"`}, "not made of byte sequences"},
		{"a list", []string{leaf + ", :AAAA:"}, "not one byte sequence"},
		{"no certificate", []string{"Client-Cert: :AAAA:"}, "no certificate in DER (RFC 9440): certificate 1"},
		{"a broken chain", []string{leaf, "Client-Cert-Chain: :AAAA:"},
			"no certificate in DER (RFC 9440): certificate 2"},
		{"a chain of names", []string{leaf, "Client-Cert-Chain: (a b)"}, "not made of byte sequences"},
		{"no list", []string{leaf, "Client-Cert-Chain: :"}, "not a list"},
		{"a long chain", []string{leaf, "Client-Cert-Chain: " + strings.Repeat(":AAAA:, ", 10) + ":AAAA:"},
			"11 certificates"},
	} {
		presented, err := p.Read(header(c.lines...))
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "-" || presented == nil:
			if presented != nil || c.want != "-" {
				t.Errorf("%s: %+v, want %q", c.name, presented, c.want)
			}
		default:
			d.wantOf(c.name, presented, v, c.want)
		}
	}
	if _, err := p.Read(header(leaf, leaf)); err != errTwice {
		t.Errorf("two certificates: %v", err)
	}
	d.verified = 0
	again, _ := p.Read(header(leaf))
	if d.wantOf("again", again, v, ""); d.verified != 0 {
		t.Error("a known certificate is verified again")
	}
	large := func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Value: make([]byte, longest)}}
	}
	big := d.ca.Client(certtest.Named("alice"), large)
	for range 2 { // such headers, each with another certificate, would fill the memory
		presented, _ := p.Read(header(certtest.Fields(big)...))
		d.wantOf("a large certificate", presented, v, "")
	}
	if d.verified != 2 {
		t.Errorf("a large certificate is verified %d times, and so it is remembered", d.verified)
	}
}

// A certificate is looked at again when its user, or a role of the user, ends.
func TestUserEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	users := clocktest.At(start.Add(time.Hour)) // another clock
	found := []*policy.Identity{
		{Username: "alice", Roles: []string{"a"}, Ends: policy.Ends{
			Roles: map[string]time.Time{"a": users.Now().Add(time.Minute)},
		}},
		{Username: "alice"}, nil,
	}
	d.options.UserNow = users.Now
	d.options.Identify = func(string) *policy.Identity { d.verified++; return found[d.verified-1] }
	v, p := NewVerifier(d.options), &Presented{chain: certtest.Chain(t, d.ca.Client(certtest.Named("alice")))}
	for _, step := range []struct {
		passes time.Duration
		looks  int
	}{{0, 1}, {time.Minute - 1, 1}, {1, 2}, {time.Hour, 2}} {
		users.Advance(step.passes)
		if id, err := p.Identity(v); err != nil || d.verified != step.looks || id != found[d.verified-1] {
			t.Errorf("after %v: %+v, %v, after %d looks", step.passes, id, err, d.verified)
		}
	}
}
