package auth

import (
	"strings"

	"authgate/gateway/cookiename"
)

// CookieNames are the names of the gateway's own cookies; a role that is not
// in use has none, and a cookie of such a name is the application's.
type CookieNames struct {
	Session   string // of a local session
	Delegated string // of a session that a provider vouched for
	Browser   string // binds attempts to log in at a provider to the browser
	Access    string // access token, where tokens are delivered in cookies
	Refresh   string // refresh token, likewise
}

// has reports whether name is one of the gateway's cookies.
func (n *CookieNames) has(name string) bool {
	return name != "" && (name == n.Session || name == n.Delegated || name == n.Browser || name == n.Access || name == n.Refresh)
}

// CookieRole says what one of the gateway's cookies is for.
type CookieRole int

// The roles of the cookies that open routes.
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

// ToBrowser returns the Set-Cookie lines of an upstream as the browser is to
// get them: a cookie with one of the gateway's names gets another name. Lines
// that browsers read in different ways, with one of the gateway's names in one
// of them, are left out, and counted in dropped. Where nothing changes, lines
// itself is returned; otherwise a new slice.
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

// nameless are the characters before the name that a browser sends back. Of
// "=a=b" browsers make a cookie without a name and with the value "a=b", which
// they send as "a=b" (RFC 6265bis, section 5.8.3).
const nameless = "= \t"

// lineToBrowser returns one line for the browser; false leaves it out.
func (n *CookieNames) lineToBrowser(line string) (string, bool) {
	for i := range len(line) {
		if c := line[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", false // browsers ignore such a line, or cut it
		}
	}
	name := cookieAt(line, "=;")
	if rest := line; strings.Contains(rest, ",") {
		// Older clients read several cookies in one line (RFC 2109).
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

// cookieAt returns the name of the cookie at the start of s, up to one of the
// characters in ends.
func cookieAt(s, ends string) string {
	s = strings.TrimLeft(s, nameless)
	if end := strings.IndexAny(s, ends); end >= 0 {
		s = s[:end]
	}
	return strings.TrimRight(s, " \t")
}

// ToApplication returns the lines of a Cookie header as the application is to
// get them: without the gateway's cookies, and with its own cookies under their
// own names; nil when nothing is left. Where keep is set, the gateway's cookies
// stay, and no cookie of the application takes the name of one.
func (n *CookieNames) ToApplication(lines []string, keep bool) []string {
	var kept []string
	for _, line := range lines {
		var pairs []string
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := nextCookie(pair)
			pair = strings.Trim(pair, cookieSpace)
			if pair == "" || n.has(name) && !keep {
				continue
			}
			if own := cookiename.ForApplication(name); own != name && !(keep && n.has(own)) {
				pair = own + pair[len(name):]
			}
			pairs = append(pairs, pair)
		}
		if len(pairs) > 0 {
			kept = append(kept, strings.Join(pairs, "; "))
		}
	}
	return kept
}
