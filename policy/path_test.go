package policy_test

import (
	"errors"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"authgate/policy"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target string
		want   policy.Path
	}{
		{"/", policy.Path{Raw: "/", Decoded: "/"}},
		{"/?", policy.Path{Raw: "/", Decoded: "/", HasQuery: true}},
		{"/a?b=c", policy.Path{Raw: "/a", Decoded: "/a", Query: "b=c", HasQuery: true}},
		{"/a??b", policy.Path{Raw: "/a", Decoded: "/a", Query: "?b", HasQuery: true}},
		{"/a/", policy.Path{Raw: "/a/", Decoded: "/a/"}},
		{"/%61%2Db", policy.Path{Raw: "/%61%2Db", Decoded: "/a-b"}},
		{"/a%20b%23%3F", policy.Path{Raw: "/a%20b%23%3F", Decoded: "/a b#?"}},
		{"/100%25", policy.Path{Raw: "/100%25", Decoded: "/100%"}},
		{"/%2525", policy.Path{Raw: "/%2525", Decoded: "/%25"}},
		{"/%2541", policy.Path{Raw: "/%2541", Decoded: "/%41"}},
		{"/%25zz", policy.Path{Raw: "/%25zz", Decoded: "/%zz"}},
		{"/%25", policy.Path{Raw: "/%25", Decoded: "/%"}},
		{"/%252", policy.Path{Raw: "/%252", Decoded: "/%2"}},
		{"/%2500", policy.Path{Raw: "/%2500", Decoded: "/%00"}},
		{"/a;b=c/d", policy.Path{Raw: "/a;b=c/d", Decoded: "/a;b=c/d"}},
		{"/a%3Bb", policy.Path{Raw: "/a%3Bb", Decoded: "/a;b"}},
		{"/;..", policy.Path{Raw: "/;..", Decoded: "/;.."}},
		{"/...", policy.Path{Raw: "/...", Decoded: "/..."}},
		{"/.a/..b/a../b.", policy.Path{Raw: "/.a/..b/a../b.", Decoded: "/.a/..b/a../b."}},
		{"/caf%C3%A9/café", policy.Path{Raw: "/caf%C3%A9/café", Decoded: "/café/café"}},
		{"/%F0%9F%94%91", policy.Path{Raw: "/%F0%9F%94%91", Decoded: "/🔑"}},
		{"/~!$&'()*+,=:@", policy.Path{Raw: "/~!$&'()*+,=:@", Decoded: "/~!$&'()*+,=:@"}},
		{`/{"a"}|^<>[]` + "`", policy.Path{Raw: `/{"a"}|^<>[]` + "`", Decoded: `/{"a"}|^<>[]` + "`"}},
		{"/a:80", policy.Path{Raw: "/a:80", Decoded: "/a:80"}},
		{`/a?/../%2e%2e//%zz\` + "\xff", policy.Path{Raw: "/a", Decoded: "/a", Query: `/../%2e%2e//%zz\` + "\xff", HasQuery: true}},
	}
	for _, tt := range tests {
		got, err := policy.ParseTarget(tt.target)
		if err != nil || got != tt.want {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", tt.target, got, err, tt.want)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string // a part of it
		targets []string
	}{
		{"is empty", []string{""}},
		{"begins with a slash", []string{"*", "a", "?a", "http://h/", "https://h", "h:443", `\a`, "%2Fa", " /a"}},
		{"the query holds", []string{"/?\x00", "/?a b", "/?a#b", "/?\x7f", "/?a\r\nb", "/?\t"}},
		{"fragment", []string{"/a#b", "/#", "/a#?b"}},
		{"a space", []string{"/a b", "/ "}},
		{"a control character", []string{"/\x00", "/a\n", "/\x1f", "/\x7f", "/%00", "/%0a", "/%1F", "/%7f", "/\u0085", "/%C2%80", "/%c2%9F"}},
		{"a backslash", []string{`/a\b`, "/a%5Cb", "/a%5cb", `/\`}},
		{"an encoded slash", []string{"/a%2Fb", "/a%2fb", "/%2F"}},
		{"malformed percent-encoding", []string{"/%", "/%2", "/%zz", "/%2g", "/a%/b", "/%u002e", "/%%32%65"}},
		{"an empty segment", []string{"//", "//h/a", "/a//b", "/a//"}},
		{"not valid UTF-8", []string{"/\xff", "/%ff", "/%C0%AF", "/%c0%ae", "/%E0%80%AF", "/%ED%A0%80", "/%F4%90%80%80", "/%C3", "/%C3\xa9", "/\xc3%A9", "/\xc0\xaf"}},
		{"a segment", []string{
			"/.", "/..", "/./", "/../", "/a/.", "/a/..", "/a/../b", "/%2e", "/%2E.", "/.%2e/a", "/%2e%2e",
			"/.;", "/..;", "/..;x/a", "/.;a=b", "/..%3Bx", "/%2e%2e%3b",
			"/%252e", "/%252e%252E", "/.%252e", "/..%253Bx", "/%25252e%25252e/a", "/%25%32%65", "/%2525252525252e.",
		}},
		{"encoded more than once", []string{
			"/a%252Fb", "/a%252fb", "/a%255Cb", "/a%25252Fb", "/%25%32%46", "/%252525252525255c", "/%25%32%35%32%66", "/a%25%2532f",
		}},
	}
	for _, tt := range tests {
		for _, target := range tt.targets {
			got, err := policy.ParseTarget(target)
			var refused *policy.TargetError
			if !errors.As(err, &refused) {
				t.Errorf("ParseTarget(%q) = %+v, %v; want a *TargetError", target, got, err)
			} else if !strings.Contains(refused.Reason, tt.reason) || got != (policy.Path{}) {
				t.Errorf("ParseTarget(%q) = %+v, %v; want the reason %q", target, got, err, tt.reason)
			}
		}
	}
}

// Nested encodings take linear time.
func TestParseTargetIsLinear(t *testing.T) {
	t.Parallel()
	const rounds = 1 << 20
	nest := "/%" + strings.Repeat("25", rounds)
	if p := parse(t, nest); len(p.Decoded) != len(nest)-2 {
		t.Errorf("decoded to %d bytes, want %d", len(p.Decoded), len(nest)-2)
	}
	if _, err := policy.ParseTarget(nest + "2f"); err == nil {
		t.Error("a slash at the bottom of the nest is accepted")
	}
}

var encoding = regexp.MustCompile("%[0-9A-Fa-f]{2}")

// decodeLeniently is one round of decoding by the most lenient server.
func decodeLeniently(s string) string {
	return encoding.ReplaceAllStringFunc(s, func(e string) string {
		b, err := strconv.ParseUint(e[1:], 16, 8)
		if err != nil {
			panic(err)
		}
		return string([]byte{byte(b)})
	})
}

// ambiguous reports whether a target must be refused. It follows the contract
// step by step.
func ambiguous(target string) bool {
	raw, query, _ := strings.Cut(target, "?")
	control := func(r rune) bool { return unicode.IsControl(r) || r == ' ' }
	if !strings.HasPrefix(raw, "/") || strings.Contains(raw, "//") || strings.ContainsAny(target, "#") ||
		strings.ContainsFunc(raw, control) || strings.Contains(raw, `\`) || !utf8.ValidString(raw) {
		return true
	}
	if strings.ContainsFunc(query, func(r rune) bool { return r < 0x80 && control(r) }) {
		return true
	}
	decoded, err := url.PathUnescape(raw)
	if err != nil || !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return true
	}
	for round := decoded; ; {
		if strings.Count(round, "/") != strings.Count(raw, "/") || strings.Contains(round, `\`) {
			return true
		}
		for segment := range strings.SplitSeq(round, "/") {
			if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
				return true
			}
		}
		next := decodeLeniently(round)
		if next == round {
			return false
		}
		round = next
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{
		"/", "/a?b", "/%61/", "/a;b/..;c", "/%2e%2e", "/%252e%252e;x", "/%25%32%66", "/%C3%A9", "/%c0%af", "/100%2525", "*", "http://h/a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p, err := policy.ParseTarget(target)
		if refused := err != nil; refused != ambiguous(target) {
			t.Fatalf("%q: %v, but ambiguous: %t", target, err, !refused)
		}
		if err != nil {
			if !errors.As(err, new(*policy.TargetError)) || err.Error() == "" {
				t.Fatalf("%q: %#v is no *TargetError with a reason", target, err)
			}
			return
		}
		forwarded := p.Raw
		if p.HasQuery {
			forwarded += "?" + p.Query
		}
		if forwarded != target {
			t.Errorf("%q is forwarded as %q", target, forwarded)
		}
		if again, err := policy.ParseTarget(p.Raw); err != nil || again.Raw != p.Raw || again.Decoded != p.Decoded {
			t.Errorf("%q: its path parsed again is %+v, %v", target, again, err)
		}
		clean := path.Clean(p.Decoded)
		if strings.HasSuffix(p.Decoded, "/") && clean != "/" {
			clean += "/"
		}
		if clean != p.Decoded {
			t.Errorf("%q: decoded to %q, which cleans to %q", target, p.Decoded, clean)
		}
	})
}

func TestStripPrefix(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target, prefix, want string
		ok                   bool
	}{
		{"/%61pi/x?", "/api", "/x", true},
		{"/api", "/api", "/", true},
		{"/api/", "/api", "/", true},
		{"/api/", "/api/", "/", true},
		{"/api/x", "/api/", "/x", true},
		{"/api", "/api/", "", false},
		{"/apix", "/api", "", false},
		{"/api;v=1/x", "/api", "", false},
		{"/API/x", "/api", "", false},
		{"/api/v1/%61%20b/?q", "/api/v1", "/%61%20b/", true},
		{"/%C3%A9t%c3%a9/x", "/été", "/x", true},
		{"/été/%78", "/été", "/%78", true},
		{"/100%25/x", "/100%", "/x", true},
		{"/%2561/x", "/%61", "/x", true},
		{"/%2561/x", "/a", "", false},
		{"/x", "/", "/x", true},
		{"/x", "", "/x", true},
		{"/", "/", "/", true},
		{"/x/y", "/x/y/z", "", false},
		{"/x", "x", "", false},
		{"/x", "//", "", false},
	}
	for _, tt := range tests {
		got, ok := parse(t, tt.target).StripPrefix(tt.prefix)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%q without %q = %q, %t; want %q, %t", tt.target, tt.prefix, got, ok, tt.want, tt.ok)
		}
	}
	if got, ok := (policy.Path{}).StripPrefix(""); ok {
		t.Errorf("the zero path without a prefix = %q", got)
	}
}

func FuzzStripPrefix(f *testing.F) {
	f.Add("/%61pi/x?", "/api")
	f.Add("/api", "/api/")
	f.Add("/%C3%A9/%2561", "/é")
	f.Add("/a/b/c", "/a/b/")
	f.Fuzz(func(t *testing.T, target, prefix string) {
		p, err := policy.ParseTarget(target)
		if err != nil {
			return
		}
		raw, ok := p.StripPrefix(prefix)
		segments := strings.TrimSuffix(prefix, "/")
		begins := strings.HasPrefix(p.Decoded, segments+"/") || p.Decoded == prefix
		if ok != begins {
			t.Fatalf("%q without %q: %t, want %t", p.Decoded, prefix, ok, begins)
		}
		if !ok {
			return
		}
		rest, err := policy.ParseTarget(raw)
		if err != nil || rest.HasQuery {
			t.Fatalf("%q without %q is %q: %v", target, prefix, raw, err)
		}
		if want := strings.TrimPrefix(p.Decoded, segments); rest.Decoded != want && !(want == "" && rest.Decoded == "/") {
			t.Errorf("%q without %q is %q, want %q", p.Decoded, prefix, rest.Decoded, want)
		}
		if !strings.HasSuffix(p.Raw, raw) && raw != "/" {
			t.Errorf("%q is no part of %q", raw, p.Raw)
		}
	})
}

// readings are ways in which a server may decode a path again.
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

// A canonical path is a fixed point: parsing it again, or encoding and parsing
// it, gives the same path. Decoding it again, any number of times and by any
// reading, never adds, removes or leaves a segment.
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
