package gateway

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/http/httpguts"

	"authgate/gateway/web"
)

// These are the rules of browsers: the basic URL parser of the WHATWG URL standard
// (section 4.4), as far as it decides about the origin, for a base with https. A test
// in e2e compares with the parser of Node.js.

// specialSchemes are those whose URLs have a host, with their ports.
var specialSchemes = map[string]string{"https": "443", "http": "80", "ws": "80", "wss": "443", "ftp": "21"}

// landing returns the origin to which address leads a browser at https://gw.example,
// or "" if it leads nowhere.
func landing(address string) string {
	address = strings.TrimFunc(address, func(r rune) bool { return r <= ' ' })
	address = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(address)
	scheme, rest, absolute := cutScheme(address)
	_, special := specialSchemes[scheme]
	switch {
	case absolute && !special:
		return scheme + ":"
	case absolute && (scheme != "https" || strings.HasPrefix(rest, "//")):
		return authorityOrigin(scheme, rest)
	case len(rest) >= 2 && isSlash(rest[0]) && isSlash(rest[1]): // "relative slash"
		return authorityOrigin("https", rest)
	}
	return "https://gw.example"
}

// cutScheme is the states "scheme start" and "scheme".
func cutScheme(address string) (scheme, rest string, found bool) {
	for i := range len(address) {
		c := address[i] | 0x20
		switch letter := 'a' <= c && c <= 'z'; {
		case letter, i > 0 && strings.IndexByte("0123456789+-.", address[i]) >= 0:
		case i > 0 && address[i] == ':':
			return strings.ToLower(address[:i]), address[i+1:], true
		default:
			return "", address, false
		}
	}
	return "", address, false
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// authorityOrigin is the states from "special authority ignore slashes" to
// "port".
func authorityOrigin(scheme, rest string) string {
	rest = strings.TrimLeft(rest, `/\`)
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	host := rest[strings.LastIndexByte(rest, '@')+1:]
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		if port := host[colon+1:]; port == "" || strings.TrimLeft(port, "0") == specialSchemes[scheme] {
			host = host[:colon]
		}
	}
	if host == "" {
		return ""
	}
	if decoded, err := url.PathUnescape(host); err == nil {
		host = decoded
	}
	return scheme + "://" + strings.ToLower(host)
}

// TestLandingRules compares landing with the examples of the standard.
func TestLandingRules(t *testing.T) {
	t.Parallel()
	const here = "https://gw.example"
	for address, want := range map[string]string{
		"": here, "/": here, "x": here, "../..": here, "?//evil": here, "#//evil": here, "/x//y": here, `/x\\y`: here, "/.//evil": here, "https:x": here, "https:/x": here,
		"1https://evil": here, "https://gw.example": here, "HTTPS://GW.EXAMPLE:443/": here, "https://gw.example:/": here, "//user:x@gw.example/": here, "https://%67w.example/": here,
		"//evil": "https://evil", `/\evil`: "https://evil", `\/evil`: "https://evil", `\\evil/x`: "https://evil", "///evil": "https://evil", "/\t/evil": "https://evil",
		" \x00//evil ": "https://evil", "/\n\\evil": "https://evil", "https:///evil": "https://evil", `https:\\evil`: "https://evil", `https:/\evil`: "https://evil", "https://evil": "https://evil", "h\rttps://evil?@gw.example": "https://evil",
		"http:evil": "http://evil", "http:/evil": "http://evil", "http://gw.example": "http://gw.example", "ws:evil": "ws://evil", `ftp:\/evil`: "ftp://evil",
		"https://gw.example@evil": "https://evil", `https://evil\@gw.example`: "https://evil", "https://gw.example:8443": "https://gw.example:8443", "https://[::1]:443": "https://[::1]",
		"javascript:alert(1)": "javascript:", "JAVASCRIPT://gw.example/": "javascript:", "data:,x": "data:", "x-y.z+1:": "x-y.z+1:", "//": "", "https://": "", "//@": "",
	} {
		if got := landing(address); got != want {
			t.Errorf("%q lands at %q, want %q", address, got, want)
		}
	}
}

// stays fails the test if a redirect, link or form of the answer leads to another origin.
func stays(t *testing.T, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	places := w.Header()["Location"]
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
			returns := slices.Contains(node.Attr, html.Attribute{Key: "name", Val: "return_to"})
			for _, a := range node.Attr {
				switch {
				case a.Key == "href", a.Key == "src", a.Key == "action", a.Key == "formaction", a.Key == "value" && returns:
					places = append(places, a.Val)
				case a.Key == "http-equiv":
					t.Errorf("%s: %d, a page that leads on by itself", what, w.Code)
				}
			}
		}
	}
	for _, place := range places {
		if at := landing(place); at != "https://gw.example" {
			t.Errorf("%s: %d leads to %q by %q", what, w.Code, at, place)
		}
		if u, err := url.Parse(place); err == nil {
			if next := u.Query().Get("return_to"); landing(next) != "https://gw.example" {
				t.Errorf("%s: %d leads to %q in the end, by %q", what, w.Code, landing(next), place)
			}
		}
	}
}

// Whatever return_to and other parts of a request say, a browser that follows the URL
// standard stays on this origin.
func FuzzReturnToInBrowsers(f *testing.F) {
	for _, target := range []string{
		"/", "/a?b=c", "//evil.example", `/\evil.example`, `\/evil`, "/\t/evil", "https:evil", `https:\\evil`, "http:evil", "javascript:alert(1)", "/..//evil", "/.//evil", "/%2f/evil", "/%09/evil",
		"///evil", "/x/..//evil", "@evil", "gw.example@evil", "/app?//evil", `/session/x?\\evil`, "/session//evil", "/app", "/session", "/;//evil", " //evil", "\x00//evil", "?return_to=//evil", "/é//x", "/\u3000/evil",
	} {
		f.Add(target)
	}
	r := newRig(f, baseConfig)
	f.Fuzz(func(t *testing.T, target string) {
		ask := func(method, place, body string, header ...string) {
			t.Helper()
			stays(t, method+" "+place, r.do(method, place, body, append(header, browser)...))
		}
		escaped := url.QueryEscape(target)
		ask("POST", "/login", aliceForm+"&return_to="+escaped, formType)
		ask("POST", "/login", "username=&password=&return_to="+escaped, formType)
		r.clock.Advance(r.state.Load().config.Limits.LoginWindow) // the next one is not throttled
		for _, place := range []string{"/login?return_to=", "/signin?return_to=", "/signin?mechanism=session&return_to=", "/logout?return_to=", "/me?return_to=", "/session/x?", "/session?"} {
			ask("GET", place+escaped, "")
		}
		if !httpguts.ValidHeaderFieldValue(target) {
			return // no server takes such a header, or such a target
		}
		for _, name := range []string{"Referer", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Original-URL", "Forwarded"} {
			ask("GET", "/session/", "", name+": "+target)
			ask("GET", "/logout", "", name+": "+target)
		}
		ask("GET", "/session/", "", "Cookie: return_to="+target+"; "+target)
		if w := r.do("GET", target, "", browser); w.Body.String() != "hello" {
			stays(t, "the target", w)
		}
		w := httptest.NewRecorder()
		r.HTTPRedirect(w, request("GET", target, "", browser))
		stays(t, "the target in cleartext", w)
	})
}
