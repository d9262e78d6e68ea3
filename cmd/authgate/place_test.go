package main

import (
	"net/url"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// A place is a host, also with a path, or the address of a page, which has the port of the gateway.
func TestReadPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ public, answer, match, url string }{
		{"https://gate.lan", "wiki.lan", "wiki.lan/", "https://wiki.lan/"},
		{"https://gate.lan", "wiki.lan/a/b", "wiki.lan/a/b", "https://wiki.lan/a/b"},
		{"https://gate.lan", "HTTPS://wiki.lan:443/", "wiki.lan/", "https://wiki.lan/"},
		{"https://gate.lan:8443", "https://wiki.lan:8443/a", "wiki.lan/a", "https://wiki.lan:8443/a"},
		{"https://gate.lan:8443", "http://wiki.lan", "wiki.lan/", "https://wiki.lan:8443/"},
		{"https://[::1]:8443", "[::1]/a", "[::1]/a", "https://[::1]:8443/a"},
		// A port is not cut off where no scheme says that the answer is the address of a page.
		{"https://gate.lan:8443", "wiki.lan:8443", "wiki.lan:8443/", ""},
	} {
		public := must.Get(url.Parse(c.public))(t)
		match, err := readPlace(c.answer, public)
		if err != nil || match != c.match {
			t.Errorf("%s at %s: %q, %v, want %q", c.answer, c.public, match, err, c.match)
		}
		if got := placeURL(public, match); c.url != "" && got != c.url {
			t.Errorf("%s at %s: the URL is %s, want %s", c.answer, c.public, got, c.url)
		}
	}
	for answer, want := range map[string]string{
		"": "a host is needed", "/wiki": "a host is needed", "https://": "a host is needed",
		"a b": `"a b" is neither`, "https://wiki.lan/?x": `"https://wiki.lan/?x" is neither`, "wiki.lan#a": "is neither",
	} {
		_, err := readPlace(answer, &url.URL{Scheme: "https", Host: "gate.lan"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", answer, err, want)
		}
	}
}

// A host is of this machine in each browser, of a network at home, or one of which a public authority
// can have a certificate.
func TestHosts(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"localhost": "loopback", "App.LocalHost": "loopback", "127.9.9.9": "loopback", "::1": "loopback",
		"192.0.2.7": "private", "2001:db8::1": "private", "gate": "private", "gate.LAN": "private", "a.home.arpa": "private",
		"localhost.example.org": "public", "127.0.0.1.example.org": "public", "lan.example.org": "public",
	} {
		got := "private"
		switch {
		case isLoopback(host) && isPublic(host):
			got = "both"
		case isLoopback(host):
			got = "loopback"
		case isPublic(host):
			got = "public"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", host, got, want)
		}
	}
}
