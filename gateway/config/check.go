package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"authgate/policy"
)

// check makes every check that needs more than one value, or the meaning of
// one.
func (l *loader) check() {
	l.checkOrigin()
	l.checkEndpoints()
	l.checkListen()
	l.checkTLS()
	l.checkStore()
	l.checkUsers()
	l.checkRealm()
	l.checkSession()
	l.checkToken()
	l.checkTrustedIssuers()
	l.checkCookies()
	l.checkProviders()
	l.checkDelegated()
	l.checkIdentityHeaders("identity_headers", l.cfg.IdentityHeaders)
	l.checkUpstreams()
	l.checkPolicies()
	l.checkRoutes()
	l.checkLimits()
	l.checkDemo()
}

// oneOf checks a value that is one of a few words.
func (l *loader) oneOf(path, value string, words ...string) {
	if !slices.Contains(words, value) {
		l.fault(path, "%q is not known here; expected %s", value, orList(words))
	}
}

// orList writes "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// What the value of public_url and the address of an upstream look like.
const (
	originForm  = "expected https://HOST or https://HOST:PORT"
	addressForm = "expected http://HOST:PORT or https://HOST:PORT"
)

// parseAddress reads the URL at path: public_url, or the address of an
// upstream. It returns nil if the value is empty.
func parseAddress(path, value string) (*url.URL, error) {
	if value == "" {
		return nil, nil
	}
	expected := addressForm
	if path == publicURLKey {
		expected = originForm
	}
	u, err := httpURL(value)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, expected)
	}
	return u, nil
}

// httpURL checks an absolute http or https URL without credentials, query and
// fragment. The error does not repeat credentials.
func httpURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case strings.Contains(raw, "@"):
		return nil, fmt.Errorf("holds an @; a URL with credentials is not supported")
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", raw)
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return nil, fmt.Errorf("%q does not begin with http:// or https://", raw)
	case strings.ContainsAny(raw, "?#"):
		return nil, fmt.Errorf("%q has a query or a fragment, which is not supported", raw)
	}
	if err := checkHost(u.Hostname()); err != nil {
		return nil, fmt.Errorf("%q: %w", raw, err)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%q has no port from 1 to 65535 after its colon", raw)
		}
	}
	return u, nil
}

// checkHost checks the name or the address of a host, the latter without
// brackets.
func checkHost(host string) error {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if strings.HasSuffix(host, ".") {
		return fmt.Errorf("the host ends in a dot; leave it out")
	}
	_, err := policy.CanonicalHost(host)
	return err
}
