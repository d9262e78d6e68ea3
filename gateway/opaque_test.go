package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"authgate/gateway/explain"
	"authgate/policy"
)

// opaqueConfig has a host with opaque paths, beside routes that other hosts have.
const opaqueConfig = `  - match: wiki.example.org/
    name: wiki
    upstream: app
    auth: [session, bearer]
    encoded_slashes: opaque
  - match: wiki.example.org/sub/
    name: sub
    upstream: app
    auth: [session, bearer]
    encoded_slashes: opaque
    strip_prefix: /sub
  - {match: files.example.org/open/, name: files, upstream: app, auth: [none], encoded_slashes: opaque}
  - {match: "*.tenants.example.org/", name: tenants, upstream: app, auth: [none], encoded_slashes: opaque}
  - {match: own.tenants.example.org/, name: own, upstream: app, auth: [none]}
  - {match: /, name: root, upstream: app, auth: [none]}
  - {match: /secret/, name: secret, upstream: app, auth: [session], policy: admin}
`

// On a host with opaque routes the bytes of a path reach the application as they came, over
// each protocol and each way. What has a dot segment in any reading does not, nor what could
// be a path of another route.
func TestOpaquePaths(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", ", fast_path: false", ", reuse_connections: false", ", url: h2c"} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			testOpaquePaths(t, more)
		})
	}
}

func testOpaquePaths(t *testing.T, more string) {
	var got []string
	yaml := edit(t, baseConfig, "store:", "endpoints: {prefix: /auth/}\n"+
		"listen: {trusted_proxies: [10.0.0.0/8]}\nstore:") +
		opaqueConfig
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		got = append(got, q.Host+" "+q.RequestURI)
	}))
	app.Config.Protocols = new(http.Protocols)
	app.Config.Protocols.SetHTTP1(true)
	app.Config.Protocols.SetUnencryptedHTTP2(true)
	app.Start()
	t.Cleanup(app.Close)
	address := app.URL
	if strings.HasSuffix(more, "h2c") {
		address, more = "h2c"+strings.TrimPrefix(app.URL, "http"), ""
	}
	r := newRig(t, yaml)
	if err := r.reload(edit(t, yaml, `url: "http://app.invalid"`,
		fmt.Sprintf("url: %q%s", address, more))); err != nil {
		t.Fatal(err)
	}
	e := newExplainer(t, r.state.Load().config)
	alice := readLogin(t, r.want(200, "POST", "/auth/login", aliceIn, jsonType)).bearer
	ask := func(host, target string, want int, sent string) {
		t.Helper()
		got = nil
		q := request("GET", target, "", alice)
		q.Host = host
		w := r.serve(q)
		reached := ""
		if want == 200 {
			reached = host + " " + sent
		}
		if w.Code != want || strings.Join(got, "; ") != reached {
			t.Errorf("%s%s: %d %s; the application got %q, want %q", host, target, w.Code, w.Body, got, reached)
		}
		x, err := e.Explain(&explain.Request{
			URL: "https://" + host + target, Method: "GET", Caller: &explain.Caller{User: "alice",
				Mechanism: policy.Bearer},
		})
		if err != nil || x.Status != want || (want == 200) != (x.Path != "") || !strings.HasSuffix(target, x.Path) {
			t.Errorf("explain %s%s: %+v, %v; want %d, %s", host, target, x, err, want, sent)
		}
		v := request("GET", "/auth/verify", "", append(asNginx("GET", host, target), alice)...)
		v.RemoteAddr = "10.0.0.1:4711"
		if w := r.serve(v); w.Code != want {
			t.Errorf("verify %s%s: %d %s, want %d", host, target, w.Code, w.Body, want)
		}
	}
	for _, target := range []string{
		"/a%2Fb", "/%2F", "/%2f%2F", "/a%5Cb", "//", "//a", "//evil.example/x", "///a//b", "/a%252Fb", "/a%255C%25252F",
		"/%2561uth", "//a%2Fb?c=//..", "/a;b//c;d", "/%C3%A9//é", "//é%2F", "//a|b",
		"/sub%2Fx", "//sub/x", "/a%20//%3F%23", "/Main%2FPage/..a",
	} {
		sent := target
		if strings.HasPrefix(target, "//") {
			sent = strings.NewReplacer("é", "%C3%A9", "|", "%7C").Replace(target)
		}
		ask("wiki.example.org", target, 200, sent)
	}
	ask("wiki.example.org", "/sub//evil.example", 200, "//evil.example")
	ask("wiki.example.org", "/sub/%2Fx", 200, "/%2Fx")
	ask("any.tenants.example.org", "//a%2Fb", 200, "//a%2Fb")
	ask("files.example.org", "/open//a%5C", 200, "/open//a%5C")
	ask("files.example.org", "/else", 200, "/else") // of a route without a host, like any path there
	for _, target := range []string{
		"/a/..%2Fb", "/a%2F..", "/a%5C..%5Cb", "/..%5Ca", "/%252e%252e%252Fa", "/a%25252F..", "/a//../b", "/a/.%2Fb",
		"/a%2F..;x%2Fb", "/a%2Fb%00", "/a//%0d%0a", "/a//%ff", "/a//%C2%85", "/a//%zz", `/a\b`,
		"/auth%2Fme", "//auth/me", "/auth//login", "/%2561uth/me", "/auth%5Cme", "/auth/%2Fverify",
	} {
		ask("wiki.example.org", target, 400, "")
	}
	for _, target := range []string{
		"//open/x", "/else//x", "/else%2Fx", "/%2Fopen/x", "/open%2Fx",
		"/secret//x", "//secret/x", "/open/..%2Fsecret", "/secret%5Cx",
	} {
		ask("files.example.org", target, 400, "")
	}
	ask("own.tenants.example.org", "/a%2Fb", 400, "")
	ask("gw.example", "//a", 400, "")
	ask("gw.example", "/a%5Cb", 400, "")
	q := request("POST", "/sub%2Fx//", "a body", alice, "Sec-Fetch-Site: same-origin")
	q.Host, got = "wiki.example.org", nil
	if w := r.serve(q); w.Code != 200 || len(got) != 1 || got[0] != "wiki.example.org /sub%2Fx//" {
		t.Errorf("POST: %d %s, the application got %q", w.Code, w.Body, got)
	}
}

// After sign-in a user goes on to the same bytes, and never to another host.
func TestOpaqueReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+strings.ReplaceAll(opaqueConfig, "wiki.example.org", "gw.example"))
	for place, want := range map[string]string{
		"/a%252Fb%5C//c?d": "/a%252Fb%5C//c?d", "//evil.example": "/",
		"/%2Fx": "/%2Fx", "//login": "/", "/logout%2F": "/logout%2F",
		"/%6Cogout//": "/%6Cogout//", "/%2Flogout": "/", `/\evil.example`: "/", "/a%2F..%2Fb": "/",
	} {
		form := "username=alice&password=wonderland&return_to=" + url.QueryEscape(place)
		w := r.want(303, "POST", "/login", form, formType, browser)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("return_to=%s leads to %q, want %q", place, got, want)
		}
	}
}
