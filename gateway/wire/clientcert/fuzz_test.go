package clientcert

import (
	"testing"

	"authgate/internal/test/certtest"
)

// FuzzProxied: whatever a proxy sends, it is nothing, an error for operators, or a certificate whose
// identity is that of its own name.
func FuzzProxied(f *testing.F) {
	for _, seed := range [][2]string{{"", ""}, {"::", ":AAAA:"}, {":AAAA:", "(a b), :AAAA:"}, {":AAAA:;a=1", `"x"`},
		{"?1", "a=1"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, leaf, chain string) {
		d := newDesk(t)
		p, v := NewProxied(), NewVerifier(d.options)
		h := header(Header+": "+leaf, ChainHeader+": "+chain)
		presented, err := p.Read(h)
		if err != nil || presented == nil {
			return
		}
		if id, err := presented.Identity(v); id != nil || err == nil {
			t.Errorf("%q proves %+v", leaf, id)
		}
		own := certtest.Fields(d.ca.Client(certtest.Named("alice")))
		h = header(own[0], ChainHeader+": "+chain)
		if presented, err = p.Read(h); err != nil || presented == nil {
			t.Fatalf("%v", err)
		}
		if id, err := presented.Identity(v); err == nil && id.Username != "alice" {
			t.Errorf("with the chain %q it is %+v", chain, id)
		}
	})
}

// FuzzReadLists: a file that no authority has signed is never a list.
func FuzzReadLists(f *testing.F) {
	f.Add([]byte("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"))
	f.Add([]byte{0x30, 0x03, 0x02, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, content []byte) {
		if lists, err := ReadLists(content, nil); err == nil {
			t.Errorf("%d lists", len(lists))
		}
	})
}
