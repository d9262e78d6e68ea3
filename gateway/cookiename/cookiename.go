// Package cookiename keeps the cookies of applications apart from the
// gateway's. Both live at one host, so an application's cookie whose name is
// one of the gateway's gets another name on the way to the browser, and its own
// name on the way back.
package cookiename

import "strings"

// Mark begins the name that a browser has for such a cookie, behind a security
// prefix. A cookie that has such a name already gets the mark once more, so
// that no two names become one.
const Mark = "authgate_app_"

// securityPrefixes are those by which browsers demand attributes of a cookie
// (RFC 6265bis, section 4.1.3), the longer before the shorter. Browsers compare
// them without case. A name keeps its prefix, and so the protection.
var securityPrefixes = []string{"__Host-Http-", "__Host-", "__Http-", "__Secure-"}

// split cuts off the security prefix.
func split(name string) (prefix, rest string) {
	if !strings.HasPrefix(name, "__") {
		return "", name
	}
	for _, p := range securityPrefixes {
		if len(name) >= len(p) && strings.EqualFold(name[:len(p)], p) {
			return name[:len(p)], name[len(p):]
		}
	}
	return "", name
}

// Marked reports whether a name has the mark.
func Marked(name string) bool {
	_, rest := split(name)
	return strings.HasPrefix(rest, Mark)
}

// ForBrowser adds the mark to a name.
func ForBrowser(name string) string {
	prefix, rest := split(name)
	return prefix + Mark + rest
}

// ForApplication takes a mark off a name. A name without one is returned as it
// is, and so is one that would gain a security prefix: the browser has not
// checked what the prefix promises.
func ForApplication(name string) string {
	prefix, rest := split(name)
	original, marked := strings.CutPrefix(rest, Mark)
	if !marked || original == "" {
		return name
	}
	original = prefix + original
	if p, _ := split(original); p != prefix {
		return name
	}
	return original
}
