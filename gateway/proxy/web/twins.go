package web

import (
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"authgate/gateway/wire/peer"
)

// TwinsPath is the own endpoint where a user removes cookies that have the name of one
// of the gateway's; see [Cookies.ClearTwins]. CookieField names the cookie.
const (
	TwinsPath   = "signin/cookies"
	CookieField = "cookie"
)

// Bounds of how many cookies ClearTwins clears: the parts of a path that it looks at,
// and domains.
const (
	maxTwinParts   = 8
	maxTwinDomains = 5
)

// Own reports whether one of the gateway's cookies has a name.
func (c *Cookies) Own(name string) bool {
	n := &c.Names
	switch name {
	case "":
		return false
	case n.Session, n.Delegated, n.Browser, n.Access, n.Refresh:
		return true
	}
	return false
}

// ClearTwins makes the browser forget every cookie of a name that it sends to a path of
// a host, but for the gateway's own. Browsers tell cookies of one name apart by their Domain and
// Path, and send neither (RFC 6265, section 5.3). So it clears each combination by which the
// browser would send one. A cookie whose name has a prefix that allows only one Path and no Domain
// is cleared itself.
func (c *Cookies) ClearTwins(w http.ResponseWriter, name, host, path string) {
	if strings.HasPrefix(name, "__Host-") {
		c.Clear(w, name)
		return
	}
	own := c.cookie(name, "", 0)
	for _, domain := range twinDomains(host) {
		for _, at := range twinPaths(path) {
			if domain == own.Domain && at == own.Path {
				continue
			}
			http.SetCookie(w, &http.Cookie{
				Name: name, Domain: domain, Path: at, MaxAge: -1, Expires: time.Unix(1, 0), HttpOnly: true,
				Secure: true,
			})
		}
	}
}

// twinDomains returns the values of Domain for a cookie that a browser sends to a host: nothing,
// the host, and the domains above it up to a public suffix.
func twinDomains(host string) []string {
	domains := []string{""}
	if peer.ParseAddr(strings.Trim(host, "[]")).IsValid() {
		return domains
	}
	top, err := publicsuffix.EffectiveTLDPlusOne(host)
	for len(domains) < maxTwinDomains {
		domains = append(domains, host)
		_, above, ok := strings.Cut(host, ".")
		if host == top || !ok || err != nil {
			break
		}
		host = above
	}
	return domains
}

// twinPaths returns the values of Path for a cookie that a browser sends to a path: the path, and
// each part of it, with and without a slash at the end.
func twinPaths(path string) []string {
	paths := []string{"/"}
	for i := 1; i < len(path) && len(paths) <= 2*maxTwinParts; i++ {
		if path[i] == '/' {
			paths = append(paths, path[:i], path[:i+1])
		}
	}
	if len(path) > 1 && path[len(path)-1] != '/' {
		paths = append(paths, path)
	}
	return paths
}
