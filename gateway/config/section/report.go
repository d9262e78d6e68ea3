package section

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Report is the main file, at whose keys the checks report mistakes. Its methods
// are the checks that several sections need.
type Report struct{ *strictyaml.Document }

// PolicyErrors reports the errors of package policy.
func (r *Report) PolicyErrors(err error) {
	if found, ok := errors.AsType[policy.Errors](err); ok {
		for _, one := range found {
			r.Fault(one.Path, "%s", one.Msg)
		}
	}
}

// CheckKey checks a symmetric key. The gateway generates a key that is not given.
func CheckKey(d *strictyaml.Document, path, key string) {
	if n := len(key); n > 0 && n < sha256.Size {
		d.Fault(path,
			"has %d bytes; at least %d are needed, for example from `openssl rand -base64 32`", n, sha256.Size)
	}
	(&Report{d}).WarnOfGuessableKey(path, strictyaml.Secret(key))
}

// minKeyCharacters is how many different characters a key has at least. One of 32 random
// digits in base 16 or more has more.
const minKeyCharacters = 8

// WarnOfGuessableKey warns about a key that is only long.
func (r *Report) WarnOfGuessableKey(path string, key strictyaml.Secret) {
	different := map[rune]bool{}
	for _, c := range key.Reveal() {
		different[c] = true
	}
	if n := len(different); n > 0 && n < minKeyCharacters {
		r.Warn(path, "has only %d different characters, so it can be guessed; "+
			"make a key with `openssl rand -base64 32`", n)
	}
}

// ClientID checks the identifier of the gateway as a client.
func (r *Report) ClientID(path, id, assigns string) {
	if id == "" {
		r.Fault(path, "the client identifier is needed, which %s assigns", assigns)
	} else if err := policy.CheckName(id); err != nil {
		r.Fault(path, "the client identifier %v", err)
	}
}

// issuerOfDocument returns the issuer of an address of a document about one (OpenID Connect Discovery
// 1.0, section 4; RFC 8414, section 3). ok tells that it is such an address.
func issuerOfDocument(address string) (issuer string, ok bool) {
	before, document, found := strings.Cut(address, "/.well-known/")
	name, below, _ := strings.Cut(document, "/")
	if !found || name != "openid-configuration" && name != "oauth-authorization-server" {
		return "", false
	}
	return strings.TrimSuffix(before+"/"+below, "/"), true
}

// bracePlaceholder matches a placeholder that a provider's manual has in a URL. No URL has braces.
var bracePlaceholder = regexp.MustCompile(`\{[^{}/]*\}`)

// checkProviderURL checks a URL, if one is given, to which the gateway or a browser
// sends credentials. parse is HTTPURL or EndpointURL.
func checkProviderURL(parse func(string) (*url.URL, error)) func(raw string) error {
	return func(raw string) error {
		u, err := parse(raw)
		if err != nil {
			return err
		} else if issuer, is := issuerOfDocument(raw); is {
			return fmt.Errorf("%q is the address of a document, which the gateway finds by the issuer; "+
				"write issuer: %s", raw, issuer)
		} else if placeholder := bracePlaceholder.FindString(raw); placeholder != "" {
			return fmt.Errorf("%q has a placeholder; write what is meant in the place of %s", raw, placeholder)
		} else if u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
			return fmt.Errorf("%q is not https; http is for providers on this machine only", raw)
		}
		return nil
	}
}
