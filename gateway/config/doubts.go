package config

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/password"
	"authgate/policy"
)

// This file has the checks of what is valid and probably wrong: they warn.

// warnOfAllAddresses warns about a list of networks at path that leaves out no address
// of the internet. what is what a client can then do.
func (r *report) warnOfAllAddresses(path string, networks []netip.Prefix, what string) {
	for _, all := range [...]struct {
		version string
		public  netip.Prefix
		private []netip.Prefix // what is not on the internet
	}{
		{"IPv4", netip.MustParsePrefix("0.0.0.0/0"), []netip.Prefix{
			netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
			netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"),
			netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
		}},
		{"IPv6", netip.MustParsePrefix("2000::/3"), nil}, // the only part of global unicast addresses
	} {
		if covered(all.public, slices.Concat(networks, all.private)) {
			r.Warn(path, "covers every address of %s on the internet, so any client can %s; give only the addresses of your own proxies", all.version, what)
			return
		}
	}
}

// covered reports whether networks contain every address of a network.
func covered(network netip.Prefix, by []netip.Prefix) bool {
	var inside []netip.Prefix
	for _, p := range by {
		if p.Overlaps(network) {
			if p.Bits() <= network.Bits() {
				return true
			}
			inside = append(inside, p)
		}
	}
	if len(inside) == 0 {
		return false
	}
	low, high := halves(network)
	return covered(low, inside) && covered(high, inside)
}

// halves returns the two networks that make up a network of more than one address.
func halves(network netip.Prefix) (low, high netip.Prefix) {
	bits := network.Bits()
	low = netip.PrefixFrom(network.Addr(), bits+1)
	address := network.Addr().AsSlice()
	address[bits/8] |= 0x80 >> (bits % 8)
	first, _ := netip.AddrFromSlice(address)
	return low, netip.PrefixFrom(first, bits+1)
}

// minKeyCharacters is how many different characters a key has at least. One of 32 random
// digits in base 16 or more has more.
const minKeyCharacters = 8

// warnOfGuessableKey warns about a key that is only long.
func (r *report) warnOfGuessableKey(path string, key Secret) {
	different := map[rune]bool{}
	for _, c := range key.Reveal() {
		different[c] = true
	}
	if n := len(different); n > 0 && n < minKeyCharacters {
		r.Warn(path, "has only %d different characters, so it can be guessed; make a key with `openssl rand -base64 32`", n)
	}
}

// weakHashes counts the users of one list whose hashes are weak.
type weakHashes struct {
	n     int
	first place
	name  string // of the first
	why   string
}

// add adds a user if the hash is weak.
func (w *weakHashes) add(at place, name string, hash password.Hash) {
	why := hash.Weakness()
	if why == "" {
		return
	}
	if w.n++; w.n == 1 {
		w.first, w.name, w.why = at, name, why
	}
}

// warn warns at the first of the users.
func (w *weakHashes) warn() {
	if w.n == 0 {
		return
	}
	others := ""
	if w.n > 1 {
		others = fmt.Sprintf(", and so are %d more", w.n-1)
	}
	w.first.doc.Warn(w.first.path+".password_hash",
		"the hash of %s is weak%s: %s; who gets a copy finds the password soon; make a hash with `authgate hash-password`", w.name, others, w.why)
}

// takenAway finds the conditions of policies that a user of a provider can take away:
// what a provider does not say, or says of an unverified address, meets no condition.
// Under none, that lets the user pass.
type takenAway struct {
	report   *report
	policies map[string]*policy.Spec
	seen     map[seenPolicy]bool
}

type seenPolicy struct {
	name    string
	negated bool
}

// warnOfTakenAway warns about the policies of the routes that users of providers and
// other issuers can open.
func (c *Config) warnOfTakenAway(r *report) {
	t := &takenAway{r, c.Policies, map[seenPolicy]bool{}}
	others := len(c.Providers) > 0 || len(c.Token.TrustedIssuers) > 0
	for i, route := range c.Routes {
		if !slices.Contains(route.Auth, policy.OIDC) && !(others && slices.Contains(route.Auth, policy.Bearer)) {
			continue
		}
		for j, ref := range route.Policy {
			at := fmt.Sprintf("routes[%d].policy", i)
			if len(route.Policy) > 1 {
				at = fmt.Sprintf("%s[%d]", at, j)
			}
			t.ref(at, ref, false)
		}
	}
}

// ref looks at a policy in place, or at a named one once. negated tells that the policy
// refuses whom it matches.
func (t *takenAway) ref(path string, ref policy.Ref, negated bool) {
	if ref.Spec != nil {
		t.spec(path, ref.Spec, negated)
		return
	}
	id := seenPolicy{ref.Name, negated}
	if spec := t.policies[ref.Name]; spec != nil && !t.seen[id] {
		t.seen[id] = true
		t.spec(strictyaml.Join("policies", ref.Name), spec, negated)
	}
}

func (t *takenAway) spec(path string, spec *policy.Spec, negated bool) {
	if negated {
		for _, condition := range []struct {
			key, says string
			given     bool
		}{
			{"email_domains", "gives no address, or one that is not verified", spec.EmailDomains != nil},
			{"claims", "does not give the claim", spec.Claims != nil},
		} {
			if condition.given {
				t.report.Warn(path+"."+condition.key, "is under none, which does not refuse a user whose provider %s; list who may pass instead of who may not", condition.says)
			}
		}
	}
	for _, group := range []struct {
		key     string
		refs    []policy.Ref
		negated bool
	}{{"any", spec.Any, negated}, {"all", spec.All, negated}, {"none", spec.None, !negated}} {
		for i, ref := range group.refs {
			t.ref(fmt.Sprintf("%s.%s[%d]", path, group.key, i), ref, group.negated)
		}
	}
}

// certificatesIn returns the certificates in a PEM file, and leaves out what is none.
func certificatesIn(content []byte) []*x509.Certificate {
	var list []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, certificate)
		}
	}
	return list
}

// outOfDate returns why a certificate is not valid at a time, or "".
func outOfDate(certificate *x509.Certificate, now time.Time) string {
	of := certificate.Subject.String()
	if of == "" {
		of = strings.Join(certificate.DNSNames, ", ")
	}
	switch {
	case now.After(certificate.NotAfter):
		return fmt.Sprintf("the certificate of %q expired at %s", of, certificate.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(certificate.NotBefore):
		return fmt.Sprintf("the certificate of %q is not valid before %s", of, certificate.NotBefore.UTC().Format(time.RFC3339))
	}
	return ""
}

// warnOfDates warns about each certificate of a chain that is not valid now.
func (r *report) warnOfDates(path string, chain []*x509.Certificate, now time.Time) {
	for _, certificate := range chain {
		if why := outOfDate(certificate, now); why != "" {
			r.Warn(path, "%s, so that the other side refuses it; renew it", why)
		}
	}
}

// warnOfAuthorities warns about a file of authorities of which none is valid now.
func (r *report) warnOfAuthorities(path string, authorities []*x509.Certificate, now time.Time) {
	for _, certificate := range authorities {
		if outOfDate(certificate, now) == "" {
			return
		}
	}
	if len(authorities) > 0 {
		r.Warn(path, "no certificate in the file is valid: %s; get the present one", outOfDate(authorities[0], now))
	}
}

// warnOfUncovered warns about hosts of the gateway that its certificate does not cover.
func (r *report) warnOfUncovered(path string, chain []*x509.Certificate, hosts []string) {
	if len(chain) == 0 {
		return
	}
	leaf := chain[0]
	missing := slices.DeleteFunc(hosts, func(host string) bool {
		if strings.HasPrefix(host, "*.") {
			return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, host) })
		}
		return leaf.VerifyHostname(host) == nil
	})
	if len(missing) > 0 {
		r.Warn(path, "the certificate does not cover %s, so that browsers refuse it there; get one for all hosts of the gateway", strings.Join(missing, ", "))
	}
}
