package gateway

import (
	"net/http"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
	"authgate/gateway/headername"
)

// foldAll is the set of the folded names.
func foldAll(names []string) map[string]bool {
	folded := make(map[string]bool, len(names))
	for _, name := range names {
		folded[headername.Fold(name)] = true
	}
	return folded
}

// canonicalAll is the set of the names as the headers of a request have them,
// without folding: each stays the one spelling that it is.
func canonicalAll(names []string) map[string]bool {
	canonical := make(map[string]bool, len(names))
	for _, name := range names {
		canonical[http.CanonicalHeaderKey(name)] = true
	}
	return canonical
}

func setValid(h http.Header, name, value string) {
	if value != "" && httpguts.ValidHeaderFieldValue(value) {
		h[name] = []string{value}
	}
}

// stripCredentials removes from h what the gateway consumed: its cookies,
// and the Authorization header where that proved the identity. The cookies of
// the application get their own names back.
func stripCredentials(h http.Header, creds *auth.Credentials, names *auth.CookieNames, consumed bool) {
	if consumed {
		delete(h, "Authorization")
	}
	if creds.Cookies || creds.Renamed {
		setCookies(h, names.ToApplication(h["Cookie"], false))
	}
}

// keepCredentials leaves the gateway's cookies in h, and lets no cookie of the
// application take their names.
func keepCredentials(h http.Header, creds *auth.Credentials, names *auth.CookieNames) {
	if creds.Renamed {
		setCookies(h, names.ToApplication(h["Cookie"], true))
	}
}

func setCookies(h http.Header, lines []string) {
	if len(lines) > 0 {
		h["Cookie"] = lines
	} else {
		delete(h, "Cookie")
	}
}
