package gateway

import (
	"testing"

	"authgate/gateway/headername/headernametest"
)

// What a route removes or sets is removed in every spelling that an
// application could take for the name, as the identity's headers are: a client
// must not keep a header, or have one beside the gateway's, by writing "_" for
// "-".
func TestRouteHeadersInAllSpellings(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /changed/, upstream: app, auth: [none], headers: {set: {X-Api-Key: good}, remove: [X-Webauth-User]}}\n")
	for name, want := range map[string][]string{"X-Api-Key": {"good"}, "X-Webauth-User": nil} {
		for _, spelling := range headernametest.Spellings(name) {
			if w := r.do("GET", "/changed/", "", spelling+": evil"); w.Code != 200 {
				t.Fatalf("%s: %d", spelling, w.Code)
			}
			var got []string
			for each, values := range r.upstream.last().Header {
				if headernametest.CGI(each) == headernametest.CGI(name) {
					got = append(got, values...)
				}
			}
			if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
				t.Errorf("the client sends %s, and the upstream reads %s: %q, want %q", spelling, name, got, want)
			}
		}
	}
}
