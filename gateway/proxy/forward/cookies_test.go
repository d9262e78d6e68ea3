package forward

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// An upstream and the gateway use cookies of the same names, and neither sees
// or changes the other's. Lines that clients read in two ways are left out.
func TestSeparateCookies(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base+"  - {match: /kept/, upstream: app, auth: [session], forward_credentials: true}\n")
	cookie := aliceSession
	ours := strings.TrimPrefix(cookie, "Cookie: ")
	for _, c := range []struct {
		says, want []string
	}{
		{[]string{"session_id=theirs; Path=/", "a=b"}, []string{"authgate_app_session_id=theirs; Path=/", "a=b"}},
		{[]string{"access_token=theirs"}, []string{"access_token=theirs"}}, // of a mechanism that is not in use
		{[]string{"a=b, session_id=theirs"}, nil},
		{
			[]string{"__Host-authgate_language=xx; Path=/; Secure"},
			[]string{"__Host-authgate_app_authgate_language=xx; Path=/; Secure"},
		},
	} {
		for _, status := range []int{200, 302, 500} {
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				return ownrig.Response(q, status, http.Header{"Set-Cookie": slices.Clone(c.says),
					"Set-Cookie2": {"session_id=x"}},
					""), nil
			}
			for _, target := range []string{"/session/", "/public/", "/kept/"} {
				if h := r.Do("GET", target, "", cookie).Result().Header; !slices.Equal(h["Set-Cookie"], c.want) ||
					h["Set-Cookie2"] != nil {
					t.Errorf("%d of %s sets %q and %q, want %q", status, target, h["Set-Cookie"], h["Set-Cookie2"],
						c.want)
				}
			}
		}
	}
	r.app.Answer = nil
	r.Want(200, "GET", "/public/", "")
	if got := r.log.Records(t, "cookies of an upstream are left out: "+
		"clients could read them as the gateway's"); len(got) != 9 || got[0]["upstream"] != "app" ||
		got[0]["cookies"] != 1.0 {
		t.Errorf("the log says %v", got)
	}
	for _, c := range []struct{ target, sent, want string }{
		{"/session/", ours + "; authgate_app_session_id=theirs; a=b", "session_id=theirs; a=b"},
		{"/public/", ours + "; authgate_app_session_id=theirs; a=b", "session_id=theirs; a=b"},
		{"/kept/", ours + "; authgate_app_session_id=theirs; a=b", ours + "; authgate_app_session_id=theirs; a=b"},
		{"/public/", "authgate_app_session_id=theirs", "session_id=theirs"},
		{"/public/", "a=b; __Host-authgate_language=de", "a=b"},
		{"/kept/", ours + "; __Host-authgate_language=de", ours + "; __Host-authgate_language=de"},
		{"/public/", "a=b; __Host-authgate_app_authgate_language=de", "a=b; __Host-authgate_language=de"},
	} {
		r.Want(200, "GET", c.target, "", "Cookie: "+c.sent)
		if got := r.app.Last().Header["Cookie"]; !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: the upstream gets %q, want %q", c.target, got, c.want)
		}
	}
	if strings.Contains(r.log.String(), "theirs") {
		t.Error("the log holds a cookie")
	}
}

// An application cannot delete the gateway's cookies with Clear-Site-Data.
func TestClearSiteData(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base)
	const rest = `"cache", "clientHints", "executionContexts", "storage"`
	for given, want := range map[string]string{
		`"cookies"`: "", `"cache", "cookies", "storage"`: `"cache", "storage"`, `"*"`: rest, ` "Cookies" ,"*"`: rest,
		`"cookies"|"cache"`: `"cache"`, `"storage"`: `"storage"`,
	} {
		r.app.Answer = func(q *http.Request) (*http.Response, error) {
			return ownrig.Response(q, 200, http.Header{"Clear-Site-Data": strings.Split(given, "|")}, ""), nil
		}
		for _, c := range []struct{ target, header string }{{"/session/", aliceSession}, {"/public/", ""}} {
			if got := strings.Join(r.Want(200, "GET", c.target, "", c.header).Header()["Clear-Site-Data"],
				"|"); got != want {
				t.Errorf("%s: %s becomes %s, want %s", c.target, given, got, want)
			}
		}
	}
}

// With session.host_prefix, the names without the prefix are the application's, in both directions.
func TestHostPrefixOfApplications(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Edit(t, ownrig.Base, "store:", "session: {host_prefix: true}\nstore:"))
	r.app.Answer = func(q *http.Request) (*http.Response, error) {
		set := http.Header{"Set-Cookie": {"__Host-session_id=x; Path=/; Secure", "session_id=y"}}
		return ownrig.Response(q, 200, set, ""), nil
	}
	got := ownrig.JarOf(r.Want(200, "GET", "/session/", "", "Cookie: __Host-session_id=alice; session_id=theirs"))
	if got["__Host-session_id"] != "" || got["__Host-authgate_app_session_id"] != "x" || got["session_id"] != "y" {
		t.Errorf("of the application's cookies, the browser gets %v", got)
	}
	if sent := r.app.Last().Header["Cookie"]; !slices.Equal(sent, []string{"session_id=theirs"}) {
		t.Errorf("the application gets %q", sent)
	}
}
