package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// allCookies has a name for every role.
var allCookies = &CookieNames{
	Session: "session_id", Delegated: "session", Browser: "__Host-authgate_login", Access: "access_token",
	Refresh: "refresh_token", Language: "__Host-authgate_language", Ended: "authgate_ended",
}

func TestToBrowser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		lines, want []string
	}{
		{"nothing of ours", []string{"theme=dark; Path=/", "a=b, c=d"}, []string{"theme=dark; Path=/", "a=b, c=d"}},
		{"deleted", []string{"session=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/"},
			[]string{"authgate_app_session=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/"}},
		{"several", []string{"a=1", "session=x; Path=/a", "session=y; Path=/b"},
			[]string{"a=1", "authgate_app_session=x; Path=/a", "authgate_app_session=y; Path=/b"}},
		{"a prefix", []string{"__Host-authgate_login=x; Secure; Path=/"},
			[]string{"__Host-authgate_app_authgate_login=x; Secure; Path=/"}},
		{"another case", []string{"Session=x"}, []string{"Session=x"}},
		{"the other name", []string{"authgate_app_session=x"}, []string{"authgate_app_authgate_app_session=x"}},
		{"spaces", []string{" \tsession \t= x"}, []string{"authgate_app_session \t= x"}},
		{"quotes", []string{`session="a b"; Path="/"`, `"session"=x`},
			[]string{`authgate_app_session="a b"; Path="/"`, `"session"=x`}},
		{"no name", []string{"=session=x; Path=/", "= session", "session", "=; Path=/"},
			[]string{"authgate_app_session=x; Path=/", "authgate_app_session", "authgate_app_session", "=; Path=/"}},
		{"in a value", []string{"a=session=x; session=y"}, []string{"a=session=x; session=y"}},
		{"several in a line", []string{"a=b,session=x", "ok=1", "a=b; Path=/, =session_id", "session,", "session, x=1"},
			[]string{"ok=1"}},
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

// The application gets its cookies under their own names, and none of the gateway's unless it keeps them.
func TestToApplication(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		keep        bool
		lines, want []string
	}{
		{"nothing", false, nil, nil},
		{"the gateway's on two lines", false,
			[]string{"session_id=s; authgate_ended=e", "session=d; access_token=a; refresh_token=r; __Host-authgate_login=b"}, nil},
		{"among others", false, []string{"session_id=s; a=1; session_id=t; b=2; session_id; session_id="},
			[]string{"a=1; b=2"}},
		{"in odd spacing", false, []string{"\tsession_id = s ;a=1; \tsession\t=x"}, []string{"a=1"}},
		{"lines stay lines", false, []string{"a=1; session_id=s", "session=d", "b=2"}, []string{"a=1", "b=2"}},
		{"bytes stay bytes", false, []string{"a=\"x y\"; session_id=s; b=%3B,\\\x80\xff=; c==; =d; e"},
			[]string{"a=\"x y\"; b=%3B,\\\x80\xff=; c==; =d; e"}},
		{
			"as Java sends them", false,
			[]string{`$Version="1"; session_id="s";$Path="/";$Domain="gw.example"; x="1";$Path="/"`},
			[]string{`$Version="1"; x="1"; $Path="/"`},
		},
		{
			"as Java sends them, the gateway's alone", false,
			[]string{`$Version="1"; session_id="s";$Path="/";$Port="443"`, "$Version=1"}, []string{"$Version=1"},
		},
		{
			"as Java sends them, kept", true,
			[]string{`$Version="1"; session_id="s";$Path="/"`}, []string{`$Version="1"; session_id="s"; $Path="/"`},
		},
		{
			"as Java sends them, an own name comes back", false,
			[]string{`$Version="1"; authgate_app_session_id="s";$Path="/"`},
			[]string{`$Version="1"; session_id="s"; $Path="/"`},
		},
		{"inner space stays", false, []string{"a = 1\t2 ; session_id=s"}, []string{"a = 1\t2"}},
		{"names of others", false, []string{"SESSION_ID=a; session_idx=b; xsession_id=c"},
			[]string{"SESSION_ID=a; session_idx=b; xsession_id=c"}},
		{"order and doubles stay", false, []string{"b=2; a=1; session_id=s; b=3; a=1"}, []string{"b=2; a=1; b=3; a=1"}},
		{"own names come back", false, []string{"session_id=ours; authgate_app_session_id=theirs; a=1"},
			[]string{"session_id=theirs; a=1"}},
		{"prefixes and doubled marks", false, []string{"authgate_app_authgate_app_x = y; access_token=ours; " +
			"__Host-authgate_app_authgate_login=z; authgate_app___Host-x=1"},
			[]string{"authgate_app_x = y; __Host-authgate_login=z; authgate_app___Host-x=1"}},
		{"kept", true, []string{"session_id=ours; authgate_app_session_id=theirs; a=1"},
			[]string{"session_id=ours; authgate_app_session_id=theirs; a=1"}},
		{"kept, with a prefix", true, []string{"authgate_app_authgate_app_x = y; __Host-authgate_app_authgate_login=z"},
			[]string{"authgate_app_x = y; __Host-authgate_app_authgate_login=z"}},
	} {
		given := slices.Clone(c.lines)
		if got := allCookies.ToApplication(c.lines, c.keep, ""); !slices.Equal(got, c.want) ||
			!slices.Equal(c.lines, given) {
			t.Errorf("%s: got %q of %q, now %q, want %q", c.name, got, given, c.lines, c.want)
		}
	}
}

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
	if name == "" {
		return value, value != ""
	}
	return name + "=" + value, true
}

// Whatever an upstream sets, the gateway reads none of its own cookies in what browsers
// send back, the upstream gets its own cookie back, and it gets none of the gateway's.
func FuzzSeparateCookies(f *testing.F) {
	for _, line := range []string{
		"session=x; Path=/", "=session=x", "session", " = \tsession_id = x", "a=b, session=x",
		"authgate_app_session=x", "authgate_app_=x",
		"__Host-authgate_login=x; Secure", "__Host-authgate_language=de; Secure", "__host-authgate_login=x",
		"authgate_app___Host-authgate_login=x", "session\x00=x", `session="a,session=b"`,
		"access_token==x", "==session=x", "a,session", "session,",
		"a=b; Expires=Wed, 09 Jun 2021 10:18:14 GMT", "session\x80=\xff",
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
		sent, ok := browserCookie(lines[0])
		for _, part := range append(strings.Split(lines[0], ","), lines[0]) { // old clients find several cookies in one line
			each, _ := browserCookie(part)
			read, err := readCredentials(http.Header{"Cookie": {each}}, allCookies, netip.Addr{})
			if err != nil || read.Cookies || read.Notes {
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
		got := allCookies.ToApplication([]string{
			"session=" + value + "ours; " + sent + "; access_token=" + value + "ours"}, false, "")
		if trimmed := strings.Trim(want, " \t\r\n"); !sameCookie(got, trimmed) {
			t.Errorf("the upstream sets %q, the browser sends %q, and it gets %q, want %q", line, sent, got, trimmed)
		}
		kept := strings.Join(allCookies.ToApplication([]string{sent}, true, ""), "; ")
		if again, _, _ := nextCookie(kept); allCookies.has(again) {
			t.Errorf("%q is handed over as the gateway's %q", sent, again)
		}
	})
}

// sameCookie reports whether the lines hold only the cookie want.
func sameCookie(lines []string, want string) bool {
	if want == "" || len(lines) != 1 {
		return want == "" && len(lines) == 0
	}
	name, value, rest := nextCookie(lines[0])
	wantName, wantValue, _ := nextCookie(want)
	return name == wantName && value == wantValue && rest == "" &&
		strings.Contains(lines[0], "=") == strings.Contains(want, "=")
}

// The application gets none of the gateway's cookies and all others, and the gateway reads
// cookies as net/http does, if that accepts the lines.
func FuzzCookies(f *testing.F) {
	for _, line := range []string{
		"session_id=abc; a=1", "a=1;session_id=x;b=2", `session_id="abc"; session_id=abc`,
		`session="";access_token="`, " session_id\t= x;; =y", `a="session_id=x; b=2"`, "session_id",
		"session_id=;session_id=x",
		"SESSION_ID=x; session=1; access_token=2; refresh_token=3", "a\x00b=\xff; session_id=\x80",
		"; ;=;session_id =", "\rsession=0\n",
	} {
		f.Add(line, "b=2")
		f.Add("x=y", line)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		if strings.Contains(first+second, "authgate_app_") || strings.Contains(first+second, "$") {
			return // see FuzzSeparateCookies; to net/http, attributes of cookies are cookies
		}
		read, err := readCredentials(http.Header{"Cookie": lines}, allCookies, netip.Addr{})
		kept := allCookies.ToApplication(lines, false, "")
		again, errAgain := readCredentials(http.Header{"Cookie": kept}, allCookies, netip.Addr{})
		if errAgain != nil || again != (Credentials{}) {
			t.Fatalf("%q is left of %q, in which there is %+v, %v", kept, lines, again, errAgain)
		}
		if !slices.Equal(allCookies.ToApplication(kept, false, ""), kept) {
			t.Errorf("%q changes when cut again", kept)
		}
		if err == nil && !read.Cookies && !read.Notes && !slices.Equal(pairs(lines), pairs(kept)) {
			t.Errorf("nothing of the gateway is in %q, and %q is left", lines, kept)
		}
		values, others, ok := netHTTPCookies(lines)
		if !ok {
			return
		}
		var want Credentials
		ambiguous := false
		for name, at := range map[string]*string{
			"session_id": &want.Session, "session": &want.Delegated, "__Host-authgate_login": &want.Browser,
			"access_token": &want.Access, "refresh_token": &want.Refresh,
		} {
			ambiguous = ambiguous || len(values[name]) > 1
			*at = strings.Join(values[name], "")
			want.Cookies = want.Cookies || len(values[name]) > 0
		}
		want.Notes = len(values["__Host-authgate_language"])+len(values["authgate_ended"]) > 0
		want.Ended = read.Ended // the last one
		if ambiguous != (err != nil) || err == nil && read != want {
			t.Errorf("%q: got %+v, %v, want %+v, or an error: %v", lines, read, err, want, ambiguous)
		}
		if _, left, ok := netHTTPCookies(kept); !ok || !ambiguous && !slices.Equal(left, others) {
			t.Errorf("the application gets %q of %q, want %q", left, lines, others)
		}
	})
}

func pairs(lines []string) (all []string) {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if pair = strings.Trim(pair, " \t\r\n"); pair != "" {
				all = append(all, pair)
			}
		}
	}
	return all
}

// netHTTPCookies returns the values of the gateway's cookies and all others as net/http
// reads them, or false if it does not accept the lines.
func netHTTPCookies(lines []string) (values map[string][]string, others []string, ok bool) {
	values = make(map[string][]string)
	for _, line := range lines {
		cookies, err := http.ParseCookie(line)
		if err != nil {
			return nil, nil, false
		}
		for _, c := range cookies {
			value := strings.Trim(c.Value, " \t\r\n")
			if c.Quoted {
				if value = c.Value; !allCookies.has(c.Name) {
					value = `"` + value + `"`
				}
			}
			if !allCookies.has(c.Name) {
				others = append(others, c.Name+"="+value)
			} else if !slices.Contains(values[c.Name], value) {
				values[c.Name] = append(values[c.Name], value)
			}
		}
	}
	return values, others, true
}

func authorization(values ...string) http.Header { return http.Header{"Authorization": values} }

func cookie(lines ...string) http.Header { return http.Header{"Cookie": lines} }

// readCredentials returns the credentials in h, read over those of another request.
func readCredentials(h http.Header, names *CookieNames, client netip.Addr) (Credentials, error) {
	c := Credentials{Scheme: "basic", Value: "eDp5", Session: "4711", Scope: "old.example", Cookies: true, Renamed: true}
	err := c.Read(h, names, client)
	return c, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	for _, test := range []struct {
		name   string
		header http.Header
		want   Credentials
	}{
		{"nothing", http.Header{}, Credentials{}},
		{"scheme in capitals", authorization("BEARER a.B.c"), Credentials{Scheme: "bearer", Value: "a.B.c"}},
		{"outer space", authorization(" \tBearer   a.b.c \t"), Credentials{Scheme: "bearer", Value: "a.b.c"}},
		{"scheme alone", authorization("Bearer "), Credentials{Scheme: "bearer"}},
		{"no scheme word", authorization("a.B.c"), Credentials{Scheme: "a.b.c"}},
		{"scheme not in ASCII", authorization("BASİC YTpi"), Credentials{Scheme: "basİc", Value: "YTpi"}},
		{"empty", authorization(""), Credentials{}},
		{"two in one line", authorization("Bearer a, Basic b"), Credentials{Scheme: "bearer", Value: "a, Basic b"}},
		{"tab after the scheme", authorization("Bearer\ta.b.c"), Credentials{Scheme: "bearer\ta.b.c"}},
		{"not an Authorization", http.Header{"Proxy-Authorization": {"Basic YTpi"}, "X-Authorization": {"Basic YTpi"}},
			Credentials{}},

		{"all", cookie("refresh_token=r; session_id=s; session=d; access_token=a; __Host-authgate_login=b"),
			Credentials{Session: "s", Delegated: "d", Browser: "b", Access: "a", Refresh: "r", Cookies: true}},
		{"what proves nothing", cookie("__Host-authgate_language=de; authgate_ended=e; authgate_ended=f"),
			Credentials{Notes: true, Ended: "f"}},
		{"over several lines", cookie("session_id=s", "x=1", "session=d"),
			Credentials{Session: "s", Delegated: "d", Cookies: true}},
		{"spaces and tabs", cookie(" \t session_id = s \t;;; "), Credentials{Session: "s", Cookies: true}},
		{"equals signs in the value", cookie("session_id=a=b=="), Credentials{Session: "a=b==", Cookies: true}},
		{
			"in quotes", cookie(`session_id="abc"; session=""; access_token="`),
			Credentials{Session: "abc", Access: `"`, Cookies: true},
		},
		{
			"as Java sends them",
			cookie(`$Version="1"; session_id="s";$Path="/";$Domain="gw.example"; x="1";$Path="/"`),
			Credentials{Session: "s", Cookies: true},
		},
		{
			"in quotes and without", cookie(`session_id=s; session_id="s"`, "session_id=s"),
			Credentials{Session: "s", Cookies: true},
		},
		{"a semicolon ends even what is quoted", cookie(`x="1; session_id=s"`), Credentials{Session: `s"`, Cookies: true}},
		{"the same twice", cookie("session_id=s; session_id=s", "session_id=s"), Credentials{Session: "s", Cookies: true}},
		{"empty twice", cookie("session_id=; session_id"), Credentials{Cookies: true}},
		{"names of others", cookie("SESSION_ID=a; session_idx=b; xsession_id=c; =d; $session_id=e; session%5Fid=f"),
			Credentials{}},
		{"no name", cookie("=session_id; ="), Credentials{}},
		{"under another name", cookie("authgate_app_session=x"), Credentials{Renamed: true}},
		{"both", http.Header{"Authorization": {"Bearer t"}, "Cookie": {"session_id=s"}},
			Credentials{Scheme: "bearer", Value: "t", Session: "s", Cookies: true}},
	} {
		test.header.Set("User-Agent", "test/1")
		got, err := readCredentials(test.header, allCookies, client)
		test.want.Client, test.want.UserAgent = client, "test/1"
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
}

func TestReadRefusesAmbiguity(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{
		authorization("Basic YTpi", "Bearer a.b.c"), authorization("Bearer a.b.c", "Bearer a.b.c"),
		authorization("", "Bearer a.b.c"), cookie("session_id=a; session_id=b"),
		cookie("session_id=a; x=1", "y=2; session_id=b"), cookie("session_id=a; session_id=a; session_id=b"),
		cookie("session_id=; session_id=b"), cookie("session_id=a; session_id="), cookie("session_id=a", "session_id"),
		cookie(`session_id=a; session_id="b"`), cookie(`session_id="a"; session_id=""`), cookie("session_id=a; session_id=A"),
		cookie("session=a; session=b"), cookie("access_token=a; access_token=b"), cookie("refresh_token=a; refresh_token=b"),
		cookie("__Host-authgate_login=a; __Host-authgate_login=b"),
	} {
		if got, err := readCredentials(header, allCookies, netip.Addr{}); got != (Credentials{}) ||
			!errors.Is(err, ErrAmbiguous) {
			t.Errorf("%q: got %+v, %v, want nothing and ErrAmbiguous", header, got, err)
		}
	}
}

// A role without a cookie name never has a value.
func TestReadOfRolesInUse(t *testing.T) {
	t.Parallel()
	header := cookie("session=1; session=2; =3; access_token=4; login=5; sid=s")
	for _, test := range []struct {
		names *CookieNames
		want  Credentials
		kept  string
	}{
		{&CookieNames{Session: "sid"}, Credentials{Session: "s", Cookies: true},
			"session=1; session=2; =3; access_token=4; login=5"},
		{&CookieNames{}, Credentials{}, header.Get("Cookie")},
	} {
		if got, err := readCredentials(header, test.names, netip.Addr{}); err != nil || got != test.want {
			t.Errorf("%+v: got %+v, %v, want %+v", test.names, got, err, test.want)
		}
		if kept := test.names.ToApplication(header["Cookie"], false, ""); !slices.Equal(kept, []string{test.kept}) {
			t.Errorf("%+v: kept %q, want %q", test.names, kept, test.kept)
		}
	}
}

// An Authorization header is a scheme in lower case and a value.
func FuzzAuthorization(f *testing.F) {
	for _, v := range []string{
		"Basic YTpi", "Bearer a.b.c", "bearer", "Bearer ", "a.b.c", " \tBASIC  x ", "Bearer\tx", "", "BASİC YTpi", "\xaf x",
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		c, err := readCredentials(authorization(v), allCookies, netip.Addr{})
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
		if _, err := readCredentials(authorization(v, v), allCookies, netip.Addr{}); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("twice: got %v", err)
		}
	})
}
