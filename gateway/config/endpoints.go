package config

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"authgate/gateway/config/section"
)

// endpoints configures the paths of the gateway's own endpoints.
type endpoints struct {
	Prefix string `yaml:"prefix" default:"/"` // begins and ends with a slash
	// ExternalAuth lets trusted proxies ask below verify, too.
	ExternalAuth bool `yaml:"external_auth"`
}

// checkPrefix checks that the paths of the gateway's own endpoints are paths that
// policy.ParseTarget accepts.
func (e endpoints) checkPrefix(r *section.Report) {
	const key = "endpoints.prefix"
	encoded := func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`%?#;\"<>^|`+"`", c) }
	switch prefix := e.Prefix; {
	case !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/"):
		r.Fault(key, "%q must begin and end with a slash, like /.authgate/", prefix)
	case strings.ContainsAny(prefix, "{}"):
		r.Fault(key, "%q contains a brace; only routes can have wildcards", prefix)
	case strings.ContainsFunc(prefix, encoded):
		r.Fault(key, "%q contains a character that must be encoded in a URL; use letters, digits, - . _ ~", prefix)
	case prefix != "/" && path.Clean(prefix)+"/" != prefix:
		r.Fault(key, `%q contains an empty segment, "." or ".."; expected a path like /.authgate/`, prefix)
	case prefix == "/" && e.ExternalAuth:
		r.Fault("endpoints.external_auth", "needs a prefix of the gateway's own, so that no application has "+
			"paths below verify; set endpoints.prefix: /.authgate/")
	}
}

// EndpointVerify is the name of the endpoint that proxies ask. OwnEndpoints does
// not contain it, because the gateway decides there as it does on routes.
const EndpointVerify = "verify"

// EndpointPeople is the name of the page for those who look after accounts. What they do is below
// it.
const EndpointPeople = "account/people"

// OwnEndpoints returns the names of the gateway's own endpoints. The path of an
// endpoint is Endpoints.Prefix and its name. No route can match these paths.
func (c *Config) OwnEndpoints() []string {
	names := []string{
		"login", "logout", "refresh", "me", "signin", "signin/complete", "signin/cookies", "signin/language",
		"signin/code", "signin/passkey", "signin/passkey/options",
		"callback", "auth/callback", ".well-known/jwks.json",
		"account", "account/sessions", "account/sessions/end", "account/password", "account/tokens",
		"account/tokens/revoke",
		"account/factors", "account/passkeys", "account/passkeys/options", "account/passkeys/remove",
		"account/totp", "account/totp/confirm", "account/totp/remove", "account/recovery-codes",
		EndpointPeople, EndpointPeople + "/add", EndpointPeople + "/invite", EndpointPeople + "/disable",
		EndpointPeople + "/enable", EndpointPeople + "/roles", EndpointPeople + "/reset-factors",
		EndpointPeople + "/end",
		"signin/invite",
	}
	if c.Session.CSRFToken {
		names = append(names, "csrf-token")
	}
	if c.HasApps() {
		names = append(names, EndpointApps, EndpointIcon)
	}
	if c.OAuth.Enabled {
		names = append(names, oauthEndpoints...)
	}
	for _, p := range c.Providers {
		if p.Name != "" {
			names = append(names, "callback/"+p.Name, "backchannel-logout/"+p.Name, "frontchannel-logout/"+p.Name)
		}
	}
	return names
}

// OwnPath returns the path of an own endpoint under a prefix.
func OwnPath(prefix, name string) string { return prefix + strings.TrimPrefix(name, "/") }

// isOwnPath reports whether a path is that of one of the gateway's own endpoints,
// which come before routes. own is from Config.OwnEndpoints.
func (e endpoints) isOwnPath(own []string, path string) bool {
	name, ok := strings.CutPrefix(path, e.Prefix)
	asked := name == EndpointVerify || e.ExternalAuth && strings.HasPrefix(name, EndpointVerify+"/")
	return ok && (asked || slices.Contains(own, name))
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
