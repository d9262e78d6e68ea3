package gateway

import (
	"net/http"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// asIssuer returns the provider as an entry of token.trusted_issuers.
func asIssuer(p *ownrig.Provider, name string) string {
	return "{name: " + name + ", issuer: \"" + p.Issuer + "\", audience: [gateway]}"
}

// trusting returns baseConfig with entries of token.trusted_issuers.
func trusting(t testing.TB, issuers ...string) string {
	t.Helper()
	return edit(t, baseConfig, "basic:\n", "token: {trusted_issuers: ["+strings.Join(issuers, ", ")+"]}\nbasic:\n")
}

// A token of one issuer opens no route for tokens of another issuer, even if it is in
// the cache. Neither does a token that only claims to be of that issuer.
func TestTokenOfAnotherRoutesIssuer(t *testing.T) {
	t.Parallel()
	one, two := ownrig.NewProvider(t), ownrig.NewProvider(t)
	r := newRig(t, trusting(t, asIssuer(one, "one"), asIssuer(two, "two"))+
		"  - {match: /one/, upstream: app, auth: [bearer], policy: {providers: [one]}}\n"+
		"  - {match: /two/, upstream: app, auth: [bearer], policy: {providers: [two]}}\n"+
		"  - {match: /own/, upstream: app, auth: [bearer], policy: {providers: [local]}}\n")
	one.Now, two.Now = r.clock.Now, r.clock.Now
	ofOne, ofTwo := one.Bearer(nil), two.Bearer(nil)
	inTheNameOf := func(issuer string) map[string]any { return map[string]any{"iss": issuer} }
	mixed := ofOne[:strings.LastIndexByte(ofOne, '.')] + ofTwo[strings.LastIndexByte(ofTwo, '.'):]
	for range 2 { // cold, then warm
		for header, opens := range map[string]string{ // the only route, if any
			ofOne: "/one/", ofTwo: "/two/", r.login(aliceIn).bearer: "/own/",
			one.Bearer(inTheNameOf(two.Issuer)): "", two.Bearer(inTheNameOf(one.Issuer)): "",
			one.Bearer(inTheNameOf("https://gw.example")): "",
			mixed: "",
		} {
			for _, route := range []string{"/one/", "/two/", "/own/"} {
				before := r.upstream.Reached()
				if w := r.do("GET", route, "", header); (r.upstream.Reached() > before) != (route == opens) {
					t.Errorf("a token for %q at %s: %d", opens, route, w.Code)
				}
			}
		}
	}
}

// A token of another issuer with one changed byte never verifies, whether or not the
// cache has the token itself.
func FuzzTrustedTokenChangedByte(f *testing.F) {
	p := ownrig.NewProvider(f)
	r := newRig(f, trusting(f, asIssuer(p, "small")))
	p.Now = r.clock.Now
	good := p.Bearer(nil)
	scheme := len("Authorization: Bearer ")
	length := len(good) - scheme
	for _, at := range []int{0, 5, 20, 40, 60, 90, 200, length - 86, length - 40, length - 1} {
		for _, with := range []byte("AQ.=- ") {
			f.Add(uint16(at), with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(good)
		changed[scheme+int(at)%length] = with
		before, want := r.upstream.Reached(), http.StatusUnauthorized
		if string(changed) == good {
			want = http.StatusOK
		}
		w := r.do("GET", "/bearer/", "", string(changed))
		if w.Code != want || (r.upstream.Reached() > before) != (want == http.StatusOK) {
			t.Errorf("byte %d as %q: %d, want %d", at, with, w.Code, want)
		}
	})
}
