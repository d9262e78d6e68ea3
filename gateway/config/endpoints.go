package config

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// checkEndpoints checks the prefix of the gateway's own endpoints. Their paths
// must be paths that policy.ParseTarget accepts.
func (l *loader) checkEndpoints() {
	const key = "endpoints.prefix"
	prefix := l.cfg.Endpoints.Prefix
	switch {
	case !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/"):
		l.fault(key, "%q must begin and end with a slash, like /auth/", prefix)
	case strings.ContainsAny(prefix, "{}"):
		l.fault(key, "%q contains a brace; only routes can have wildcards", prefix)
	case strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`%?#;\"<>^|`+"`", r) }):
		l.fault(key, "%q contains a character that must be encoded in a URL; use letters, digits, - . _ ~", prefix)
	case prefix != "/" && path.Clean(prefix)+"/" != prefix:
		l.fault(key, `%q contains an empty segment, "." or ".."; expected a path like /auth/`, prefix)
	}
}

// OwnEndpoints returns the names of the gateway's own endpoints. The path of an
// endpoint is Endpoints.Prefix and its name. No route can match these paths.
func (c *Config) OwnEndpoints() []string {
	names := []string{
		"login", "logout", "refresh", "me", "signin", "callback", "auth/callback", ".well-known/jwks.json",
	}
	if c.Session.CSRFToken {
		names = append(names, "csrf-token")
	}
	for _, p := range c.Providers {
		if p.Name != "" {
			names = append(names, "backchannel-logout/"+p.Name, "frontchannel-logout/"+p.Name)
		}
	}
	return names
}

// checkReachable checks that the only path of a pattern is not one of the
// gateway's own endpoints, which come before routes.
func (l *loader) checkReachable(path, pattern string) {
	if slices.ContainsFunc(l.cfg.OwnEndpoints(), func(name string) bool {
		return literalPath(pattern) == l.cfg.Endpoints.Prefix+name
	}) {
		l.fault(path, "%q can never be reached, because the gateway's own endpoint has this path; set endpoints.prefix, for example to /auth/, to move the gateway's endpoints", pattern)
	}
}

// literalPath returns the decoded path of a pattern. Wildcards stay as written:
// no literal path contains their braces.
func literalPath(pattern string) string {
	slash := strings.IndexByte(pattern, '/')
	if slash < 0 {
		return ""
	}
	decoded, err := url.PathUnescape(pattern[slash:])
	if err != nil { // package policy reports it
		return ""
	}
	return decoded
}
