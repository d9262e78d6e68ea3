package policy_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"authgate/policy"
)

// readings are ways in which a server behind the gateway may decode a path
// that it has decoded before.
var readings = map[string]func(string) string{
	"leniently": decodeLeniently,
	"or not at all": func(p string) string {
		decoded, err := url.PathUnescape(p)
		if err != nil {
			return p
		}
		return decoded
	},
	"with + for a space": func(p string) string { return decodeLeniently(strings.ReplaceAll(p, "+", " ")) },
}

// A canonical path is a fixed point: parsed again, or encoded anew and parsed,
// it is itself. And decoded again, however often and by whichever reading, it
// never gains, loses or leaves a segment.
func FuzzPathKeepsItsSegments(f *testing.F) {
	for _, s := range []string{
		"/", "/a/b/", "/%61/%2541", "/a;b/..;c", "/%252e%252e;x", "/%25%32%66", "/a%253bb/%25252e%25252e", "/%25%2532%2566", "/a+b/%2b", "/%2525252f..", "/%25c0%25af", "/%255c", "/..%2500/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p, err := policy.ParseTarget(target)
		if err != nil {
			return
		}
		anew := (&url.URL{Path: p.Decoded}).EscapedPath()
		for _, same := range []string{p.Raw, anew} {
			if again, err := policy.ParseTarget(same); err != nil || again.Decoded != p.Decoded || again.Raw != same {
				t.Errorf("%q as %q is %+v, %v", target, same, again, err)
			}
		}
		segments := strings.Count(p.Raw, "/")
		for name, decode := range readings {
			for at, round := p.Raw, 0; round < 8; round++ {
				at = decode(at)
				if got := strings.Count(at, "/") + strings.Count(at, `\`); got != segments {
					t.Fatalf("%q has %d slashes, and decoded %s %d times %d: %q", target, segments, name, round+1, got, at)
				}
				for segment := range strings.SplitSeq(at, "/") {
					if bare, _, _ := strings.Cut(segment, ";"); bare == "." || bare == ".." {
						t.Fatalf("%q decoded %s %d times leaves a segment: %q", target, name, round+1, at)
					}
				}
				if clean := path.Clean(at); clean != at && clean+"/" != at {
					t.Fatalf("%q decoded %s %d times cleans to another path: %q", target, name, round+1, clean)
				}
			}
		}
	})
}
