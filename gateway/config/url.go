package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"authgate/policy"
)

const publicURLKey = "public_url"

// Forms of public_url and of the address of an upstream, for diagnostics.
const (
	originForm  = "expected https://HOST or https://HOST:PORT"
	addressForm = "expected http://HOST:PORT, https://HOST:PORT, h2c://HOST:PORT, unix:/PATH or unix+h2c:/PATH"
)

// parseAddress parses public_url or the address of an upstream. It returns nil
// if the value is empty.
func parseAddress(path, value string) (*url.URL, error) {
	if value == "" {
		return nil, nil
	}
	parse, expected := targetURL, addressForm
	if path == publicURLKey {
		parse, expected = httpURL, originForm
	}
	u, err := parse(value)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, expected)
	}
	return u, nil
}

// httpURL parses an absolute http or https URL without credentials, query and
// fragment. The error does not quote credentials.
func httpURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case strings.Contains(raw, "@"):
		return nil, fmt.Errorf("contains an @; a URL with credentials is not supported")
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

// endpointURL parses the URL of an endpoint: as httpURL does, but with an optional query
// (RFC 6749, section 3.1).
func endpointURL(raw string) (*url.URL, error) {
	base, query, _ := strings.Cut(raw, "?")
	if strings.Contains(raw, "#") && !strings.Contains(base, "@") {
		return nil, fmt.Errorf("%q has a fragment, which is not supported", raw)
	}
	u, err := httpURL(base)
	if err != nil {
		return nil, err
	}
	outside := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if _, err := url.ParseQuery(query); err != nil || strings.ContainsFunc(query, outside) {
		return nil, fmt.Errorf("%q has a query that is not encoded; write a space as %%20, for example", raw)
	}
	u.RawQuery = query
	return u, nil
}

// checkHost checks the name or the address of a host. An address has no
// brackets.
func checkHost(host string) error {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if strings.HasSuffix(host, ".") {
		return fmt.Errorf("the host ends in a dot; remove the dot")
	}
	_, err := policy.CanonicalHost(host)
	return err
}

// canonicalOrigin gives an origin the form that browsers use: the host is in
// lower case, and the default port is left out.
func canonicalOrigin(u *url.URL) {
	if u.Scheme != "https" {
		return
	}
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	if u.Path == "/" {
		u.Path = ""
	}
}

func checkPublicURL(r *report, u *url.URL) {
	switch {
	case u == nil:
		r.Fault(publicURLKey, "must not be empty; %s", originForm)
	case u.Scheme != "https":
		r.Fault(publicURLKey, "%q is not https; clients send credentials over TLS only; %s", u, originForm)
	case u.Path != "":
		r.Fault(publicURLKey, "%q has a path; %s", u, originForm)
	}
}
