package policy_test

import (
	"errors"
	"strings"
	"testing"

	"authgate/policy"
)

func TestCanonicalHost(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a.", 127) + "a" // 255 bytes
	for host, want := range map[string]string{
		"azAZ09.example": "azaz09.example", "EXAMPLE.Org": "example.org", "example.org.": "example.org", "example.org:8443": "example.org",
		"Example.ORG.:8443": "example.org", "example.org:": "example.org", "example.org:0080": "example.org", "my_app-1.internal": "my_app-1.internal",
		"127.0.0.1:80": "127.0.0.1", "[::1]": "[::1]", "[::1]:8443": "[::1]", "[2001:DB8:0:0::1]": "[2001:db8::1]",
		"[::ffff:192.0.2.1]": "[::ffff:192.0.2.1]", "xn--exmple-cua.org": "xn--exmple-cua.org", long: long, long + ".:65535": long,
	} {
		if got, err := policy.CanonicalHost(host); err != nil || got != want {
			t.Errorf("CanonicalHost(%q) = %q, %v; want %q", host, got, err, want)
		}
	}
	for _, host := range []string{
		"", ".", "..", ":80", ".:80", "a..b", ".a", "a..", " a", "a ", "a b", "a/b", "/", "a?b", "a#b", "u@a", "u:p@a", "@", "a\x00", "a\tb",
		"a\r\n", "a\x7f", `a\b`, "a,b", "a%41", "a*", "{a}", "exämple.org", "\u212aelvin.org", "\xff",
		"a:b", "a:-1", "a:+1", "a:65536", "a:99999999999999999999", "a:80:80", "a:8 0", "a:80.", "::1", "2001:db8::1",
		"[", "[]", "[::1", "::1]", "[::1]x", "[::1]8", "[::1].", "[::1]:x", "[::1]:65536", "[127.0.0.1]", "[fe80::1%eth0]", "[fe80::1%25eth0]", "[[::1]]", "[v1.a]",
		long + "a", strings.Repeat("a", 256),
	} {
		if got, err := policy.CanonicalHost(host); !errors.As(err, new(*policy.TargetError)) || got != "" {
			t.Errorf("CanonicalHost(%q) = %q, %v; want a *TargetError", host, got, err)
		}
	}
}

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
		if strings.ContainsFunc(canonical, hidden) || strings.HasSuffix(canonical, ".") || canonical != strings.ToLower(canonical) {
			t.Errorf("%q is %q", host, canonical)
		}
	})
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.": false, "localhost.example": false, "128.0.0.1": false, "::2": false, "[::1]": false, "127.0.0.1.example": false,
	} {
		if got := policy.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %t", host, got)
		}
	}
}
