package web

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// A browser that follows an accepted return_to stays on this origin.
func FuzzReturnTo(f *testing.F) {
	for _, target := range []string{
		"/", "/a?b=c", "/a/b%20c?d", "//evil.example", `/\evil.example`, `\/evil.example`, "/%2f/evil.example", "/%5cevil.example",
		"https://evil.example", "javascript:alert(1)", "/\tevil", "/\n/evil.example", "/a#b", " /", "/..//evil.example", "/.", "/a?\\",
		"/a\u0085", "/\u2028", "/?//evil.example", "/;/../x", "", "evil", "?a", "/a%0d%0aSet-Cookie:x", "/é",
	} {
		f.Add(target)
	}
	gateway, err := url.Parse("https://gw.example/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		accepted := ReturnTo(target)
		if accepted == "" {
			return
		}
		if accepted != target {
			t.Fatalf("%q becomes %q", target, accepted)
		}
		path, query, _ := strings.Cut(accepted, "?")
		if path[0] != '/' || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) || strings.ContainsFunc(path, unicode.IsControl) {
			t.Errorf("the path of %q leads to another place", accepted)
		}
		// Beyond ASCII a browser encodes; below it a control could end a header.
		if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }) {
			t.Errorf("the query of %q holds a control character", accepted)
		}
		// As net/url resolves it, and as browsers do, who take a backslash for a slash.
		for _, reference := range []string{accepted, strings.ReplaceAll(path, `\`, "/") + "?" + query} {
			resolved, err := gateway.Parse(reference)
			if err != nil {
				// net/url is stricter with a query or a host, which there must not be.
				if strings.HasPrefix(reference, "//") {
					t.Errorf("%q: %v", reference, err)
				}
				continue
			}
			if resolved.Scheme != "https" || resolved.Host != "gw.example" || resolved.User != nil {
				t.Errorf("%q leads to %s", accepted, resolved)
			}
		}
	})
}
