package gateway

import (
	"strings"
	"testing"
)

// In front of an application that reads paths without regard to case, and
// drops a slash or a dot at their end as some do, a configuration that closes
// everything and opens single places lets nobody in elsewhere, as
// docs/security.md says.
func TestCaseFoldingUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "{match: /public/, name: public, upstream: app, auth: [none]}", "{match: /, upstream: app, auth: [session]}")+
		"  - {match: /assets/, upstream: app, auth: [none]}\n  - {match: \"/{$}\", upstream: app, auth: [none]}\n")
	for _, path := range []string{
		"/admin", "/Admin", "/ADMIN/", "/aDmin/users", "/%41dmin", "/admin.", "/admin%20", "/Admin/", "/\u0130", "/ſession/x", "/\u212aeys", "/ＡＤＭＩＮ", "/assetſ/x", "/ASSETS/../admin", "/Assets/x", "/Assets", "/assets;/x",
	} {
		before := r.upstream.count()
		w := r.do("GET", path, "")
		if r.upstream.count() != before {
			t.Errorf("%s without a session: %d, and the upstream is asked for it", path, w.Code)
		}
	}
	for _, path := range []string{"/", "/assets", "/assets/x", "/assets/Style.CSS"} {
		before := r.upstream.count()
		if w := r.do("GET", path, ""); r.upstream.count() == before || !strings.Contains(w.Body.String(), "hello") {
			t.Errorf("%s: %d, and it is open", path, w.Code)
		}
	}
}
