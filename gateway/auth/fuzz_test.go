package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"authgate/gateway/cookiename"
)

// The application gets none of the gateway's cookies and all others, and the gateway reads
// cookies as net/http does.
func FuzzCookies(f *testing.F) {
	for _, line := range []string{
		"session_id=abc; a=1", "a=1;session_id=x;b=2", " session_id\t= x;; =y", `a="session_id=x; b=2"`, "session_id", "session_id=;session_id=x",
		"SESSION_ID=x; session=1; access_token=2; refresh_token=3", "a\x00b=\xff; session_id=\x80", "; ;=;session_id =", "\rsession=0\n",
	} {
		f.Add(line, "b=2")
		f.Add("x=y", line)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		if strings.Contains(first+second, cookiename.Mark) {
			return // see FuzzSeparateCookies
		}
		read, err := ReadCredentials(http.Header{"Cookie": lines}, testCookies, netip.Addr{})
		kept := testCookies.ToApplication(lines, false)
		again, errAgain := ReadCredentials(http.Header{"Cookie": kept}, testCookies, netip.Addr{})
		if errAgain != nil || again != (Credentials{}) {
			t.Fatalf("%q is left of %q, in which there is %+v, %v", kept, lines, again, errAgain)
		}
		if !slices.Equal(testCookies.ToApplication(kept, false), kept) {
			t.Errorf("%q changes when cut again", kept)
		}
		if err == nil && !read.Cookies && !slices.Equal(pairs(lines), pairs(kept)) {
			t.Errorf("nothing of the gateway is in %q, and %q is left", lines, kept)
		}
		likeNetHTTP(t, lines, kept, read, err)
	})
}

func pairs(lines []string) (all []string) {
	for _, line := range lines {
		for _, pair := range strings.Split(line, ";") {
			if pair = strings.Trim(pair, cookieSpace); pair != "" {
				all = append(all, pair)
			}
		}
	}
	return all
}

func valueOf(c *http.Cookie) string {
	if c.Quoted {
		return `"` + c.Value + `"`
	}
	return strings.Trim(c.Value, cookieSpace)
}

// likeNetHTTP compares with net/http if that accepts the lines.
func likeNetHTTP(t *testing.T, lines, kept []string, read Credentials, err error) {
	t.Helper()
	var others []string
	values := make(map[string][]string)
	for _, line := range lines {
		cookies, err := http.ParseCookie(line)
		if err != nil {
			return
		}
		for _, c := range cookies {
			value := valueOf(c)
			if !testCookies.has(c.Name) {
				others = append(others, c.Name+"="+value)
			} else if !slices.Contains(values[c.Name], value) {
				values[c.Name] = append(values[c.Name], value)
			}
		}
	}
	want := Credentials{Cookies: len(values) > 0}
	for name, at := range map[string]*string{"session_id": &want.Session, "session": &want.Delegated, "login": &want.Browser, "access_token": &want.Access, "refresh_token": &want.Refresh} {
		if len(values[name]) > 1 {
			if !errors.Is(err, ErrAmbiguous) {
				t.Errorf("%q holds two values of %s: got %+v, %v", lines, name, read, err)
			}
			return
		}
		*at = strings.Join(values[name], "")
	}
	if err != nil || read != want {
		t.Errorf("%q: got %+v, %v, want %+v", lines, read, err, want)
	}
	var left []string
	for _, line := range kept {
		cookies, err := http.ParseCookie(line)
		if err != nil {
			t.Fatalf("%q of %q is no list of cookies: %v", kept, lines, err)
		}
		for _, c := range cookies {
			left = append(left, c.Name+"="+valueOf(c))
		}
	}
	if !slices.Equal(left, others) {
		t.Errorf("the application gets %q of %q, want %q", left, lines, others)
	}
}

// An Authorization header is a scheme in lower case and a value.
func FuzzAuthorization(f *testing.F) {
	for _, v := range []string{"Basic YTpi", "Bearer a.b.c", "bearer", "Bearer ", "a.b.c", " \tBASIC  x ", "Bearer\tx", "", "BASİC YTpi", "\xaf x"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		c, err := ReadCredentials(http.Header{"Authorization": {v}}, testCookies, netip.Addr{})
		if err != nil {
			t.Fatalf("%q: %v", v, err)
		}
		trimmed := strings.Trim(v, " \t")
		if strings.ContainsAny(c.Scheme, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") || (c.Scheme == "") != (trimmed == "") {
			t.Errorf("%q is read as the scheme %q", v, c.Scheme)
		}
		if (c.Scheme == "basic" || c.Scheme == "bearer") && !strings.EqualFold(trimmed[:len(c.Scheme)], c.Scheme) {
			t.Errorf("%q is read as the scheme %q", v, c.Scheme)
		}
		if c.Value != "" && (strings.HasPrefix(c.Value, " ") || !strings.HasSuffix(trimmed, " "+c.Value)) {
			t.Errorf("%q is read as %q, %q: a value without a scheme word", v, c.Scheme, c.Value)
		}
		if _, err := ReadCredentials(http.Header{"Authorization": {v, v}}, testCookies, netip.Addr{}); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("twice: got %v", err)
		}
	})
}

// Basic credentials have one spelling.
func FuzzParseBasic(f *testing.F) {
	for _, raw := range []string{"a:b", "a:", ":", "a:b:c", "a", "\x00:b", "a:\xff", "ä:ü"} {
		f.Add(encoded(raw))
	}
	f.Add("!!!")
	f.Add("YTpi\n")
	f.Add("YTp=")
	f.Fuzz(func(t *testing.T, value string) {
		username, password, err := ParseBasic(value)
		if err != nil {
			if username != "" || password != "" {
				t.Errorf("%q: got %q, %q with the error %v", value, username, password, err)
			}
			return
		}
		if strings.Contains(username, ":") || encoded(username+":"+password) != value {
			t.Errorf("%q is read as %q, %q", value, username, password)
		}
		for _, r := range username + password {
			if r < 0x20 || r == 0x7f {
				t.Errorf("%q: control character %q", value, r)
			}
		}
		if !utf8.ValidString(username) || !utf8.ValidString(password) {
			t.Errorf("%q: got %q, %q, not UTF-8", value, username, password)
		}
	})
}
