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
	for target, decoded := range map[string]string{
		"/": "/", "/?": "/", "/a?b=c": "/a", "/a??b": "/a", "/a/": "/a/", "/%61%2Db": "/a-b",
		"/a%20b%23%3F": "/a b#?", "/a:80": "/a:80", "/100%25": "/100%", "/%2525": "/%25",
		"/%2541": "/%41", "/%25zz": "/%zz", "/%25": "/%", "/%252": "/%2", "/%2500": "/%00",
		"/a;b=c/d": "/a;b=c/d", "/a%3Bb": "/a;b", "/;..": "/;..", "/...": "/...", "/.a/..b/a../b.": "/.a/..b/a../b.",
		"/caf%C3%A9/café": "/café/café", "/%F0%9F%94%91": "/🔑", "/~!$&'()*+,=:@": "/~!$&'()*+,=:@",
		`/{"a"}|^<>[]` + "`": `/{"a"}|^<>[]` + "`", `/a?/../%2e%2e//%zz\` + "\xff": "/a",
	} {
		want := policy.Path{Decoded: decoded}
		want.Raw, want.Query, want.HasQuery = strings.Cut(target, "?")
		if got, err := policy.ParseTarget(target); err != nil || got != want {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", target, got, err, want)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	t.Parallel()
	for reason, targets := range map[string][]string{ // a part of the reason
		"is empty":            {""},
		"begins with a slash": {"*", "a", "?a", "http://h/", "h:443", `\a`, "%2Fa", " /a"},
		"the query holds":     {"/?\x00", "/?a b", "/?a#b", "/?\x7f", "/?a\r\nb"},
		"fragment":            {"/a#b", "/#", "/a#?b"},
		"a space":             {"/a b", "/ "},
		"a control character": {
			"/\x00", "/a\n", "/\x1f", "/\x7f", "/%00", "/%1F", "/%7f", "/\u0085", "/%C2%80", "/%c2%9F",
		},
		"a backslash":                {`/a\b`, "/a%5Cb", "/a%5cb", `/\`},
		"an encoded slash":           {"/a%2Fb", "/a%2fb", "/%2F"},
		"malformed percent-encoding": {"/%", "/%2", "/%zz", "/%2g", "/a%/b", "/%u002e", "/%%32%65"},
		"an empty segment":           {"//", "//h/a", "/a//b", "/a//"},
		"not valid UTF-8": {
			"/\xff", "/%ff", "/%C0%AF", "/%E0%80%AF", "/%ED%A0%80", "/%F4%90%80%80", "/%C3", "/%C3\xa9", "/\xc3%A9", "/\xc0\xaf",
		},
		"a segment": {
			"/.", "/..", "/./", "/../", "/a/.", "/a/..", "/a/../b", "/%2e", "/%2E.", "/.%2e/a", "/%2e%2e",
			"/.;", "/..;", "/..;x/a", "/.;a=b", "/..%3Bx", "/%2e%2e%3b",
			"/%252e", "/%252e%252E", "/.%252e", "/..%253Bx", "/%25252e%25252e/a", "/%25%32%65", "/%2525252525252e.",
		},
		"encoded more than once": {
			"/a%252Fb", "/a%252fb", "/a%255Cb", "/a%25252Fb", "/%25%32%46",
			"/%252525252525255c", "/%25%32%35%32%66", "/a%25%2532f",
		},
	} {
		for _, target := range targets {
			got, err := policy.ParseTarget(target)
			if refused, ok := errors.AsType[*policy.TargetError](err); !ok ||
				!strings.Contains(refused.Reason, reason) || got != (policy.Path{}) {
				t.Errorf("ParseTarget(%q) = %+v, %v; want the reason %q", target, got, err, reason)
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

// ParseTarget refuses exactly the ambiguous targets, so decoding a path again
// never adds, removes or leaves a segment. A path that it accepts is forwarded as
// it is and is a fixed point: parsing it again, or encoding and parsing it, gives
// the same path.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{
		"/", "/a?b", "/a/b/", "/%61/%2541", "/a;b/..;c", "/%2e%2e", "/%252e%252e;x",
		"/%25%32%66", "/%C3%A9", "/%c0%af", "/100%2525", "*", "http://h/a",
		"/a%253bb/%25252e%25252e", "/%25%2532%2566", "/a+b/%2b", "/%2525252f..", "/%25c0%25af", "/%255c", "/..%2500/",
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
		for _, same := range []string{p.Raw, (&url.URL{Path: p.Decoded}).EscapedPath()} {
			if again, err := policy.ParseTarget(same); err != nil || again.Decoded != p.Decoded || again.Raw != same {
				t.Errorf("%q as %q is %+v, %v", target, same, again, err)
			}
		}
		if clean := path.Clean(p.Decoded); clean != p.Decoded && clean+"/" != p.Decoded {
			t.Errorf("%q: decoded to %q, which cleans to %q", target, p.Decoded, clean)
		}
	})
}

func TestStripPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, prefix, want string }{ // want is empty if the path does not begin with prefix
		{"/%61pi/x?", "/api", "/x"}, {"/api", "/api", "/"}, {"/api/", "/api", "/"},
		{"/api/", "/api/", "/"}, {"/api/x", "/api/", "/x"}, {"/api", "/api/", ""},
		{"/apix", "/api", ""}, {"/api;v=1/x", "/api", ""}, {"/API/x", "/api", ""},
		{"/api/v1/%61%20b/?q", "/api/v1", "/%61%20b/"}, {"/%C3%A9t%c3%a9/x", "/été", "/x"}, {"/été/%78", "/été", "/%78"},
		{"/100%25/x", "/100%", "/x"}, {"/%2561/x", "/%61", "/x"}, {"/%2561/x", "/a", ""},
		{"/x", "/", "/x"}, {"/x", "", "/x"}, {"/", "/", "/"}, {"/x/y", "/x/y/z", ""}, {"/x", "x", ""}, {"/x", "//", ""},
	} {
		if got, ok := parse(t, c.target).StripPrefix(c.prefix); got != c.want || ok != (c.want != "") {
			t.Errorf("%q without %q = %q, %t; want %q", c.target, c.prefix, got, ok, c.want)
		}
	}
	if got, ok := (policy.Path{}).StripPrefix(""); ok {
		t.Errorf("the zero path without a prefix = %q", got)
	}
}

// The rest of a canonical path is canonical.
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

func TestCanonicalHost(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a.", 127) + "a" // 255 bytes
	for host, want := range map[string]string{
		"azAZ09.example": "azaz09.example", "EXAMPLE.Org": "example.org", "example.org.": "example.org",
		"example.org:8443": "example.org", "Example.ORG.:8443": "example.org", "example.org:": "example.org",
		"example.org:0080": "example.org", "my_app-1.internal": "my_app-1.internal",
		"127.0.0.1:80": "127.0.0.1", "[::1]": "[::1]", "[::1]:8443": "[::1]", "[2001:DB8:0:0::1]": "[2001:db8::1]",
		"[::ffff:192.0.2.1]": "[::ffff:192.0.2.1]", "xn--exmple-cua.org": "xn--exmple-cua.org",
		long: long, long + ".:65535": long,
	} {
		if got, err := policy.CanonicalHost(host); err != nil || got != want {
			t.Errorf("CanonicalHost(%q) = %q, %v; want %q", host, got, err, want)
		}
	}
	for _, host := range []string{
		"", ".", "..", ":80", ".:80", "a..b", ".a", "a..", " a", "a ", "a b", "a/b", "/", "a?b", "a#b", "u@a", "u:p@a", "@",
		"a\x00", "a\tb", "a\r\n", "a\x7f", `a\b`, "a,b", "a%41", "a*", "{a}", "exämple.org", "\u212aelvin.org", "\xff",
		"a:b", "a:-1", "a:+1", "a:65536", "a:99999999999999999999", "a:80:80", "a:8 0", "a:80.", "::1", "2001:db8::1",
		"[", "[]", "[::1", "::1]", "[::1]x", "[::1]8", "[::1].", "[::1]:x", "[::1]:65536",
		"[127.0.0.1]", "[fe80::1%eth0]", "[fe80::1%25eth0]", "[[::1]]", "[v1.a]",
		long + "a", strings.Repeat("a", 256),
	} {
		if got, err := policy.CanonicalHost(host); !errors.As(err, new(*policy.TargetError)) || got != "" {
			t.Errorf("CanonicalHost(%q) = %q, %v; want a *TargetError", host, got, err)
		}
	}
}

// A canonical host is a fixed point, with any port, case or dot.
func FuzzCanonicalHost(f *testing.F) {
	for _, s := range []string{"example.org", "A.:80", "[::1]:1", "[::FFFF:1.2.3.4]", "a..b", "\u212a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		canonical, err := policy.CanonicalHost(host)
		if err != nil {
			return
		}
		for _, same := range []string{canonical, canonical + ":443", strings.ToUpper(canonical)} {
			if again, err := policy.CanonicalHost(same); err != nil || again != canonical {
				t.Errorf("%q is %q, of which %q is %q, %v", host, canonical, same, again, err)
			}
		}
		hidden := func(r rune) bool { return r <= ' ' || r >= 0x80 || strings.ContainsRune(`/\?#@%,`, r) }
		if strings.ContainsFunc(canonical, hidden) || strings.HasSuffix(canonical, ".") ||
			canonical != strings.ToLower(canonical) {
			t.Errorf("%q is %q", host, canonical)
		}
	})
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.": false, "localhost.example": false,
		"128.0.0.1": false, "::2": false, "[::1]": false, "127.0.0.1.example": false,
	} {
		if got := policy.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %t", host, got)
		}
	}
}
