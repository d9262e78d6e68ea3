package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// scheme is what the URL standard takes for one.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// landing is where a browser that is at origin, which is https, goes by
// address: another origin, or empty for a place on the same. It follows the
// URL standard (https://url.spec.whatwg.org, section 4.4) as far as that
// decides about the host; what it cannot tell for sure is another origin.
func landing(origin, address string) string {
	address = strings.TrimFunc(address, func(r rune) bool { return r <= ' ' })
	address = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(address)
	name := strings.ToLower(scheme.FindString(address))
	rest := address[len(name):]
	// To special schemes a backslash is a slash, up to the query or fragment.
	end := len(rest)
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		end = i
	}
	rest = strings.ReplaceAll(rest[:end], `\`, "/")
	switch name {
	case "", "https:": // "https:x" is relative to a page of https
		if !strings.HasPrefix(rest, "//") {
			return ""
		}
		name = "https:"
	case "http:", "ws:", "wss:", "ftp:": // however many slashes, even none, a host follows
	default:
		return name
	}
	host, _, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	if found := name + "//" + host; found != origin {
		return found
	}
	return ""
}

// TestLanding: the judge of redirects knows what browsers do.
func TestLanding(t *testing.T) {
	t.Parallel()
	const origin = "https://localhost:8443"
	for address, want := range map[string]string{
		"": "", "/": "", "/x": "", "x": "", "?x": "", "#x": "", ".": "", "../..": "", "/x//y": "", "/x\\\\y": "", "?//evil": "", "#\\\\evil": "",
		"https://localhost:8443/x": "", "HTTPS://LOCALHOST:8443": "", "https:x": "", "https:/x": "", "//localhost:8443/x": "", "//user@localhost:8443": "",
		"//evil": "https://evil", `/\evil`: "https://evil", `\/evil`: "https://evil", `\\evil`: "https://evil", "///evil": "https://evil", `/\/\evil/x`: "https://evil",
		"/\t/evil": "https://evil", "/\n\\evil": "https://evil", " \x00//evil": "https://evil", "\x1f/\r/evil": "https://evil",
		"https://evil": "https://evil", "https:///evil": "https://evil", `https:\\evil`: "https://evil", "h\nttps://evil": "https://evil",
		"http:evil": "http://evil", "http:/evil": "http://evil", "http://localhost:8443": "http://localhost:8443", "ftp:evil": "ftp://evil", "wss:\\evil": "wss://evil",
		"https://localhost:8443@evil/": "https://evil", `https://evil\@localhost:8443`: "https://evil", "https://evil?@localhost:8443": "https://evil", "https://localhost": "https://localhost",
		"javascript:alert(1)": "javascript:", "JavaScript://localhost:8443/": "javascript:", "data:,x": "data:", "x:": "x:", "/.//evil": "",
	} {
		if got := landing(origin, address); got != want {
			t.Errorf("%q lands at %q, expected %q", address, got, want)
		}
	}
}
