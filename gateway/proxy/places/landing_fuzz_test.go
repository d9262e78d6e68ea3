package places_test

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/http/httpguts"

	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/internal/test/rig"
)

// staysHere reports whether every browser at https://gw.example reads a place as a path
// of this origin. The URL parser of the WHATWG URL standard (section 4.4) removes tabs
// and line breaks, takes "\" for "/", and reads a host after two of them and a scheme
// before ":"; such a place does not begin with one "/". A test in e2e asks the parser of Node.js.
func staysHere(place string) bool {
	place = strings.TrimPrefix(place, "https://gw.example")
	control := strings.ContainsFunc(place, func(r rune) bool { return r <= ' ' || r == 0x7f })
	return !control && strings.HasPrefix(place, "/") && !strings.HasPrefix(place, "//") && !strings.HasPrefix(place, `/\`)
}

// stays fails the test if a redirect, link or form of the answer leads to another origin.
func stays(t *testing.T, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	found := w.Header()["Location"]
	for _, name := range []string{"Refresh", "Content-Location", "Link"} {
		if got := w.Header()[name]; got != nil {
			t.Errorf("%s: %d with %s %q", what, w.Code, name, got)
		}
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), web.TypeHTML) {
		page, err := html.Parse(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		for node := range page.Descendants() {
			returns := slices.ContainsFunc(node.Attr, func(a html.Attribute) bool {
				return a.Key == "name" && (a.Val == places.ReturnToField || a.Val == web.BackField)
			})
			for _, a := range node.Attr {
				switch {
				case a.Key == "href", a.Key == "src", a.Key == "action", a.Key == "formaction", a.Key == "value" && returns:
					found = append(found, a.Val)
				case a.Key == "http-equiv":
					t.Errorf("%s: %d, a page that leads on by itself", what, w.Code)
				}
			}
		}
	}
	for _, place := range found {
		u, err := url.Parse(place)
		if !staysHere(place) || err != nil {
			t.Errorf("%s: %d leads to %q", what, w.Code, place)
		} else if next := u.Query().Get("return_to"); next != "" && !staysHere(next) {
			t.Errorf("%s: %d leads to %q in the end, by %q", what, w.Code, next, place)
		}
	}
}

// No return_to, no back of a chosen language and no other part of a request makes a browser that
// follows the URL standard leave this origin.
func FuzzReturnToInBrowsers(f *testing.F) {
	for _, target := range []string{
		"/", "/a?b=c", "//evil.example", `/\evil.example`, `\/evil`, "/\t/evil", "https:evil", `https:\\evil`, "http:evil",
		"javascript:alert(1)", "/..//evil", "/.//evil", "/%2f/evil", "/%09/evil",
		"///evil", "/x/..//evil", "@evil", "gw.example@evil", "/app?//evil", `/session/x?\\evil`, "/session//evil",
		"/app", "/session", "/;//evil", " //evil", "\x00//evil", "?return_to=//evil", "/é//x", "/\u3000/evil",
	} {
		f.Add(target)
	}
	r := rig.New(f, rig.Base)
	f.Fuzz(func(t *testing.T, target string) {
		ask := func(method, place, body string, header ...string) {
			t.Helper()
			stays(t, method+" "+place, r.Do(method, place, body, append(header, rig.Browser)...))
		}
		escaped := url.QueryEscape(target)
		ask("POST", "/login", rig.AliceForm+"&return_to="+escaped, rig.Form)
		ask("POST", "/login", "username=&password=&return_to="+escaped, rig.Form)
		ask("POST", "/signin/language", "language=de&back="+escaped, rig.Form)
		r.Clock.Advance(r.Config.Limits.LoginWindow) // the next one is not throttled
		for _, place := range []string{
			"/login?return_to=", "/signin?return_to=", "/signin?mechanism=session&return_to=", "/logout?return_to=",
			"/me?return_to=", "/session/x?", "/session?",
		} {
			ask("GET", place+escaped, "")
		}
		if !httpguts.ValidHeaderFieldValue(target) {
			return // no server takes such a header, or such a target
		}
		for _, name := range []string{
			"Referer", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Original-URL", "Forwarded",
		} {
			ask("GET", "/session/", "", name+": "+target)
			ask("GET", "/logout", "", name+": "+target)
		}
		ask("GET", "/session/", "", "Cookie: return_to="+target+"; "+target)
		if w := r.Do("GET", target, "", rig.Browser); w.Body.String() != "hello" {
			stays(t, "the target", w)
		}
	})
}
