package peer

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// ReadExternal takes all but the scheme from the question itself.
func TestReadExternal(t *testing.T) {
	t.Parallel()
	whole := Original{Method: "PUT", Secure: true, Host: "a:1", Target: "/x?y"}
	for lines, want := range map[string]Original{ // the zero value: refused
		"X-Forwarded-Proto: https": whole,
		"X-Forwarded-Proto: HTTP":  {Method: "PUT", Host: "a:1", Target: "/x?y"},
		"X-Forwarded-Proto: wss":   {Method: "PUT", Secure: true, Host: "a:1", Target: "/x?y", WebSocket: true},
		"X-Forwarded-Proto: https|Sec-WebSocket-Version: 13": {Method: "PUT", Secure: true, Host: "a:1", Target: "/x?y",
			WebSocket: true},
		"X-Forwarded-Proto: https|X-Forwarded-Host: A:1|X-Forwarded-Uri: /x?y|X-Forwarded-Method: PUT": whole,

		"X-Forwarded-Host: a:1":                                    {},
		"X-Forwarded-Proto: ":                                      {},
		"X-Forwarded-Proto: ftp":                                   {},
		"X-Forwarded-Proto: https|X-Forwarded-Proto: https":        {},
		"X-Forwarded-Proto: https|x_forwarded-proto: https":        {},
		"X-Forwarded-Proto: https|X-Forwarded-Host: b":             {},
		"X-Forwarded-Proto: https|X-Forwarded-Uri: /x":             {},
		"X-Forwarded-Proto: https|X-Forwarded-Method: GET":         {},
		"X-Forwarded-Proto: https|X-Original-URL: https://a:1/x?y": {},
		"X-Forwarded-Proto: https|X-Original-Method: PUT":          {},
	} {
		r := &http.Request{Method: "PUT", Host: "a:1", Header: http.Header{}}
		for line := range strings.SplitSeq(lines, "|") {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Add(name, value)
		}
		got, err := ReadExternal(r, "/x?y")
		if (err != nil) != (want == Original{}) || err == nil && got != want {
			t.Errorf("%q: %+v, %v", lines, got, err)
		}
	}
}

// ReadOriginal reads both forms.
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

// Each part of a description is there once, in one spelling, and parts of both forms agree.
func TestOriginalInOneMeaning(t *testing.T) {
	t.Parallel()
	read := func(lines ...string) error {
		h := http.Header{}
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			h[http.CanonicalHeaderKey(name)] = append(h[http.CanonicalHeaderKey(name)], value)
		}
		_, err := ReadOriginal(h)
		return err
	}
	traefik := []string{
		"X-Forwarded-Method: GET", "X-Forwarded-Proto: https", "X-Forwarded-Host: gw.example",
		"X-Forwarded-Uri: /session/",
	}
	nginx := []string{"X-Original-Method: GET", "X-Original-URL: https://gw.example/session/"}
	for _, whole := range [][]string{
		traefik, nginx, slices.Concat(nginx, traefik),
		slices.Concat(nginx, []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: gw.example:443"}),
	} {
		if err := read(whole...); err != nil {
			t.Errorf("%q: %v", whole, err)
		}
	}
	var refused [][]string
	for _, form := range [][]string{traefik, nginx} {
		for i, line := range form {
			name, value, _ := strings.Cut(line, ": ")
			without := slices.Delete(slices.Clone(form), i, i+1)
			refused = append(refused, without, slices.Concat(form, []string{line}), slices.Concat(without,
				[]string{name + ": "}))
			for _, smuggled := range []string{"_", "."} { // X_Forwarded_Uri
				refused = append(refused, slices.Concat(form, []string{strings.ReplaceAll(name, "-",
					smuggled) + ": " + value}))
			}
		}
	}
	for i, other := range []string{
		"X-Forwarded-Method: POST", "X-Forwarded-Proto: http", "X-Forwarded-Host: wiki.example.org",
		"X-Forwarded-Uri: /public/",
	} {
		differ := slices.Clone(traefik)
		differ[i] = other
		refused = append(refused, slices.Concat(nginx, differ), slices.Concat(nginx, []string{other}))
	}
	for _, lines := range refused {
		if read(lines...) == nil {
			t.Errorf("%q is taken for a description", lines)
		}
	}
}
