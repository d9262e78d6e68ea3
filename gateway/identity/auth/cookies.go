package auth

import (
	"net/textproto"
	"strings"

	"authgate/gateway/wire/cookiename"
)

// CookieNames are the names of the gateway's own cookies. A role that is not in
// use has an empty name.
type CookieNames struct {
	Session   string // session of a local account
	Delegated string // session of a login at a provider
	Browser   string // binds a login attempt at a provider to the browser
	Access    string // access token, if tokens are delivered in cookies
	Refresh   string // refresh token, if tokens are delivered in cookies
	Language  string // of the pages; it proves nothing
	Ended     string // tells, after the end of a session, that it has ended by time; it proves nothing
}

// has reports whether name is one of the gateway's cookies.
func (n *CookieNames) has(name string) bool {
	return name != "" && (name == n.Session || name == n.Delegated || name == n.Browser || name == n.Access ||
		name == n.Refresh || name == n.Language || name == n.Ended)
}

// CookieRole is the purpose of one of the gateway's cookies.
type CookieRole int

// The roles of the cookies that authenticate a request to a route.
const (
	NoCookie CookieRole = iota
	SessionCookie
	DelegatedCookie
	AccessCookie
)

// Name returns the name of the cookie with that role.
func (n *CookieNames) Name(role CookieRole) string {
	switch role {
	case SessionCookie:
		return n.Session
	case DelegatedCookie:
		return n.Delegated
	case AccessCookie:
		return n.Access
	}
	return ""
}

// ToBrowser returns the Set-Cookie lines of an upstream for the browser. A cookie
// with one of the gateway's names gets another name. Browsers do not agree on how
// to read some lines; such a line is left out if one reading gives a name of the
// gateway, and dropped counts it. ToBrowser returns lines itself if nothing
// changes, and a new slice otherwise.
func (n *CookieNames) ToBrowser(lines []string) (changed []string, dropped int) {
	for i, line := range lines {
		to, ok := n.lineToBrowser(line)
		if ok && to == line {
			if changed != nil {
				changed = append(changed, line)
			}
			continue
		}
		if changed == nil {
			changed = append(make([]string, 0, len(lines)), lines[:i]...)
		}
		if ok {
			changed = append(changed, to)
		} else {
			dropped++
		}
	}
	if changed == nil {
		return lines, 0
	}
	return changed, dropped
}

// nameless are characters that browsers ignore before a cookie's name. From
// "=a=b" a browser makes a cookie without a name and with the value "a=b", and
// sends it as "a=b" (RFC 6265bis, section 5.8.3).
const nameless = "= \t"

// lineToBrowser returns one line for the browser, or false to leave it out.
func (n *CookieNames) lineToBrowser(line string) (string, bool) {
	for i := range len(line) {
		if c := line[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", false // browsers ignore or cut such a line
		}
	}
	name := cookieAt(line, "=;")
	if rest := line; strings.Contains(rest, ",") {
		// Old clients read several cookies in one line (RFC 2109).
		if first := cookieAt(rest, "=;,"); first != name && n.has(first) {
			return "", false
		}
		for _, rest, more := strings.Cut(rest, ","); more; _, rest, more = strings.Cut(rest, ",") {
			if n.has(cookieAt(rest, "=;,")) {
				return "", false
			}
		}
	}
	if !n.has(name) && !cookiename.Marked(name) {
		return line, true
	}
	behind := strings.TrimLeft(line, nameless)[len(name):]
	return cookiename.ForBrowser(name) + behind, true
}

// cookieAt returns the name of the cookie at the start of s. The name ends before
// one of the characters in ends.
func cookieAt(s, ends string) string {
	s = strings.TrimLeft(s, nameless)
	if end := strings.IndexAny(s, ends); end >= 0 {
		s = s[:end]
	}
	return strings.TrimRight(s, " \t")
}

// ToApplication returns the lines of a Cookie header for the application: without
// the gateway's cookies, and with the application's cookies under their own
// names. It returns nil if nothing is left. With keep, the gateway's cookies stay,
// and no cookie of the application gets the name of one. Of the cookies that belong to one user
// of the browser, only those of owner pass; see Owned.
func (n *CookieNames) ToApplication(lines []string, keep bool, owner cookiename.Owner) []string {
	theirs := application{n, keep, owner, nil}
	theirs.findOwned(lines)
	var kept []string
	for _, line := range lines {
		var pairs []string
		removed, removes := false, false // some of the line, and the cookie before
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := nextCookie(pair)
			pair = textproto.TrimString(pair)
			if pair == "" || removes && describes(name) {
				continue
			}
			own, passes := theirs.name(name)
			if removes = !passes; removes {
				removed = true
				continue
			}
			pairs = append(pairs, own+pair[len(name):])
		}
		if removed && len(pairs) == 1 && strings.HasPrefix(pairs[0], cookieVersion) {
			continue // there is no cookie left
		}
		if len(pairs) > 0 {
			kept = append(kept, strings.Join(pairs, "; "))
		}
	}
	return kept
}
