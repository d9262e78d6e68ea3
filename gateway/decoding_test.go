package gateway

import (
	"strings"
	"testing"

	"authgate/gateway/explain"
)

// A path that leads to another route, to none or to an own endpoint when it is decoded
// once more is refused, and does not reach the application. Other paths that are encoded
// twice pass as they came. A proxy that asks, and explain, get the same answer.
func TestPathsEncodedTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")+`
  - {match: /, name: root, upstream: app, auth: [none]}
  - {match: "other.example/only/", upstream: app, auth: [none]}
  - {match: /keep/, upstream: app, auth: [none], encoded_slashes: keep}
  - {match: /keep/admin/, upstream: app, auth: [session], policy: admin}
`)
	e := newExplainer(t, r.state.Load().config)
	explained := func(target string) *explain.Result {
		x, err := e.Explain(&explain.Request{Method: "GET", URL: target})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, target := range []string{"/x/%2561dmin", "/100%25", "/100%2525", "/%2562?%2561dmin", "/keep/%2561%2Fb"} {
		r.want(200, "GET", target, "")
		if got := r.upstream.Last().URL.RequestURI(); got != target {
			t.Errorf("%s is forwarded as %s", target, got)
		}
		if x := explained(target); x.Outcome != explain.OutcomeAllow {
			t.Errorf("explain: %s is %s: %s", target, x.Outcome, x.Reason)
		}
	}
	for _, target := range []string{
		"/%2561dmin", "/%2561dmin/x", "/%252561dmin/x", "/%25%36%31dmin/x", "/publi%2563/x",
		"/m%2565", "/%256cogin", "/verif%2579",
		"/keep/%2561dmin%2Fx", "/keep/%2561dmin/x",
	} {
		r.want(400, "GET", target, "")
		if x := explained(target); x.Outcome != explain.OutcomeBadRequest {
			t.Errorf("explain: %s is %s: %s", target, x.Outcome, x.Reason)
		}
		w := r.do("GET", "/verify", "", "X-Original-Method: GET", "X-Original-URL: https://gw.example"+target)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "decode") {
			t.Errorf("verify: %s is %d %s", target, w.Code, w.Body)
		}
	}
	for _, own := range []string{"/login", "/%6cogin", "/me"} { // which no route hides
		r.want(405, "PUT", own, "")
	}
	q := request("GET", "/o%256ely/x", "")
	q.Host = "other.example"
	r.wantOf(400, q)
	r.want(200, "GET", "/o%256ely/x", "") // at another host
}
