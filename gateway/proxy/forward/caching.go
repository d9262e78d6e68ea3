package forward

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/clientcert"
	"authgate/policy"
)

// caching keeps the answers of a route that also lets in requests without credentials apart in
// caches: one to a user is for that user alone, and any other for requests without credentials.
type caching struct {
	vary     []string // headers of a request by which answers differ
	byClient bool     // an answer to a request without credentials may be for the client's address alone
}

// newCaching returns the caching of a route. token is token.header, empty for none.
func newCaching(c *config.Route, token string, byClient bool) *caching {
	vary := []string{"Cookie", "Authorization"}
	if token != "" {
		vary = append(vary, token)
	}
	if c.Authorization == config.AuthorizationApplication {
		vary = append(vary, "Proxy-Authorization")
	}
	if slices.Contains(c.Auth, policy.Certificate) {
		vary = append(vary, clientcert.Header) // RFC 9440, section 2.4
	}
	return &caching{vary: vary, byClient: byClient}
}

// modify makes the header of a response say for whom it is (RFC 9111, sections 4.1 and
// 5.2.2.7). It goes by Cookie for browsers, too, whose own cache must not show the page of a
// user who has signed out.
func (c *caching) modify(ex *web.Exchange, h http.Header) {
	h["Vary"] = c.varying(h["Vary"])
	if ex.Identity != nil || ex.Stale.Any() || c.byClient {
		h["Cache-Control"] = privately(h["Cache-Control"])
		maps.DeleteFunc(h, func(name string, _ []string) bool { return forSharedCaches(name) })
	}
}

// forSharedCaches reports whether a header of a response tells some shared caches more than
// Cache-Control does (RFC 9213).
func forSharedCaches(name string) bool {
	switch name {
	case "Surrogate-Control", "Edge-Control", "X-Accel-Expires":
		return true
	}
	return strings.HasSuffix(name, "-Cache-Control")
}

// varying returns the values of Vary with the missing ones.
func (c *caching) varying(values []string) []string {
	all := elements(values)
	if slices.Contains(all, "*") {
		return values
	}
	for _, name := range c.vary {
		if !slices.ContainsFunc(all, func(other string) bool { return strings.EqualFold(other, name) }) {
			all = append(all, name)
		}
	}
	return []string{strings.Join(all, ", ")}
}

// privately returns the values of Cache-Control for a response that no shared cache may store.
func privately(values []string) []string {
	directives := elements(values)
	kept := directives[:0]
	for _, directive := range directives {
		switch name, _, _ := strings.Cut(strings.ToLower(directive), "="); {
		case directive == name && (name == "private" || name == "no-store"):
			return values
		case name == "public", name == "s-maxage":
		default:
			kept = append(kept, directive)
		}
	}
	return []string{strings.Join(append(kept, "private"), ", ")}
}

// elements returns the elements of a list in a header (RFC 9110, section 5.6.1).
func elements(values []string) []string {
	var all []string
	for element := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if element = strings.Trim(element, " \t"); element != "" {
			all = append(all, element)
		}
	}
	return all
}
