package gateway

import (
	"net/url"
	"strings"
	"testing"
)

const slashConfig = baseConfig + `
  - {match: /npm/, name: npm, upstream: app, auth: [session], encoded_slashes: keep, strip_prefix: /npm}
  - {match: "/npm/{name}", name: package, upstream: app, auth: [session], encoded_slashes: keep}
  - {match: "/npm/{scope}/{name}", name: scoped, upstream: app, auth: [session], encoded_slashes: keep}
  - {match: /git/, name: git, upstream: app, auth: [session], encoded_slashes: keep}
  - {match: /git/admin/, name: git-admin, upstream: app, auth: [session], policy: admin}
  - {match: /, name: root, upstream: app, auth: [session], encoded_slashes: keep}
`

// A route that keeps encoded slashes forwards them as they came. It refuses those
// that lead elsewhere as slashes, and other routes refuse them all.
func TestEncodedSlashes(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, slashConfig, "basic:\n", "endpoints: {prefix: /auth/}\nbasic:\n"))
	alice := readLogin(t, r.want(200, "POST", "/auth/login", aliceIn, jsonType))
	for target, sent := range map[string]string{
		"/git/group%2Fproject/-/issues?a=%2F..": "/git/group%2Fproject/-/issues?a=%2F..",
		"/git/a%2fb%2Fc":                        "/git/a%2fb%2Fc",
		"/npm/a/b/@s%2fn":                       "/a/b/@s%2fn",
		"/a%2Fb":                                "/a%2Fb",
		"/git/x;%2Fadmin/y":                     "/git/x;%2Fadmin/y", // nowhere a path of /git/admin/
		"/git/a%2Fb;v=1":                        "/git/a%2Fb;v=1",
		"/git/%2F/q%2F":                         "/git/%2F/q%2F",
	} {
		r.want(200, "GET", target, "", alice.cookie)
		if got := r.upstream.Last().URL.RequestURI(); got != sent {
			t.Errorf("%s is forwarded as %s, want %s", target, got, sent)
		}
	}
	for _, target := range []string{
		"/npm/@scope%2fname",                              // of another route with a slash
		"/git%2Fadmin/", "/git/admin%2Fx", "/git%2Fadmin", // around a policy
		"/git/;x%2Fadmin/y",
		"/auth%2Flogin", "/auth%2Fme", // an own endpoint
		"/public/a%2Fb", "/session/a%2Fb", "/public%2Fa",
		"/git/..%2Fadmin", "/git/%2Fadmin/x", "/git/%2F%2Fadmin/", "/%2Fauth/me", "/git/a%252Fb", "/git/a%2F%2e%2e%2Fadmin",
	} {
		r.want(400, "GET", target, "", alice.cookie)
	}
	w := r.want(302, "GET", "/git/group%2Fproject", "", browser)
	if got := w.Header().Get("Location"); !strings.HasSuffix(got, "?return_to="+url.QueryEscape("/git/group%2Fproject")) {
		t.Errorf("the redirect to the sign-in page is to %q", got)
	}
	form := "username=alice&password=wonderland&return_to=" + url.QueryEscape("/git/group%2Fproject")
	w = r.want(303, "POST", "/auth/login", form, formType, browser)
	if w.Header().Get("Location") != "/git/group%2Fproject" {
		t.Errorf("after the sign-in: %q", w.Header())
	}
	r.mustReload(baseConfig)
	r.want(400, "GET", "/session/a%2Fb", "", alice.cookie)
}
