package gateway

import (
	"strings"
	"testing"
)

// A token of one issuer opens nothing that is for those of another, however
// well it is known already, and neither does one that only claims to be.
func TestTokenOfAnotherRoutesIssuer(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	r := newRig(t, edit(t, baseConfig, "basic:\n", "token:\n  trusted_issuers:\n"+
		"    - {name: one, issuer: \""+one.issuer+"\", audience: [gateway]}\n    - {name: two, issuer: \""+two.issuer+"\", audience: [gateway]}\nbasic:\n")+
		"  - {match: /one/, upstream: app, auth: [bearer], policy: {providers: [one]}}\n"+
		"  - {match: /two/, upstream: app, auth: [bearer], policy: {providers: [two]}}\n"+
		"  - {match: /own/, upstream: app, auth: [bearer], policy: {providers: [local]}}\n")
	t.Cleanup(r.Close)
	one.now, two.now = r.clock.now, r.clock.now
	bearer := func(p *smallProvider, issuer string) string {
		token, _ := p.tokens(p.key, map[string]any{"iss": issuer, "jti": "1"})["id_token"].(string)
		return "Authorization: Bearer " + token
	}
	ofOne, ofTwo, own := bearer(one, one.issuer), bearer(two, two.issuer), r.login(aliceIn).bearer
	for range 3 { // cold, then warm
		for _, c := range []struct {
			name, header, opens string // the only route, none where empty
		}{
			{"of the one", ofOne, "/one/"}, {"of the other", ofTwo, "/two/"}, {"the gateway's own", own, "/own/"},
			{"of the one, in the name of the other", bearer(one, two.issuer), ""}, {"of the other, in the name of the one", bearer(two, one.issuer), ""},
			{"of the one, in the gateway's name", bearer(one, "https://gw.example"), ""},
			{"of the one, with another's signature", ofOne[:strings.LastIndexByte(ofOne, '.')] + ofTwo[strings.LastIndexByte(ofTwo, '.'):], ""},
		} {
			for _, route := range []string{"/one/", "/two/", "/own/"} {
				before := r.upstream.count()
				w := r.do("GET", route, "", c.header)
				if reached := r.upstream.count() > before; reached != (route == c.opens) {
					t.Errorf("a token %s at %s: %d, reached the upstream: %t", c.name, route, w.Code, reached)
				}
			}
		}
	}
}
