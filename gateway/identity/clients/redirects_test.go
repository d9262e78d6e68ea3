package clients

import (
	"net/url"
	"strings"
	"testing"

	"authgate/gateway/config"
)

// Users are sent back to a registered URI alone, and to any port of their own machine.
func TestRedirects(t *testing.T) {
	t.Parallel()
	client := &Client{RedirectURIs: []string{
		"https://app.example.org/callback?tenant=1", "http://127.0.0.1/callback", "http://[::1]:8000/cb",
		"http://localhost:7777", "com.example.app:/callback",
	}}
	for uri, want := range map[string]bool{
		"https://app.example.org/callback?tenant=1": true,
		"http://127.0.0.1/callback":                 true,
		"http://127.0.0.1:49152/callback":           true,
		"http://127.0.0.1:1/callback":               true,
		"http://127.0.0.1:65535/callback":           true,
		"http://[::1]/cb":                           true,
		"http://[::1]:9/cb":                         true,
		"http://localhost":                          true,
		"http://localhost:7778":                     true,
		"com.example.app:/callback":                 true,

		"":                                 false,
		"https://app.example.org/callback": false,
		"https://app.example.org/callback?tenant=1&tenant=2":     false,
		"https://app.example.org/callback?tenant=1#":             false,
		"https://app.example.org:443/callback?tenant=1":          false,
		"https://app.example.org:8443/callback?tenant=1":         false,
		"HTTPS://app.example.org/callback?tenant=1":              false,
		"https://APP.example.org/callback?tenant=1":              false,
		"https://app.example.org/a/../callback?tenant=1":         false,
		"https://app.example.org%2F@evil.example/callback":       false,
		"https://app.example.org.evil.example/callback?tenant=1": false,
		"http://127.0.0.1:80@evil.example/callback":              false,
		"https://app.example.org@x@evil.example/callback":        false,
		"https://app.example.org/x/..;/callback?tenant=1":        false,
		"http://localhost.evil.example:7777":                     false,
		"http://127.0.0.1:8000.evil.example/callback":            false,
		"http://127.0.0.1.evil.example/callback":                 false,
		"http://127.0.0.1@evil.example/callback":                 false,
		"http://127.0.0.1\\@evil.example/callback":               false,
		"http://127.0.0.1:80\\@evil.example/callback":            false,
		"http://127.0.0.1:80\t/callback":                         false,
		"http://127.0.0.1:/callback":                             false,
		"http://127.0.0.1:0/callback":                            false,
		"http://127.0.0.1:00080/callback":                        false,
		"http://127.0.0.1:65536/callback":                        false,
		"http://127.0.0.1:+80/callback":                          false,
		"http://127.0.0.1:80/callback/":                          false,
		"http://127.0.0.1:80/callback?x":                         false,
		"http://127.0.0.1:80/callback#x":                         false,
		"http://127.0.0.1:80":                                    false,
		"http://127.0.0.2:80/callback":                           false,
		"http://localhost:80/callback":                           false, // registered for 127.0.0.1
		"http://[::1]:9/callback":                                false,
		"http://[::ffff:127.0.0.1]:9/callback":                   false,
		"http://127.1:80/callback":                               false,
		"http://localhost:7778#":                                 false,
		"http://localhost:7778/":                                 false,
		"https://127.0.0.1:80/callback":                          false,
		"//127.0.0.1:80/callback":                                false,
		"com.example.app:/callback/more":                         false,
		"com.example.app://callback":                             false,
		"javascript:alert(1)":                                    false,
	} {
		if got := client.Redirects(uri); got != want {
			t.Errorf("%q: %t", uri, got)
		}
	}
	if (&Client{}).Redirects("") {
		t.Error("a client without URIs has the empty one")
	}
}

// browserPlace returns the scheme and the host of a URL as browsers read it (WHATWG URL,
// section 4.4), for the schemes of the tests.
func browserPlace(text string) (scheme, host string) {
	text = strings.TrimFunc(text, func(c rune) bool { return c <= ' ' })
	text = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text)
	scheme, rest, found := strings.Cut(text, ":")
	if !found || scheme == "" || strings.ContainsAny(scheme, "/?#\\") {
		return "", ""
	}
	scheme = strings.ToLower(scheme)
	if scheme == "http" || scheme == "https" {
		rest = strings.TrimLeft(strings.ReplaceAll(rest, `\`, "/"), "/") // any number of slashes begins the authority
	} else if rest, found = strings.CutPrefix(rest, "//"); !found {
		return scheme, ""
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if end := strings.LastIndexByte(rest, ':'); end > strings.LastIndexByte(rest, ']') {
		rest = rest[:end]
	}
	if decoded, err := url.PathUnescape(rest); err == nil {
		rest = decoded
	}
	return scheme, strings.ToLower(rest)
}

// goPlace returns the scheme and the host of a URL as net/url reads it.
func goPlace(text string) (scheme, host string) {
	u, err := url.Parse(text)
	if err != nil {
		return "", "unreadable"
	}
	host = strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme, host
}

// Where users are sent back to, as a browser reads it and as net/url does, is at the scheme
// and the host of a registered URI. A URI that can be registered is read alike by both.
func FuzzRedirects(f *testing.F) {
	for _, seed := range [][2]string{
		{"https://app.example.org/callback", "https://app.example.org/callback"},
		{"http://127.0.0.1/callback", "http://127.0.0.1:8080/callback"},
		{"http://[::1]:7/", "http://[::1]:8/"}, {"http://localhost", "http://localhost:1?"},
		{"http://127.0.0.1/cb", "http://127.0.0.1:80@evil.example/cb"},
		{"http://127.0.0.1:8@evil.example/", "http://127.0.0.1:9@evil.example/"},
		{"com.example.app:/cb", "com.example.app:/cb"}, {"com.example.app://host/cb", "com.example.app://host/cb"},
		{`https://a\.evil.example/`, `https://a/.evil.example/`}, {"https:////app.example.org", "https://app.example.org"},
		{"http://127.0.0.1?a", "http://127.0.0.1:2?a"}, {"https://ex%41mple.org/", "https://example.org/"},
		{"http://0x7f.1/", "http://127.0.0.1/"}, {"https://a@b/", "https://b/"}, {"https://[::1%25eth0]/", "https://[::1]/"},
	} {
		f.Add(seed[0], seed[1])
	}
	accepts := &config.OAuth{RedirectSchemes: []string{"com.example.app"}}
	f.Fuzz(func(t *testing.T, registered, uri string) {
		if accepts.CheckRedirectURI(registered) != nil {
			return
		}
		scheme, host := goPlace(registered)
		if browserScheme, browserHost := browserPlace(registered); browserScheme != scheme || browserHost != host {
			t.Fatalf("%q can be registered; net/url reads %q %q, a browser %q %q", registered, scheme, host,
				browserScheme, browserHost)
		}
		client := &Client{RedirectURIs: []string{registered}}
		if !client.Redirects(registered) {
			t.Fatalf("%q is not accepted", registered)
		}
		if !client.Redirects(uri) {
			return
		}
		for reader, read := range map[string]func(string) (string, string){"net/url": goPlace, "a browser": browserPlace} {
			if atScheme, atHost := read(uri); atScheme != scheme || atHost != host {
				t.Errorf("%q is accepted for %q; %s reads %q %q", uri, registered, reader, atScheme, atHost)
			}
		}
	})
}
