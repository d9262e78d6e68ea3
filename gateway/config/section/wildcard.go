package section

import (
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// CheckWildcard refuses a wildcard host directly below an entry of the public suffix
// list, such as *.com or *.github.io: the names below it belong to anybody, and each
// would be a host of the gateway.
func CheckWildcard(host string) error {
	parent, wildcard := strings.CutPrefix(strings.ToLower(host), "*.")
	if !wildcard || !publicBelow(parent) {
		return nil
	}
	return fmt.Errorf("the names below %s belong to anybody, because it is a public suffix; "+
		"a wildcard must be below a domain of your own, like *.example.org", parent)
}

// publicBelow reports whether anybody can register a name directly below a domain, or
// below such a name. A domain that is not on the list, such as one of a local network,
// has no registry.
func publicBelow(domain string) bool {
	const anyLabel = "any-name."
	suffix, registered := publicsuffix.PublicSuffix(anyLabel + domain)
	listed := registered || strings.Contains(suffix, ".")
	return listed && len(suffix) >= len(domain)
}
