// Package headernametest has names of headers for tests, and the ways of writing
// them that some application may take for the same name.
package headernametest

import (
	"slices"
	"strings"
)

// CGI is how CGI shows a header's name to an application: every character that
// is neither a letter nor a digit is "_" there.
func CGI(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// separators are the characters of a header's name that are neither letters
// nor digits (RFC 9110, section 5.6.2).
const separators = "!#$%&'*+-.^_`|~"

// AboutClients are headers about the client and the original request that nobody but
// the gateway may send, unless the route says so.
var AboutClients = []string{
	"X-Forwarded-Port", "X-Forwarded-Prefix", "Forwarded", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip",
	"Cf-Connecting-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip", "Client-Ip", "X-Envoy-External-Address",
	"X-Host", "X-Http-Host-Override", "X-Original-Url", "X-Original-Uri", "X-Original-Host",
	"X-Original-Remote-Addr", "X-Rewrite-Url", "X-Proxyuser-Ip", "Wl-Proxy-Client-Ip", "Proxy-Client-Ip",
}

// AboutUsers are headers by which some applications identify a user. Not
// even a trusted proxy may send them unless the route says so.
var AboutUsers = []string{
	"Remote-User", "Remote-Groups", "X-Remote-User", "X-Remote-Group", "X-Webauth-User", "X-Forwarded-User",
	"X-Forwarded-Email", "X-Forwarded-Client-Cert", "X-Authentik-Username", "X-Auth-Request-User",
	"X-Token-User-Email", "X-Appengine-User-Email", "X-Ssl-Client-Dn", "Ssl-Client-S-Dn", "X-Client-Cert",
	"X-Arr-Clientcert", "X-Goog-Authenticated-User-Email", "Oidc-Claim-Sub",
}

// Spellings are ways of writing one name that some application may read as it.
func Spellings(name string) []string {
	all := []string{name, strings.ToLower(name), strings.ToUpper(name)}
	for _, r := range strings.Split(separators, "") {
		all = append(all, strings.NewReplacer("-", r, ".", r, "_", r).Replace(name))
		if first := strings.IndexAny(name, "-._"); first > 0 {
			all = append(all, strings.ToLower(name[:first])+r+name[first+1:])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
