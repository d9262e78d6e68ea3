package main

import (
	"fmt"
	"strings"
	"testing"

	"authgate/gateway/config/listening"
)

// The host, the front and the certificates decide the public URL and the addresses of the gateway.
func TestSiteAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		site site
		want string // the public URL, HTTPS, HTTP and the privileged ports; HTTPS means nothing behind a proxy
	}{
		{site{frontTest, "localhost", listening.TLSInternal}, "https://localhost:8443 127.0.0.1:8443 127.0.0.1:8080 []"},
		{site{frontTest, "[::1]", listening.TLSInternal}, "https://[::1]:8443 [::1]:8443 [::1]:8080 []"},
		{site{frontTest, "a.localhost:443", listening.TLSInternal},
			"https://a.localhost:443 127.0.0.1:443 127.0.0.1:8080 [443]"},
		{site{frontNothing, "a.lan", listening.TLSInternal}, "https://a.lan:8443 :8443 :8080 []"},
		{site{frontNothing, "2001:db8::1", listening.TLSInternal}, "https://[2001:db8::1]:8443 :8443 :8080 []"},
		{site{frontNothing, "a.example.org", listening.TLSACME}, "https://a.example.org :443 :80 [80 443]"},
		{site{frontNothing, "a.example.org:8443", listening.TLSACME}, "https://a.example.org:8443 :8443 :80 [80]"},
		{site{"nginx", "a.example.org", listening.TLSInternal}, "https://a.example.org :443 127.0.0.1:8080 []"},
		{site{"nginx", "a.example.org:444", listening.TLSInternal}, "https://a.example.org:444 :444 127.0.0.1:8080 []"},
	} {
		got := fmt.Sprint(c.site.PublicURL(), " ", c.site.HTTPS(), " ", c.site.HTTP(), " ", c.site.privileged())
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.site, got, c.want)
		}
	}
}

// Without a word about the front, the host and the certificates suggest it. What cannot be is refused.
func TestSiteFronts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, front, certificates, want string }{
		{"localhost", "", listening.TLSInternal, "front: test"},
		{"localhost", "", listening.TLSACME, "front: nothing"},
		{"home.example.org", "", listening.TLSInternal, "front: nothing"},
		{"home.example.org", "Nginx", listening.TLSInternal, "front: nginx"},
		{"home.example.org", "ngnix", listening.TLSInternal, `did you mean "nginx"?`},
		{"home.example.org", "test", listening.TLSInternal, "for this machine alone"},
		{"[2001:db8::1]:8443", "caddy", listening.TLSInternal, "need a name, not the address [2001:db8::1]:8443"},
	} {
		s := site{Host: c.host, Certificates: c.certificates}
		err := s.setFront(c.front)
		got := "front: " + s.Front
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
