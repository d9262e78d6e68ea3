package forwarding

import (
	"fmt"
	"net/url"
	"strings"

	"authgate/gateway/config/section"
	"authgate/policy"
)

// UnixTarget returns the socket of a target's URL, "" if it is not a unix target.
// The URL of a path below the socket is unix:SOCKET:PATH, as in nginx. The scheme
// unix+h2c means HTTP/2 without TLS.
func UnixTarget(u *url.URL) (socket string) {
	if !unixScheme(u.Scheme) {
		return ""
	}
	socket, _, _ = strings.Cut(u.Path, ":/")
	return socket
}

func unixScheme(scheme string) bool { return scheme == "unix" || scheme == "unix+h2c" }

// TargetPrefix returns what begins every path at a target, encoded and without a
// slash at its end.
func TargetPrefix(u *url.URL) string {
	prefix := u.EscapedPath()
	if unixScheme(u.Scheme) {
		_, below, found := strings.Cut(prefix, ":/")
		if !found {
			return ""
		}
		prefix = "/" + below
	}
	return strings.TrimSuffix(prefix, "/")
}

// ParseTarget parses the URL of a target. The error does not quote credentials.
func ParseTarget(raw string) (*url.URL, error) {
	if scheme, _, _ := strings.Cut(raw, ":"); !unixScheme(scheme) {
		// h2c is http for all but the protocol.
		rest, h2c := strings.CutPrefix(raw, "h2c://")
		if h2c {
			rest = "http://" + rest
		} else {
			rest = raw
		}
		u, err := section.TargetURL(rest)
		if err != nil {
			return nil, err
		}
		if h2c {
			u.Scheme = "h2c"
		}
		return withPrefix(raw, u)
	}
	u, err := url.Parse(raw)
	switch {
	case strings.Contains(raw, "@"):
		return nil, fmt.Errorf("contains an @, which is not supported in the path of a socket")
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", raw)
	case strings.ContainsAny(raw, "?#"):
		return nil, fmt.Errorf("%q has a query or a fragment, which is not supported", raw)
	case u.Host != "" || !strings.HasPrefix(UnixTarget(u), "/"):
		return nil, fmt.Errorf("%q does not have the absolute path of a socket, like unix:/run/app.sock", raw)
	}
	return withPrefix(raw, u)
}

// withPrefix returns u if its path can begin the paths of requests.
func withPrefix(raw string, u *url.URL) (*url.URL, error) {
	prefix := TargetPrefix(u)
	if prefix == "" {
		return u, nil
	}
	if _, err := policy.ParseTarget(prefix); err != nil || strings.Contains(prefix, "//") {
		return nil, fmt.Errorf("%q has a path that cannot begin the paths of requests", raw)
	}
	return u, nil
}
