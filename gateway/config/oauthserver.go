package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// oauth checks the section oauth, and compiles the policies of clients.
func (k *checker) oauth() {
	if c := k.cfg; c.OAuth.Enabled && c.PublicURL != nil {
		k.issuer()
		k.wellKnown()
	}
	if k.report.Given("oauth") && !k.report.Given("oauth.enabled") {
		k.report.Warn("oauth",
			"has no effect without enabled: true, so no application can sign users in; add that, or "+
				"write enabled: false")
	}
	k.scopes()
	k.clients()
	k.crossApp()
}

// issuer checks that the documents about the issuer are at the gateway: clients look for
// them below token.issuer (RFC 8414, section 3).
func (k *checker) issuer() {
	const key = "token.issuer"
	c, r := k.cfg, k.report
	if r.Broken(publicURLKey) || r.Broken(key) {
		return
	}
	public := c.PublicURL.String()
	below, found := strings.CutPrefix(c.Token.Issuer, public)
	if !found || below != "" && below[0] != '/' {
		r.Fault(key, "%q must be public_url or below it with oauth.enabled, because clients look there for what the "+
			"gateway says about itself; expected %s or %s/PATH", c.Token.Issuer, public, public)
		return
	}
	u, err := section.HTTPURL(c.Token.Issuer)
	if err != nil {
		r.Fault(key, "%v", err)
	} else if below != "" && below != "/" && path.Clean(u.Path) != strings.TrimSuffix(below, "/") {
		r.Fault(key, `%q has a path with an empty segment, "." or "..", or with an encoded character; `+
			"expected one like %s/auth", c.Token.Issuer, public)
	}
}

// openScopes are the scopes that everybody knows (OpenID Connect Core 1.0, sections 3.1.2.1,
// 5.4 and 11). They lend no roles.
var openScopes = []string{issuers.OpenIDScope, "profile", "email", "groups", "offline_access"}

// AllScopes returns the scopes that clients can ask for: those that everybody knows, and then
// those of Scopes.
func (o *OAuth) AllScopes() []string {
	return slices.Concat(openScopes, slices.Sorted(maps.Keys(o.Scopes)))
}

// scopes checks the scopes, and the roles that they lend.
func (k *checker) scopes() {
	r, scopes := k.report, k.cfg.OAuth.Scopes
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		at := strictyaml.Join("oauth.scopes", scope)
		if err := policy.CheckScope(scope); err != nil {
			r.Fault(at, "the scope %q %v", scope, err)
		} else if slices.Contains(openScopes, scope) {
			r.Fault(at, "%q lends no roles, and needs no entry; choose another name", scope)
		}
		for i, role := range scopes[scope] {
			if err := policy.CheckRole(role); err != nil {
				r.Fault(fmt.Sprintf("%s[%d]", at, i), "the role %v", err)
			}
		}
		k.refs.checkRoles(at, scopes[scope])
	}
}

var schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// actedOn are schemes whose URLs browsers and systems act on in another way than to send
// them to a native application.
var actedOn = []string{
	"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "intent", "jar", "javascript", "mailto", "resource",
	"sms", "tel", "vbscript", "view-source", "ws", "wss",
}

// checkRedirectScheme checks a scheme of native applications (RFC 8252, section 7.1).
func checkRedirectScheme(r *strictyaml.Document, path, scheme string) {
	switch {
	case !schemeForm.MatchString(scheme):
		r.Fault(path, "%q is not a scheme; expected lower-case letters, digits, +, - and dots, like com.example.app, "+
			"without what follows it", scheme)
	case scheme == "http" || scheme == "https":
		r.Fault(path, "%s needs no entry: https is always accepted, and http on this machine", scheme)
	case slices.Contains(actedOn, scheme):
		r.Fault(path, "%q is no scheme of an application: browsers act on it themselves", scheme)
	case !strings.Contains(scheme, "."):
		r.Warn(path, "%q has no dot, so that applications of others may have it too; "+
			"prefer one that is a name of yours in reverse, like com.example.app (RFC 8252, section 7.1)", scheme)
	}
}

// maxRedirectURI is how long a redirect URI may be, in bytes.
const maxRedirectURI = 2048

// CheckRedirectURI returns why users are not sent back to a URI. All clients have the same
// rules. What it accepts has one reading, to browsers and to Go, and leads to https, to http on the
// user's machine, or to an application by a scheme of RedirectSchemes. The error is a phrase
// like "has a fragment", to follow the URI.
func (o *OAuth) CheckRedirectURI(uri string) error {
	if uri == "" || len(uri) > maxRedirectURI {
		return fmt.Errorf("must have 1 to %d characters", maxRedirectURI)
	}
	if strings.Contains(uri, "#") {
		return errors.New("has a fragment; remove it (RFC 6749, section 3.1.2)")
	}
	if strings.Contains(uri, "*") {
		return errors.New("has a *, but addresses are compared character by character: list each")
	}
	if at := strings.IndexFunc(uri, notInURI); at >= 0 {
		if u, err := url.Parse(uri); err == nil {
			if err := policy.CheckASCII(u.Hostname()); err != nil {
				return fmt.Errorf("has a host that %w", err)
			}
		}
		found, _ := utf8.DecodeRuneInString(uri[at:])
		return fmt.Errorf("has the character %q, which must be encoded in a URI", found)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" {
		return errors.New("is not an absolute URI; expected one like https://app.example.org/callback")
	}
	scheme, rest, _ := strings.Cut(uri, ":")
	switch {
	case scheme == "http" || scheme == "https":
		return checkWebRedirect(u, rest)
	case slices.Contains(o.RedirectSchemes, scheme):
		if !strings.HasPrefix(rest, "/") || u.User != nil {
			return fmt.Errorf("must continue with a slash after %s: and have no user name", scheme)
		}
		return nil
	}
	return &SchemeError{}
}

// SchemeError says that the scheme of a redirect URI is not accepted.
type SchemeError struct{}

// Error implements error.
func (e *SchemeError) Error() string {
	return "begins with a scheme that is not accepted; expected https, http on the user's machine, " +
		"or a scheme of oauth.redirect_schemes"
}

// notInURI reports whether a character must be encoded in a URI (RFC 3986, section 2), or is
// read by browsers as another one.
func notInURI(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", c) }

// checkWebRedirect checks a redirect URI whose scheme is http or https. rest is what follows
// the scheme.
func checkWebRedirect(u *url.URL, rest string) error {
	host := u.Hostname()
	authority, found := strings.CutPrefix(rest, "//")
	if end := strings.IndexAny(authority, "/?"); end >= 0 {
		authority = authority[:end]
	}
	switch {
	case !found || host == "":
		return errors.New("has no host; expected one like https://app.example.org/callback")
	case strings.ContainsAny(authority, "@%"):
		return errors.New("has a user name, or an encoded character in its host; expected only a host")
	case isOddAddress(host):
		return errors.New("has a number for a host; write an address in the usual form, like 127.0.0.1")
	case u.Scheme == "http" && !policy.Loopback(host):
		return &SchemeError{}
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("has no port from 1 to 65535 after the colon of its host")
		}
	}
	return section.CheckHost(host)
}

// isOddAddress reports whether a host is an IPv4 address to browsers, and a name to others,
// such as 127.1 or 0x7f000001 (WHATWG URL, section 3.5).
func isOddAddress(host string) bool {
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	hexadecimal, isHex := strings.CutPrefix(last, "0x")
	isNumber := strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hexadecimal, "0123456789abcdef") == ""
	_, err := netip.ParseAddr(host)
	return isNumber && err != nil
}
