package peer

import (
	"net/http"
	"strings"
	"testing"
)

// ReadOriginal reads both forms. TestVerifyAmbiguous in package gateway has the headers
// that it refuses.
func TestReadOriginal(t *testing.T) {
	t.Parallel()
	traefik := "X-Forwarded-Method: PUT|X-Forwarded-Host: a:1|X-Forwarded-Uri: /x%2Cy,z?u=https://b/|X-Forwarded-Proto: "
	for _, c := range []struct {
		lines string
		want  Original // the zero value: refused
	}{
		{traefik + "https", Original{Method: "PUT", Secure: true, Host: "a:1", Target: "/x%2Cy,z?u=https://b/"}},
		{traefik + "HTTP", Original{Method: "PUT", Host: "a:1", Target: "/x%2Cy,z?u=https://b/"}},
		{traefik + "wss",
			Original{Method: "PUT", Secure: true, Host: "a:1", Target: "/x%2Cy,z?u=https://b/", WebSocket: true}},
		{traefik + "ws", Original{Method: "PUT", Host: "a:1", Target: "/x%2Cy,z?u=https://b/", WebSocket: true}},
		{traefik + "https|Sec-WebSocket-Version: 13",
			Original{Method: "PUT", Secure: true, Host: "a:1", Target: "/x%2Cy,z?u=https://b/", WebSocket: true}},
		{traefik + "https, https", Original{}},
		{traefik, Original{}},
		{traefik + "https|X-Original-Method: PUT", Original{}},
		{traefik + "https|X-Original-URL: https://a/x%2Cy,z?u=https://b/", Original{}},
		{"X-Original-Method: GET|X-Original-URL: https://a/?u=https://b/",
			Original{Method: "GET", Secure: true, Host: "a", Target: "/?u=https://b/", AuthRequest: true}},
		{"X-Original-Method: GET|X-Original-URL: http://[::1]:80//x",
			Original{Method: "GET", Host: "[::1]:80", Target: "//x", AuthRequest: true}},
		{"X-Original-Method: GET|X-Original-URL: https://a/|X-Forwarded-Host: A.:443|X-Forwarded-Proto: HTTPS",
			Original{Method: "GET", Secure: true, Host: "a", Target: "/", AuthRequest: true}},
		{"X-Original-Method: GET|X-Original-URL: https://a:b/|X-Forwarded-Host: a:b", Original{}},
		{"X-Original-Method: GET|X-Original-URL: https://a/|X-Forwarded-Proto: wss",
			Original{Method: "GET", Secure: true, Host: "a", Target: "/", AuthRequest: true}},
		{"X-Original-Method: GET|X-Original-URL: /x", Original{}},
		{"X-Original-Method: GET|X-Original-URL: https://a", Original{}},
		{"X-Original-Method: GE\tT|X-Original-URL: https://a/", Original{}},
		{"X-Original-Method: GET", Original{}},
		{"", Original{}},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(c.lines, "|") {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		if got, err := ReadOriginal(h); got != c.want || (err != nil) != (c.want == Original{}) {
			t.Errorf("%q: %+v, %v", c.lines, got, err)
		}
	}
	for _, name := range []string{
		"x-original-method", "X_Original_Method", "x_original-url", "X-Forwarded.Method", "X-Forwarded_Uri",
	} {
		h := http.Header{"X-Original-Method": {"GET"}, "X-Original-Url": {"https://a/"}, name: {"x"}}
		if got, err := ReadOriginal(h); err == nil {
			t.Errorf("with %s too: %+v", name, got)
		}
	}
}
