package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/gateway/config/forwarding"
)

func newTestRewriter(t testing.TB, host, strip string, urls ...string) *Rewriter {
	t.Helper()
	cfg := forwarding.Upstream{RewriteResponses: true, Host: host}
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		cfg.URLs = append(cfg.URLs, u)
	}
	return NewRewriter(cfg, strip)
}

// Each Location that names a target, and no other, names the gateway.
func TestRewriteLocation(t *testing.T) {
	t.Parallel()
	base := newTestRewriter(t, forwarding.HostClient, "/wiki", "http://10.0.0.1:8080/base", "http://10.0.0.2/base/")
	root := newTestRewriter(t, forwarding.HostClient, "/wiki", "http://10.0.0.1:8080")
	named := newTestRewriter(t, "app.internal", "", "https://10.0.0.1/base")
	plain := newTestRewriter(t, forwarding.HostTarget, "/wi ki", "unix:/run/app.sock")
	nothing := newTestRewriter(t, forwarding.HostClient, "", "http://10.0.0.1:8080")
	for _, c := range []struct {
		rewriter       *Rewriter
		location, want string // want: "" if it is not changed
	}{
		{base, "http://10.0.0.1:8080/base/x?y=/base#z", "https://gw.example:8443/wiki/x?y=/base#z"},
		{base, "http://10.0.0.2/base/x", "https://gw.example:8443/wiki/x"},
		{base, "HTTP://10.0.0.2:80/base", "https://gw.example:8443/wiki"},
		{base, "//10.0.0.2/base/x", "https://gw.example:8443/wiki/x"},
		{base, "/base/a%2fb?c", "/wiki/a%2fb?c"},
		{base, "/base", "/wiki"},
		{base, "/base?x", "/wiki?x"},
		{base, "/basement", ""},
		{base, "/other", ""},
		{base, "/wiki/x", ""},
		{base, "x/y", ""},
		{base, "../base/x", ""},
		{base, "?x", ""},
		{base, "", ""},
		{base, "https://10.0.0.2/base/x", "https://gw.example:8443/wiki/x"}, // by X-Forwarded-Proto
		{base, "https://10.0.0.1:8080/base/x", "https://gw.example:8443/wiki/x"},
		{base, "http://10.0.0.1/base/x", ""},
		{base, "http://10.0.0.1:8080/other", ""},
		{base, "https://elsewhere.example/base/x", ""},
		{base, "http://10.0.0.1:8080@elsewhere.example/base/x", ""},
		{base, "http://10.0.0.1:8080.elsewhere.example/base/x", ""},
		{base, "javascript://10.0.0.2/base/x", ""},
		{base, "http://gw.example:8443/base/x", "https://gw.example:8443/wiki/x"},
		{base, "https://gw.example:8443/base/x", "https://gw.example:8443/wiki/x"},
		{base, "https://gw.example:8443/wiki/x", "https://gw.example:8443/wiki/x"},
		{base, "https://gw.example/base/x", ""},
		{base, "http://user:secret@10.0.0.2/base/x", ""},
		{root, "http://gw.example:8443/wiki/x", "https://gw.example:8443/wiki/x"},
		{root, "http://gw.example:8443/x", "https://gw.example:8443/wiki/x"},
		{root, "/wiki/x", "/wiki/wiki/x"},
		{named, "https://app.internal/base/x", "https://gw.example:8443/x"},
		{named, "https://10.0.0.1:443/base/", "https://gw.example:8443/"},
		{named, "/base", "/"},
		{named, "http://app.internal/base/x", "https://gw.example:8443/x"},
		{named, "https://gw.example:8443/base/x", "https://gw.example:8443/x"}, // by X-Forwarded-Host
		{named, "http://gw.example:8443/base/x", "https://gw.example:8443/x"},
		{plain, "http://gw.example:8443/x", "https://gw.example:8443/wi%20ki/x"},
		// The application checked that "/base//elsewhere.example" stays on its host.
		{named, "/base//elsewhere.example", ""},
		{named, `/base/\elsewhere.example`, ""},
		{named, "/base/\t/elsewhere.example", ""},
		{named, "https://10.0.0.1/base//elsewhere.example", "https://gw.example:8443//elsewhere.example"},
		{plain, "http://localhost/x", "https://gw.example:8443/wi%20ki/x"},
		{plain, "http://localhost", "https://gw.example:8443/wi%20ki/"},
		{plain, "http://localhost?x", "https://gw.example:8443/wi%20ki/?x"},
		{plain, "/", "/wi%20ki/"},
		{plain, "//elsewhere.example/x", ""},
		{plain, `/\elsewhere.example/x`, ""},
		{nothing, "http://10.0.0.1:8080/x", "https://gw.example:8443/x"},
		{nothing, "/x", "/x"},
	} {
		h := http.Header{"Location": {c.location}}
		c.rewriter.Rewrite(h, "gw.example:8443")
		want := c.want
		if want == "" {
			want = c.location
		}
		if got := h.Get("Location"); got != want {
			t.Errorf("%q becomes %q, want %q", c.location, got, want)
		}
	}
}

// The Domain and Path of cookies that name a target name the gateway.
func TestRewriteCookies(t *testing.T) {
	t.Parallel()
	base := newTestRewriter(t, forwarding.HostClient, "/wiki", "http://app.internal:8080/base")
	root := newTestRewriter(t, forwarding.HostClient, "/wiki", "http://app.internal:8080")
	for _, c := range []struct {
		rewriter         *Rewriter
		host, line, want string
	}{
		{base, "gw.example:8443", "a=b; Path=/base/x; HttpOnly", "a=b; Path=/wiki/x; HttpOnly"},
		{base, "gw.example", "a=b;path=/base/;Secure", "a=b; Path=/wiki;Secure"},
		{base, "gw.example", "a=Path=/base; Path=/", "a=Path=/base; Path=/"},
		{base, "gw.example", "a=b; Path=/basement", "a=b; Path=/basement"},
		{base, "gw.example", "a=b; Domain=app.internal; Max-Age=1", "a=b; Domain=gw.example; Max-Age=1"},
		{base, "GW.example:8443", "a=b; domain=.App.Internal", "a=b; Domain=gw.example"},
		{base, "gw.example", "a=b; Domain=internal", "a=b; Domain=internal"},
		{base, "gw.example", "a=b; Domain=other.example", "a=b; Domain=other.example"},
		{base, "localhost:8443", "a=b; Domain=app.internal; Secure", "a=b; Secure"},
		{base, "127.0.0.1:8443", "a=b; Domain=app.internal", "a=b"},
		{base, "[::1]:8443", "a=b; Domain=app.internal", "a=b"},
		{base, "gw.example", "Path=/base", "Path=/base"},
		{root, "gw.example", "a=b; Path=/", "a=b; Path=/wiki"},
		{root, "gw.example", "a=b; Path=/x", "a=b; Path=/wiki/x"},
		{root, "gw.example", "a=b; Path=", "a=b; Path="},
		{root, "gw.example", "__host-a=b; Path=/; Secure", "__host-a=b; Path=/; Secure"},
	} {
		h := http.Header{"Set-Cookie": {"z=1", c.line}}
		c.rewriter.Rewrite(h, c.host)
		if got := h["Set-Cookie"]; len(got) != 2 || got[0] != "z=1" || got[1] != c.want {
			t.Errorf("at %s, %q becomes %q, want %q", c.host, c.line, got, c.want)
		}
	}
}

// All that an application may send: a path stays a path on the gateway, and no line
// gets another cookie.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		"/base//x", `/base/\x`, "http://10.0.0.1/base/x", "//10.0.0.1/base",
		"a=b; Path=/base; Domain=10.0.0.1", "__Host-a=b; Path=/base",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\r\n") {
			return // no header has it
		}
		w := newTestRewriter(t, forwarding.HostClient, "", "http://10.0.0.1/base")
		h := http.Header{"Location": {text}, "Set-Cookie": {text}}
		w.Rewrite(h, "gw.example")
		got := h["Location"][0]
		if got != text && !strings.HasPrefix(got, "https://gw.example/") && (!strings.HasPrefix(got, "/") || leadsAway(got)) {
			t.Errorf("%q becomes %q", text, got)
		}
		before, _, _ := strings.Cut(text, ";")
		if after, _, _ := strings.Cut(h["Set-Cookie"][0], ";"); after != before {
			t.Errorf("the cookie %q becomes %q", before, after)
		}
	})
}
