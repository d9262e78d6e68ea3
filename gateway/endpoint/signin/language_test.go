package signin_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// sameOrigin are the header lines of a form that a page of the gateway sends.
var sameOrigin = []string{rig.Form, rig.Browser, "Origin: https://gw.example", "Sec-Fetch-Site: same-origin"}

// A user chooses the language of the pages by a form that each page has, and comes back to the
// page. The browser keeps the choice, which counts more than what it asks for.
func TestChooseLanguage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	const place = "/signin?return_to=%2Fsession%2Fx%3Fy%3D1"
	page := r.Want(200, "GET", place, "", rig.Browser)
	rig.WantPage(t, page, `<form method="post" action="/signin/language">`,
		`<button type="submit" name="language" value="de" lang="de">Deutsch</button>`,
		`value="en" lang="en" aria-current="true">English</button>`,
		`name="back" value="/signin?return_to=%2Fsession%2Fx%3Fy%3D1"`)
	form := url.Values{"language": {"de"}, "back": {place}}.Encode()
	w := r.Want(303, "POST", "/signin/language", form, sameOrigin...)
	if at := w.Header().Get("Location"); at != place {
		t.Errorf("back to %q", at)
	}
	if policy := w.Header().Get("Referrer-Policy"); policy != "no-referrer" {
		t.Errorf("the page would take the user for one whose browser keeps no cookies: %q", policy)
	}
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("sets %v", cookies)
	}
	c := cookies[0]
	if c.Name != "__Host-authgate_language" || c.Value != "de" || c.Path != "/" || c.Domain != "" || !c.Secure ||
		!c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 365*24*60*60 {
		t.Errorf("sets %s", c)
	}
	page = r.Want(200, "GET", place, "", rig.Browser, "Cookie: "+c.Name+"="+c.Value, "Accept-Language: en")
	rig.WantPage(t, page, "Anmelden bei", `value="de" lang="de" aria-current="true">`)
	if got := page.Header()["Vary"]; page.Header().Get("Content-Language") != "de" ||
		!slices.Equal(got, []string{"Accept-Language", "Cookie"}) {
		t.Errorf("the page has %v", page.Header())
	}
	for _, odd := range []string{"xx", "", "<b>", "DE"} {
		rig.WantPage(t, r.Want(200, "GET", place, "", rig.Browser, "Cookie: "+c.Name+"="+odd, "Accept-Language: en"),
			"Sign in to gw.example")
	}
}

// Users come back to a page at the same host, and nowhere else: not to another site, and to no
// endpoint that does something.
func TestLanguageLeadsBack(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	for back, want := range map[string]string{
		"/session/x?y=%2F&z":            "/session/x?y=%2F&z",
		"/account":                      "/account",
		"/me":                           "/me",
		"/signin/invite?token=x":        "/signin/invite?token=x",
		"":                              "/",
		"evil":                          "/",
		"//evil.example":                "/",
		"/\\evil.example":               "/",
		"/%2F/evil.example":             "/",
		"https://evil.example/":         "/",
		"https://gw.example/account":    "/",
		"javascript:alert(1)":           "/",
		"/a/../b":                       "/",
		"/a\r\nX: y":                    "/",
		"/logout":                       "/",
		"/login?provider=x":             "/",
		"/callback?code=x":              "/",
		"/signin/complete?ticket=x":     "/",
		"/" + strings.Repeat("a", 9000): "/",
	} {
		form := url.Values{"language": {"de"}, "back": {back}}.Encode()
		if at := r.Want(303, "POST", "/signin/language", form, sameOrigin...).Header().Get("Location"); at != want {
			t.Errorf("from %.60q to %q, want %q", back, at, want)
		}
	}
}

// At a host whose paths are the application's own, no reading of a path leads to an endpoint that
// does something.
func TestLanguageLeadsBackOpaque(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.Base, "match: /session/,", "match: gw.example/session/, encoded_slashes: opaque,"))
	for back, want := range map[string]string{
		"/session/a%2Fb//c": "/session/a%2Fb//c", "/account": "/account",
		"/session/..%2Flogout": "/", "/%6Cogout": "/", "/%2Flogout": "/", "/%2Flogout;x": "/",
		"/%255Clogout": "/", "//logout": "/", "//evil.example": "/", "/\\evil.example": "/", "/\\/evil.example": "/",
	} {
		form := url.Values{"language": {"de"}, "back": {back}}.Encode()
		if at := r.Want(303, "POST", "/signin/language", form, sameOrigin...).Header().Get("Location"); at != want {
			t.Errorf("from %q to %q, want %q", back, at, want)
		}
	}
}

// A page leads back to itself with the parameters that belong to it, and repeats nothing else that
// a link made of it.
func TestPageLeadsBackToItself(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice := r.Login(rig.Alice)
	for target, want := range map[string]string{
		"/signin?reason=ended&return_to=/session/&x=evil":      "/signin?reason=ended&amp;return_to=%2Fsession%2F",
		"/signin?switch=1&mechanism=session":                   "/signin?switch=1&amp;mechanism=session",
		"/signin?reason=%3Cevil%3E&return_to=//evil.example/x": "/signin",
		"/signin?return_to=https://evil.example/":              "/signin",
		"/signin?login_hint=evil&factors=2":                    "/signin?factors=2",
		"/account?return_to=/session/x":                        "/account?return_to=%2Fsession%2Fx",
		"/account?evil=1":                                      "/account",
	} {
		w := r.Want(200, "GET", target, "", rig.Browser, alice.Cookie)
		rig.WantPage(t, w, `name="back" value="`+want+`"`)
	}
	rig.WantPage(t, r.Want(404, "GET", "/nothing?x=%3Cb%3E", "", rig.Browser), `name="back" value="/nothing?x=%3Cb%3E"`)
}

// No other site chooses, and what is no language is refused.
func TestLanguageIsRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	for _, c := range []struct {
		status int
		body   string
		header []string
	}{
		{403, "language=de", []string{rig.Form, "Origin: https://evil.example"}},
		{403, "language=de", []string{rig.Form, "Sec-Fetch-Site: cross-site"}},
		{400, "language=xx", sameOrigin}, {400, "", sameOrigin}, {400, "language=de&language=en", sameOrigin},
		{400, "language=de&back=%zz", sameOrigin},
		{415, `{"language":"de"}`, []string{rig.JSON}},
	} {
		if w := r.Want(c.status, "POST", "/signin/language", c.body, c.header...); w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s with %q: %v", c.body, c.header, w.Header())
		}
	}
	if w := r.Want(405, "GET", "/signin/language", ""); w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %v", w.Header())
	}
}

// With session.csrf_token, a client that does not tell its site needs the token of the login.
func TestLanguageNeedsToken(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.WithToken)
	in := r.Login(rig.Alice)
	r.Want(303, "POST", "/signin/language", "language=de", rig.Form)
	r.Want(403, "POST", "/signin/language", "language=de", rig.Form, in.Cookie)
	r.Want(303, "POST", "/signin/language", "language=de&csrf_token="+r.CSRFToken(in.Cookie), rig.Form, in.Cookie)
	r.Want(303, "POST", "/signin/language", "language=de", append(sameOrigin, in.Cookie)...)
}

// A page that was made by a form, or can be had only once, has no form for the language.
func TestPagesWithoutLanguages(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	none := "not signin/language"
	rig.WantPage(t, r.Want(401, "POST", "/login", "username=alice&password=x", sameOrigin...), none)
	rig.WantPage(t, r.Want(400, "GET", "/signin/complete?ticket=x", "", rig.Browser), none, "not ticket")
	rig.WantPage(t, r.Want(404, "GET", "/nothing?x="+strings.Repeat("a", 9000), "", rig.Browser), none)
}

// A sign-in that another site began stays one when its user chooses a language: it ends at a page
// that asks, if sessions are strict.
func TestLanguageKeepsWhoBegan(t *testing.T) {
	t.Parallel()
	r := rig.New(t, strictConfig(t))
	for site, elsewhere := range map[string]string{crossSite: "&amp;elsewhere=1", "Sec-Fetch-Site: none": ""} {
		w := r.Want(200, "GET", "/signin?return_to=/session/x", "", rig.Browser, site)
		rig.WantPage(t, w, `name="back" value="/signin?return_to=%2Fsession%2Fx`+elsewhere+`"`)
	}
}
