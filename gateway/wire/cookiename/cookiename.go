// Package cookiename keeps the cookies of applications separate from the
// gateway's. Both belong to one host. If the name of an application's cookie is
// one of the gateway's, the browser gets the cookie under another name, and the
// application gets it back under its own. A cookie that belongs to one user of the
// browser has the mark of its Owner.
package cookiename

import "strings"

// mark begins the changed name, after a security prefix if there is one. A name
// that already has the mark gets a second one, so that different names stay
// different.
const mark = "authgate_app_"

// securityPrefixes are the prefixes for which browsers require attributes of the
// cookie (RFC 6265bis, section 4.1.3), longer ones first. Browsers ignore their
// case. A changed name keeps its prefix, and so the protection.
var securityPrefixes = []string{"__Host-Http-", "__Host-", "__Http-", "__Secure-"}

// split separates the security prefix from the rest of a name.
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

// Marked reports whether a name has a mark: this one, or that of an Owner.
func Marked(name string) bool {
	_, rest := split(name)
	return strings.HasPrefix(rest, mark) || strings.HasPrefix(rest, ownerMark)
}

// ForBrowser adds the mark to a name.
func ForBrowser(name string) string {
	prefix, rest := split(name)
	return prefix + mark + rest
}

// ForApplication removes one mark from a name. It returns a name without a mark
// unchanged, and also one that would gain a security prefix, because the browser
// has not checked the attributes that the prefix requires.
func ForApplication(name string) string {
	original, _ := unmarked(name, mark)
	return original
}

// unmarked returns a name without a mark. It reports false, and returns the name itself, if it
// has none, or would gain a security prefix.
func unmarked(name, mark string) (original string, ok bool) {
	prefix, rest := split(name)
	rest, marked := strings.CutPrefix(rest, mark)
	original = prefix + rest
	if p, _ := split(original); !marked || original == "" || p != prefix {
		return name, false
	}
	return original, true
}
