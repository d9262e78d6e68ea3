package auth

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// browserCookie reads a Set-Cookie line as browsers do (RFC 6265bis, section 5.6), and
// returns what they send back.
func browserCookie(line string) (sent string, ok bool) {
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", false
	}
	pair, _, _ := strings.Cut(line, ";")
	name, value, found := strings.Cut(pair, "=")
	if !found {
		name, value = "", pair
	}
	name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t")
	switch {
	case name == "" && value == "":
		return "", false
	case name == "":
		return value, true
	}
	return name + "=" + value, true
}

// oldCookies reads a line as old clients do, which find several cookies in one line.
func oldCookies(line string) (sent []string) {
	for part := range strings.SplitSeq(line, ",") {
		if s, ok := browserCookie(part); ok {
			sent = append(sent, s)
		}
	}
	return sent
}

// allCookies are testCookies with a name for every role.
var allCookies = &CookieNames{Session: "session_id", Delegated: "session", Browser: "__Host-authgate_login", Access: "access_token", Refresh: "refresh_token"}

func TestToBrowser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		lines, want []string
	}{
		{"nothing of ours", []string{"theme=dark; Path=/", "a=b, c=d"}, []string{"theme=dark; Path=/", "a=b, c=d"}},
		{"ours", []string{"session=x; Path=/; HttpOnly"}, []string{"authgate_app_session=x; Path=/; HttpOnly"}},
		{"deleted", []string{"session=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/"}, []string{"authgate_app_session=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/"}},
		{"several", []string{"a=1", "session=x; Path=/a", "session=y; Path=/b"}, []string{"a=1", "authgate_app_session=x; Path=/a", "authgate_app_session=y; Path=/b"}},
		{"a prefix", []string{"__Host-authgate_login=x; Secure; Path=/"}, []string{"__Host-authgate_app_authgate_login=x; Secure; Path=/"}},
		{"another case", []string{"Session=x"}, []string{"Session=x"}},
		{"the other name", []string{"authgate_app_session=x"}, []string{"authgate_app_authgate_app_session=x"}},
		{"spaces", []string{" \tsession \t= x"}, []string{"authgate_app_session \t= x"}},
		{"quotes", []string{`session="a b"; Path="/"`}, []string{`authgate_app_session="a b"; Path="/"`}},
		{"a quoted name", []string{`"session"=x`}, []string{`"session"=x`}},
		{"no name", []string{"=session=x; Path=/", "= session", "session", "=; Path=/"}, []string{"authgate_app_session=x; Path=/", "authgate_app_session", "authgate_app_session", "=; Path=/"}},
		{"in a value", []string{"a=session=x; session=y"}, []string{"a=session=x; session=y"}},
		{"several in a line", []string{"a=b,session=x", "ok=1", "a=b; Path=/, =session_id", "session,", "session, x=1"}, []string{"ok=1"}},
		{"control characters", []string{"session\x00=x", "a=b\x01"}, []string{}},
	} {
		before := slices.Clone(c.lines)
		got, dropped := allCookies.ToBrowser(c.lines)
		if !slices.Equal(got, c.want) || dropped != len(c.lines)-len(c.want) {
			t.Errorf("%s: %q becomes %q with %d left out, want %q", c.name, c.lines, got, dropped, c.want)
		}
		if !slices.Equal(c.lines, before) {
			t.Errorf("%s: the lines of the upstream are changed to %q", c.name, c.lines)
		}
	}
}

func TestOwnNamesComeBack(t *testing.T) {
	t.Parallel()
	lines := []string{"session_id=ours; authgate_app_session_id=theirs; a=1", "authgate_app_authgate_app_x = y; access_token=ours; __Host-authgate_app_authgate_login=z; authgate_app___Host-x=1"}
	want := []string{"session_id=theirs; a=1", "authgate_app_x = y; __Host-authgate_login=z; authgate_app___Host-x=1"}
	if got := allCookies.ToApplication(lines, false); !slices.Equal(got, want) {
		t.Errorf("the application gets %q, want %q", got, want)
	}
	want = []string{"session_id=ours; authgate_app_session_id=theirs; a=1", "authgate_app_x = y; access_token=ours; __Host-authgate_app_authgate_login=z; authgate_app___Host-x=1"}
	if got := allCookies.ToApplication(lines, true); !slices.Equal(got, want) {
		t.Errorf("with the gateway's cookies the application gets %q, want %q", got, want)
	}
}

// Whatever an upstream sets, the gateway reads none of its own cookies in what browsers
// send back, the upstream gets its own cookie back, and it gets none of the gateway's.
func FuzzSeparateCookies(f *testing.F) {
	for _, line := range []string{
		"session=x; Path=/", "=session=x", "session", " = \tsession_id = x", "a=b, session=x", "authgate_app_session=x", "authgate_app_=x",
		"__Host-authgate_login=x; Secure", "__host-authgate_login=x", "authgate_app___Host-authgate_login=x", "session\x00=x", `session="a,session=b"`,
		"access_token==x", "==session=x", "a,session", "session,", "a=b; Expires=Wed, 09 Jun 2021 10:18:14 GMT", "session\x80=\xff",
	} {
		f.Add(line, "secret")
	}
	f.Fuzz(func(t *testing.T, line, value string) {
		if strings.ContainsAny(line, "\r\n") {
			return // a header cannot contain these
		}
		lines, dropped := allCookies.ToBrowser([]string{line})
		if len(lines)+dropped != 1 {
			t.Fatalf("%q becomes %q with %d left out", line, lines, dropped)
		}
		if dropped == 1 {
			return
		}
		all := oldCookies(lines[0])
		sent, ok := browserCookie(lines[0])
		for _, each := range append(all, sent) {
			read, err := ReadCredentials(http.Header{"Cookie": {each}}, allCookies, netip.Addr{})
			if err != nil || read.Cookies {
				t.Fatalf("%q becomes %q, which comes back as %q: %+v, %v", line, lines, each, read, err)
			}
		}
		if !ok {
			return
		}
		want, _ := browserCookie(line)
		if strings.HasPrefix(strings.TrimLeft(want, " \t"), "=") && want != sent {
			return // the extra signs of "==a=b" are removed
		}
		if strings.ContainsAny(value, ";, \t") {
			value = ""
		}
		got := allCookies.ToApplication([]string{"session=" + value + "ours; " + sent + "; access_token=" + value + "ours"}, false)
		if trimmed := strings.Trim(want, cookieSpace); !sameCookie(got, trimmed) {
			t.Errorf("the upstream sets %q, the browser sends %q, and it gets %q, want %q", line, sent, got, trimmed)
		}
		name, _, _ := nextCookie(sent)
		kept := strings.Join(allCookies.ToApplication([]string{sent}, true), "; ")
		if again, _, _ := nextCookie(kept); allCookies.has(again) {
			t.Errorf("%q is handed over as the gateway's %q", name, again)
		}
	})
}

// sameCookie reports whether the lines hold only the cookie want.
func sameCookie(lines []string, want string) bool {
	if want == "" {
		return len(lines) == 0
	}
	if len(lines) != 1 {
		return false
	}
	name, value, rest := nextCookie(lines[0])
	wantName, wantValue, _ := nextCookie(want)
	return name == wantName && value == wantValue && rest == "" && strings.Contains(lines[0], "=") == strings.Contains(want, "=")
}

func BenchmarkToBrowser(b *testing.B) {
	lines := []string{"theme=dark; Path=/; Max-Age=31536000", "id=0123456789abcdef; Path=/; HttpOnly; Expires=Wed, 09 Jun 2027 10:18:14 GMT"}
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := allCookies.ToBrowser(lines); len(got) != 2 {
			b.Fatal(got)
		}
	}
}
