package clientcert

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/certtest"
	"authgate/internal/test/clocktest"
	"authgate/policy"
)

// start is when the tests begin.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// desk verifies certificates that name alice by a common name.
type desk struct {
	t        *testing.T
	clock    *clocktest.Clock
	ca       *certtest.CA
	options  Options
	verified int // how often a user was looked up
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, clock: clocktest.At(start), ca: certtest.New(t, "root", start)}
	d.options = Options{
		Authorities: []*x509.Certificate{d.ca.Certificate}, Username: CommonName, Now: d.clock.Now,
		Identify: func(username string) *policy.Identity {
			d.verified++
			if username != "alice" {
				return nil
			}
			return &policy.Identity{Username: username}
		},
	}
	return d
}

// revoke makes lists revoke certificates.
func (d *desk) revoke(lists ...[]byte) {
	d.t.Helper()
	var err error
	if d.options.Lists, err = ReadLists([]byte(certtest.ListPEM(lists...)), d.options.Authorities); err != nil {
		d.t.Fatal(err)
	}
}

// want checks what a certificate proves: "" is alice, everything else a part of the error.
func (d *desk) want(name string, issued tls.Certificate, want string) {
	d.t.Helper()
	d.wantOf(name, &Presented{chain: certtest.Chain(d.t, issued)}, NewVerifier(d.options), want)
}

func (d *desk) wantOf(name string, p *Presented, v *Verifier, want string) {
	d.t.Helper()
	id, err := p.Identity(v)
	switch {
	case want == "" && (err != nil || id == nil || id.Username != "alice"):
		d.t.Errorf("%s: %+v, %v", name, id, err)
	case want != "" && (err == nil || id != nil || !strings.Contains(err.Error(), want)):
		d.t.Errorf("%s: %+v, %v, want %q", name, id, err, want)
	}
}

// header returns the header with lines.
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}
