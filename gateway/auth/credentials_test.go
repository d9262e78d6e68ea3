package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func authorization(values ...string) http.Header { return http.Header{"Authorization": values} }

func cookie(lines ...string) http.Header { return http.Header{"Cookie": lines} }

func TestReadCredentials(t *testing.T) {
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
		{"not an Authorization", http.Header{"Proxy-Authorization": {"Basic YTpi"}, "X-Authorization": {"Basic YTpi"}}, Credentials{}},

		{"all", cookie("refresh_token=r; session_id=s; session=d; access_token=a; __Host-authgate_login=b"),
			Credentials{Session: "s", Delegated: "d", Browser: "b", Access: "a", Refresh: "r", Cookies: true}},
		{"over several lines", cookie("session_id=s", "x=1", "session=d"), Credentials{Session: "s", Delegated: "d", Cookies: true}},
		{"spaces and tabs", cookie(" \t session_id = s \t;;; "), Credentials{Session: "s", Cookies: true}},
		{"equals signs in the value", cookie("session_id=a=b=="), Credentials{Session: "a=b==", Cookies: true}},
		{"quotes belong to the value", cookie(`session_id="abc"`), Credentials{Session: `"abc"`, Cookies: true}},
		{"a semicolon ends even what is quoted", cookie(`x="1; session_id=s"`), Credentials{Session: `s"`, Cookies: true}},
		{"the same twice", cookie("session_id=s; session_id=s", "session_id=s"), Credentials{Session: "s", Cookies: true}},
		{"empty twice", cookie("session_id=; session_id"), Credentials{Cookies: true}},
		{"names of others", cookie("SESSION_ID=a; session_idx=b; xsession_id=c; =d; $session_id=e; session%5Fid=f"), Credentials{}},
		{"no name", cookie("=session_id; ="), Credentials{}},
		{"under another name", cookie("authgate_app_session=x"), Credentials{Renamed: true}},
		{"both", http.Header{"Authorization": {"Bearer t"}, "Cookie": {"session_id=s"}}, Credentials{Scheme: "bearer", Value: "t", Session: "s", Cookies: true}},
	} {
		test.header.Set("User-Agent", "test/1")
		got, err := ReadCredentials(test.header, allCookies, client)
		test.want.Client, test.want.UserAgent = client, "test/1"
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
}

func TestReadCredentialsRefusesAmbiguity(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{
		authorization("Basic YTpi", "Bearer a.b.c"), authorization("Bearer a.b.c", "Bearer a.b.c"), authorization("", "Bearer a.b.c"),
		cookie("session_id=a; session_id=b"), cookie("session_id=a; x=1", "y=2; session_id=b"), cookie("session_id=a; session_id=a; session_id=b"),
		cookie("session_id=; session_id=b"), cookie("session_id=a; session_id="), cookie("session_id=a", "session_id"),
		cookie(`session_id=a; session_id="a"`), cookie("session_id=a; session_id=A"),
		cookie("session=a; session=b"), cookie("access_token=a; access_token=b"), cookie("refresh_token=a; refresh_token=b"),
		cookie("__Host-authgate_login=a; __Host-authgate_login=b"),
	} {
		if got, err := ReadCredentials(header, allCookies, netip.Addr{}); got != (Credentials{}) || !errors.Is(err, ErrAmbiguous) {
			t.Errorf("%q: got %+v, %v, want nothing and ErrAmbiguous", header, got, err)
		}
	}
}

// A role without a cookie name never has a value.
func TestReadCredentialsOfRolesInUse(t *testing.T) {
	t.Parallel()
	header := cookie("session=1; session=2; =3; access_token=4; login=5; sid=s")
	for _, test := range []struct {
		names *CookieNames
		want  Credentials
		kept  string
	}{
		{&CookieNames{Session: "sid"}, Credentials{Session: "s", Cookies: true}, "session=1; session=2; =3; access_token=4; login=5"},
		{&CookieNames{}, Credentials{}, header.Get("Cookie")},
	} {
		if got, err := ReadCredentials(header, test.names, netip.Addr{}); err != nil || got != test.want {
			t.Errorf("%+v: got %+v, %v, want %+v", test.names, got, err, test.want)
		}
		if kept := test.names.ToApplication(header["Cookie"], false); !slices.Equal(kept, []string{test.kept}) {
			t.Errorf("%+v: kept %q, want %q", test.names, kept, test.kept)
		}
	}
}

// An Authorization header is a scheme in lower case and a value.
func FuzzAuthorization(f *testing.F) {
	for _, v := range []string{"Basic YTpi", "Bearer a.b.c", "bearer", "Bearer ", "a.b.c", " \tBASIC  x ", "Bearer\tx", "", "BASİC YTpi", "\xaf x"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		c, err := ReadCredentials(authorization(v), allCookies, netip.Addr{})
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
		if _, err := ReadCredentials(authorization(v, v), allCookies, netip.Addr{}); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("twice: got %v", err)
		}
	})
}
