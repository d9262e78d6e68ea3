package gateway

import (
	"testing"

	ownrig "authgate/internal/test/rig"
)

// Methods are case-sensitive (RFC 9110, section 9.1), but not to every application: one that is
// not in upper case is refused, and so is one that is no token.
func TestMethodsInLowerCase(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, method := range []string{"get", "Get", "gET"} {
		r.want(400, method, "/public/", "")
	}
	for _, method := range []string{"G T", "GET,POST", "É", "(", "GET\x00"} { // HTTP/2 has room for them
		q := ownrig.Request("GET", "/public/", "")
		q.Method = method
		r.wantOf(400, q)
	}
	if r.upstream.Reached() != 0 {
		t.Error("a request with a wrong method reaches the upstream")
	}
}

// Over HTTP/2, Host beside :authority must be the same host, once.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, c := range []struct {
		status int
		fields []string
	}{{200, nil}, {200, []string{"GW.example"}}, {400, []string{"gw.example", "gw.example"}}, {400, []string{"other.example"}}} {
		q := ownrig.Request("GET", "/public/", "")
		q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/2.0", 2, 0
		q.Header["Host"] = c.fields
		r.wantOf(c.status, q)
	}
}

// The route of a path that ends in a slash also decides on the path without it. The
// application answers, and may redirect from one to the other.
func TestPathWithoutItsSlash(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+`
  - {match: /, upstream: app, auth: [none]}
  - {match: /stripped/, upstream: app, auth: [none], strip_prefix: /stripped}
  - {match: /exact/, upstream: app, auth: [session]}
  - {match: /exact, upstream: app, auth: [none]}
`)
	for _, c := range []struct {
		target, header   string
		status           int
		forwarded, query string
	}{
		{"/%70ublic?a=b", "", 200, "/%70ublic", "a=b"},
		{"/stripped?", "", 308, "", ""},
		{"/stripped/", "", 200, "/", ""},
		{"/session", "", 401, "", ""},
		{"/session;x", "", 400, "", ""},
		{"/basic", basicHeader("service", "s3rvice"), 200, "/basic", ""},
		{"/exact", "", 200, "/exact", ""},
		{"/exact/", "", 401, "", ""},
	} {
		if r.want(c.status, "GET", c.target, "", c.header); c.status != 200 {
			continue
		}
		if got := r.upstream.Last().URL; got.Opaque != c.forwarded || got.RawQuery != c.query {
			t.Errorf("%s: the upstream is asked for %q with the query %q", c.target, got.Opaque, got.RawQuery)
		}
	}
}

// Some applications ignore the case of paths, or a slash or a dot at the end. With a
// configuration that closes everything and opens single paths, nothing else is open
// (docs/security.md).
func TestCaseFoldingUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig,
		"{match: /public/, name: public, upstream: app, auth: [none]}", "{match: /, upstream: app, auth: [session]}")+
		"  - {match: /assets/, upstream: app, auth: [none]}\n  - {match: \"/{$}\", upstream: app, auth: [none]}\n")
	for _, path := range []string{
		"/admin", "/Admin", "/ADMIN/", "/%41dmin", "/admin.", "/admin%20", "/\u0130", "/ſession/x", "/\u212aeys",
		"/ＡＤＭＩＮ", "/assetſ/x", "/ASSETS/../admin", "/Assets/x", "/Assets", "/assets;/x",
	} {
		before := r.upstream.Reached()
		if w := r.do("GET", path, ""); r.upstream.Reached() != before {
			t.Errorf("%s without a session: %d, and the upstream is asked for it", path, w.Code)
		}
	}
	for _, path := range []string{"/", "/assets", "/assets/x", "/assets/Style.CSS"} {
		r.want(200, "GET", path, "")
	}
}
