package config

import (
	"fmt"
	"net/url"
	"strings"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/section"
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
	parse, expected := forwarding.ParseTarget, addressForm
	if path == publicURLKey {
		parse, expected = section.HTTPURL, originForm
	}
	u, err := parse(value)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, expected)
	}
	return u, nil
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

func checkPublicURL(r *section.Report, u *url.URL) {
	switch {
	case u == nil:
		r.Fault(publicURLKey, "must not be empty; %s", originForm)
	case u.Scheme != "https":
		r.Fault(publicURLKey, "%q is not https; clients send credentials over TLS only; %s", u, originForm)
	case u.Path != "":
		r.Fault(publicURLKey, "%q has a path; %s", u, originForm)
	}
}
