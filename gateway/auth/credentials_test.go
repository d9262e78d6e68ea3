package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"testing"
)

var testCookies = &CookieNames{Session: "session_id", Delegated: "session", Browser: "login", Access: "access_token", Refresh: "refresh_token"}

func TestReadCredentials(t *testing.T) {
	t.Parallel()
	client := netip.MustParseAddr("192.0.2.7")
	authorization := func(values ...string) http.Header { return http.Header{"Authorization": values} }
	cookie := func(lines ...string) http.Header { return http.Header{"Cookie": lines} }
	for _, test := range []struct {
		name   string
		header http.Header
		want   Credentials
	}{
		{"nothing", http.Header{}, Credentials{}},
		{"basic", authorization("Basic YTpi"), Credentials{Scheme: "basic", Value: "YTpi"}},
		{"bearer", authorization("Bearer a.b.c"), Credentials{Scheme: "bearer", Value: "a.b.c"}},
		{"scheme in capitals", authorization("BEARER a.B.c"), Credentials{Scheme: "bearer", Value: "a.B.c"}},
		{"scheme in small letters", authorization("bAsIc YTpi"), Credentials{Scheme: "basic", Value: "YTpi"}},
		{"outer space", authorization(" \tBearer   a.b.c \t"), Credentials{Scheme: "bearer", Value: "a.b.c"}},
		{"scheme alone", authorization("Bearer"), Credentials{Scheme: "bearer"}},
		{"scheme and a space", authorization("Bearer "), Credentials{Scheme: "bearer"}},
		{"no scheme word", authorization("a.B.c"), Credentials{Scheme: "a.b.c"}},
		{"space in front alone", authorization(" a.b.c"), Credentials{Scheme: "a.b.c"}},
		{"scheme not in ASCII", authorization("BASİC YTpi"), Credentials{Scheme: "basİc", Value: "YTpi"}},
		{"empty", authorization(""), Credentials{}},
		{"two in one line", authorization("Bearer a, Basic b"), Credentials{Scheme: "bearer", Value: "a, Basic b"}},
		{"tab after the scheme", authorization("Bearer\ta.b.c"), Credentials{Scheme: "bearer\ta.b.c"}},
		{"not an Authorization", http.Header{"Proxy-Authorization": {"Basic YTpi"}, "X-Authorization": {"Basic YTpi"}}, Credentials{}},

		{"session", cookie("session_id=abc"), Credentials{Session: "abc", Cookies: true}},
		{"all", cookie("refresh_token=r; session_id=s; session=d; access_token=a; login=b"), Credentials{Session: "s", Delegated: "d", Browser: "b", Access: "a", Refresh: "r", Cookies: true}},
		{"over several lines", cookie("session_id=s", "x=1", "session=d"), Credentials{Session: "s", Delegated: "d", Cookies: true}},
		{"among others", cookie("a=1;session_id=s;b=2"), Credentials{Session: "s", Cookies: true}},
		{"spaces and tabs", cookie(" \t session_id = s \t;;; "), Credentials{Session: "s", Cookies: true}},
		{"equals signs in the value", cookie("session_id=a=b=="), Credentials{Session: "a=b==", Cookies: true}},
		{"quotes belong to the value", cookie(`session_id="abc"`), Credentials{Session: `"abc"`, Cookies: true}},
		{"a semicolon ends even what is quoted", cookie(`x="1; session_id=s"`), Credentials{Session: `s"`, Cookies: true}},
		{"the same twice", cookie("session_id=s; session_id=s"), Credentials{Session: "s", Cookies: true}},
		{"the same on two lines", cookie("session_id=s", "session_id=s"), Credentials{Session: "s", Cookies: true}},
		{"empty", cookie("session_id="), Credentials{Cookies: true}},
		{"empty twice", cookie("session_id=; session_id"), Credentials{Cookies: true}},
		{"name alone", cookie("session_id"), Credentials{Cookies: true}},
		{"names of others", cookie("SESSION_ID=a; session_idx=b; xsession_id=c; =d; $session_id=e; session%5Fid=f"), Credentials{}},
		{"no name", cookie("=session_id; ="), Credentials{}},
		{"both", http.Header{"Authorization": {"Bearer t"}, "Cookie": {"session_id=s"}}, Credentials{Scheme: "bearer", Value: "t", Session: "s", Cookies: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.header.Set("User-Agent", "test/1")
			got, err := ReadCredentials(test.header, testCookies, client)
			test.want.Client, test.want.UserAgent = client, "test/1"
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestReadCredentialsRefusesAmbiguity(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"two Authorization headers":      {"Authorization": {"Basic YTpi", "Bearer a.b.c"}},
		"the same Authorization twice":   {"Authorization": {"Bearer a.b.c", "Bearer a.b.c"}},
		"an empty Authorization as well": {"Authorization": {"", "Bearer a.b.c"}},
		"two sessions":                   {"Cookie": {"session_id=a; session_id=b"}},
		"two sessions on two lines":      {"Cookie": {"session_id=a; x=1", "y=2; session_id=b"}},
		"empty, then a session":          {"Cookie": {"session_id=; session_id=b"}},
		"a session, then empty":          {"Cookie": {"session_id=a; session_id="}},
		"a session, then a name alone":   {"Cookie": {"session_id=a", "session_id"}},
		"two of three":                   {"Cookie": {"session_id=a; session_id=a; session_id=b"}},
		"with and without quotes":        {"Cookie": {`session_id=a; session_id="a"`}},
		"in another case":                {"Cookie": {"session_id=a; session_id=A"}},
		"delegated":                      {"Cookie": {"session=a; session=b"}},
		"access":                         {"Cookie": {"access_token=a; access_token=b"}},
		"refresh":                        {"Cookie": {"refresh_token=a; refresh_token=b"}},
		"browser":                        {"Cookie": {"login=a; login=b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadCredentials(header, testCookies, netip.Addr{})
			if got != (Credentials{}) || !errors.Is(err, ErrAmbiguous) {
				t.Errorf("got %+v, %v, want nothing and ErrAmbiguous", got, err)
			}
		})
	}
}

// A role without a cookie name never has a value.
func TestReadCredentialsOfRolesInUse(t *testing.T) {
	t.Parallel()
	names := &CookieNames{Session: "sid"}
	header := http.Header{"Cookie": {"session=1; session=2; =3; access_token=4; login=5; sid=s"}}
	got, err := ReadCredentials(header, names, netip.Addr{})
	if want := (Credentials{Session: "s", Cookies: true}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if kept := names.ToApplication(header["Cookie"], false); !slices.Equal(kept, []string{"session=1; session=2; =3; access_token=4; login=5"}) {
		t.Errorf("kept %q", kept)
	}
	got, err = ReadCredentials(header, &CookieNames{}, netip.Addr{})
	if err != nil || got != (Credentials{}) {
		t.Errorf("without any name: got %+v, %v", got, err)
	}
}

func TestToApplication(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		lines, want []string
	}{
		{"nothing", nil, nil},
		{"the gateway's alone", []string{"session_id=s"}, nil},
		{"the gateway's on two lines", []string{"session_id=s", "session=d; access_token=a; refresh_token=r; login=b"}, nil},
		{"the application's alone", []string{"a=1; b=2"}, []string{"a=1; b=2"}},
		{"first", []string{"session_id=s; a=1; b=2"}, []string{"a=1; b=2"}},
		{"in the middle", []string{"a=1; session_id=s; b=2"}, []string{"a=1; b=2"}},
		{"last", []string{"a=1; b=2; session_id=s"}, []string{"a=1; b=2"}},
		{"twice", []string{"session_id=s; a=1; session_id=t"}, []string{"a=1"}},
		{"without a value", []string{"session_id; a=1; session_id="}, []string{"a=1"}},
		{"in odd spacing", []string{"\tsession_id = s ;a=1; \tsession\t=x"}, []string{"a=1"}},
		{"lines stay lines", []string{"a=1; session_id=s", "session=d", "b=2"}, []string{"a=1", "b=2"}},
		{"bytes stay bytes", []string{"a=\"x y\"; session_id=s; b=%3B,\\\x80\xff=; c==; =d; e"}, []string{"a=\"x y\"; b=%3B,\\\x80\xff=; c==; =d; e"}},
		{"inner space stays", []string{"a = 1\t2 ; session_id=s"}, []string{"a = 1\t2"}},
		{"names of others", []string{"SESSION_ID=a; session_idx=b; xsession_id=c"}, []string{"SESSION_ID=a; session_idx=b; xsession_id=c"}},
		{"order and doubles stay", []string{"b=2; a=1; session_id=s; b=3; a=1"}, []string{"b=2; a=1; b=3; a=1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			given := slices.Clone(test.lines)
			if got := testCookies.ToApplication(test.lines, false); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !slices.Equal(test.lines, given) {
				t.Errorf("the caller's lines were changed to %q", test.lines)
			}
		})
	}
}
