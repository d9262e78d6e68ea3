package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/headername"
	"authgate/gateway/wire/jose"
)

// Algorithms that sign access tokens (RFC 7518, section 3.1).
const (
	AlgorithmHS256 = "HS256"
	AlgorithmRS256 = "RS256"
)

// Ways to deliver tokens to the client.
const (
	DeliveryBody   = "body"   // in the JSON of the response
	DeliveryCookie = "cookie" // in the cookies CookieAccess and CookieRefresh
)

// Traits of a device to which refresh tokens can be bound.
const (
	BindUserAgent = "user_agent"
	BindIP        = "ip"
)

// token configures the mechanism bearer.
type token struct {
	Algorithm       string        `yaml:"algorithm" default:"HS256" words:"HS256 RS256"` // HS256 or RS256
	Secret          Secret        `yaml:"secret"`
	PrivateKey      string        `yaml:"private_key" file:"secret"`
	Issuer          string        `yaml:"issuer" check:"issuer"`
	Audience        []string      `yaml:"audience" default:"authgate" check:"audience"`
	AccessLifetime  time.Duration `yaml:"access_lifetime" default:"15m" min:"1s"`
	RefreshLifetime time.Duration `yaml:"refresh_lifetime" default:"168h" min:"1s" max:"720h"`
	ReuseLeeway     time.Duration `yaml:"reuse_leeway" default:"10s"`
	Delivery        string        `yaml:"delivery" default:"body" words:"body cookie"` // body or cookie
	BindRefresh     []string      `yaml:"bind_refresh" words:"user_agent ip"`          // any of user_agent, ip
	Header          string        `yaml:"header"`

	TrustedIssuers []issuers.TrustedIssuer `yaml:"trusted_issuers"`
}

// Why returns why keys of the section have the bounds that they have.
func (token) Why() map[string]string {
	return map[string]string{"refresh_lifetime": " (30 days); 168h (7 days) to 720h are recommended"}
}

// minRSABits is how long a key is that signs.
const minRSABits = 2048

// checkToken checks everything except the trusted issuers.
func (t *token) checkToken(r *section.Report, publishes bool) {
	t.checkKeys(r, publishes)
	if strings.ContainsFunc(t.Issuer, unicode.IsControl) || strings.TrimSpace(t.Issuer) != t.Issuer {
		r.Fault("token.issuer", "%q begins or ends with a space, or contains a control character", t.Issuer)
	}
	if len(t.Audience) == 0 {
		r.Fault("token.audience", "must not be empty; every token names its audience")
	}
	for i, trait := range t.BindRefresh {
		path := fmt.Sprintf("token.bind_refresh[%d]", i)
		if slices.Contains(t.BindRefresh[:i], trait) {
			r.Fault(path, "%q is listed twice", trait)
		}
	}
	if t.RefreshLifetime > 0 && t.AccessLifetime >= t.RefreshLifetime {
		r.Fault("token.access_lifetime", "must be shorter than token.refresh_lifetime (%v)", t.RefreshLifetime)
	}
}

// tokenHeader checks the header that may hold a token.
func (k *checker) tokenHeader() {
	c, r := k.cfg, k.report
	name, path := c.Token.Header, "token.header"
	if name == "" {
		return
	}
	folded := headername.Fold(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		r.Fault(path, "%q is not the name of a header; use letters, digits and -", name)
	case forwarding.HasMeaning(folded) || headername.Of(folded) != headername.Free,
		slices.Contains(ownHeaders, folded):
		r.Fault(path, "%q has another meaning and cannot contain a token; choose a name like X-Authgate-Token", name)
	case c.IdentityHeaders.Has(folded):
		r.Fault(path, "%q is one of the identity headers; choose another name", name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[name]
		if u.Assertion != nil && headername.Fold(u.Assertion.Header) == folded ||
			u.IdentityHeaders != nil && !c.IdentityHeaders.Has(folded) && u.IdentityHeaders.Has(folded) {
			r.Fault(path, "%q is a header with the identity for the upstream %s; choose another name", c.Token.Header,
				name)
		}
	}
}

// ownHeaders are the folded names of headers that the gateway reads or sends itself.
var ownHeaders = []string{"X-Csrf-Token", "Authgate-Sign-In"}

// checkKeys checks the keys that sign tokens, except the content of a file. It refuses a key that the algorithm
// does not use, which would only look as if it had an effect. What others verify needs an RSA key with each algorithm.
func (t *token) checkKeys(r *section.Report, publishes bool) {
	switch t.Algorithm {
	case AlgorithmHS256:
		section.CheckKey(r.Document, "token.secret", t.Secret.Reveal())
		if t.PrivateKey != "" && !publishes {
			r.Fault("token.private_key", "has no effect with token.algorithm HS256, without oauth.enabled "+
				"and without an assertion of an upstream; set algorithm: RS256, or remove this key")
		}
	case AlgorithmRS256:
		if t.Secret != "" {
			r.Fault("token.secret",
				"has no effect with token.algorithm RS256; set algorithm: HS256, or remove this key")
		}
	}
}

// signingKey reads the key that signs tokens, or what others verify alone, and checks it.
func (s sideReader) signingKey(t token, publishes bool) {
	if t.Algorithm != AlgorithmRS256 && !publishes || t.PrivateKey == "" {
		return
	}
	if _, err := os.Stat(t.PrivateKey); err != nil && s.Reader.Placeholders {
		return // as other secrets that are not there
	}
	if content, ok := s.Read("token.private_key", t.PrivateKey, strictyaml.MaxSecret); ok {
		if err := checkRSA(t.PrivateKey, content); err != nil {
			s.Main.Fault("token.private_key", "%v", err)
		}
	}
}

// checkRSA checks the content of a PEM file with an RSA key (PKCS #1 or PKCS #8).
func checkRSA(path string, content []byte) error {
	key, err := jose.ParseRSA(content)
	if err != nil {
		return fmt.Errorf("%s contains no RSA private key in PEM (PKCS #1 or PKCS #8)", path)
	}
	if bits := key.N.BitLen(); bits < minRSABits {
		return fmt.Errorf("the key in %s has %d bits; at least %d are needed", path, bits, minRSABits)
	}
	return nil
}
