package mechanism_test

import (
	"net/http"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// asIssuer returns the provider as an entry of token.trusted_issuers.
func asIssuer(p *rig.Provider, name string) string {
	return "{name: " + name + ", issuer: \"" + p.Issuer + "\", audience: [gateway]}"
}

// trusting returns baseConfig with entries of token.trusted_issuers.
func trusting(t testing.TB, issuers ...string) string {
	t.Helper()
	return rig.Edit(t, rig.Base, "basic:\n", "token: {trusted_issuers: ["+strings.Join(issuers, ", ")+"]}\nbasic:\n")
}

// A token of one issuer opens no route for tokens of another issuer, even if it is in
// the cache. Neither does a token that only claims to be of that issuer.
func TestTokenOfAnotherRoutesIssuer(t *testing.T) {
	t.Parallel()
	one, two := rig.NewProvider(t), rig.NewProvider(t)
	r := rig.New(t, trusting(t, asIssuer(one, "one"), asIssuer(two, "two"))+
		"  - {match: /one/, upstream: app, auth: [bearer], policy: {providers: [one]}}\n"+
		"  - {match: /two/, upstream: app, auth: [bearer], policy: {providers: [two]}}\n"+
		"  - {match: /own/, upstream: app, auth: [bearer], policy: {providers: [local]}}\n")
	one.Now, two.Now = r.Clock.Now, r.Clock.Now
	ofOne, ofTwo := one.Bearer(nil), two.Bearer(nil)
	inTheNameOf := func(issuer string) map[string]any { return map[string]any{"iss": issuer} }
	mixed := ofOne[:strings.LastIndexByte(ofOne, '.')] + ofTwo[strings.LastIndexByte(ofTwo, '.'):]
	for range 2 { // cold, then warm
		for header, opens := range map[string]string{ // the only route, if any
			ofOne: "/one/", ofTwo: "/two/", r.Login(rig.Alice).Bearer: "/own/",
			one.Bearer(inTheNameOf(two.Issuer)): "", two.Bearer(inTheNameOf(one.Issuer)): "",
			one.Bearer(inTheNameOf("https://gw.example")): "",
			mixed: "",
		} {
			for _, route := range []string{"/one/", "/two/", "/own/"} {
				before := r.Reached()
				if w := r.Do("GET", route, "", header); (r.Reached() > before) != (route == opens) {
					t.Errorf("a token for %q at %s: %d", opens, route, w.Code)
				}
			}
		}
	}
}

// A token of another issuer with one changed byte never verifies, whether or not the
// cache has the token itself.
func FuzzTrustedTokenChangedByte(f *testing.F) {
	p := rig.NewProvider(f)
	r := rig.New(f, trusting(f, asIssuer(p, "small")))
	p.Now = r.Clock.Now
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
		before, want := r.Reached(), http.StatusUnauthorized
		if string(changed) == good {
			want = http.StatusOK
		}
		w := r.Do("GET", "/bearer/", "", string(changed))
		if w.Code != want || (r.Reached() > before) != (want == http.StatusOK) {
			t.Errorf("byte %d as %q: %d, want %d", at, with, w.Code, want)
		}
	})
}

// What does not say who it is, and proves nothing, refuses no user and no token: a claim
// that cannot be used is absent.
func TestDecorationRefusesNoUser(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	r := p.Rig(rig.Edit(t, rig.Base, "basic:\n", "token: {trusted_issuers: [{name: small, issuer: \""+p.Issuer+
		"\", audience: [gateway]}]}\nbasic:\n"), "")
	for _, changes := range []map[string]any{
		{"preferred_username": ""}, {"preferred_username": 5}, {"preferred_username": "carol "},
		{"preferred_username": "ca\u200brol"}, {"preferred_username": "boss@example.org"},
		{"name": map[string]any{"first": "C"}}, {"name": strings.Repeat("x", 2_000)},
		{"email": "carol"}, {"email": []string{"c@example.org"}}, {"email": "c@example.org", "email_verified": "True"},
		{"roles": "admin"}, {"roles": 5}, {"iat": nil}, {"iat": "now"}, {"sid": ""}, {"scope": 5},
		{"azp": nil}, {"azp": ""}, {"at_hash": nil}, {"at_hash": ""},
	} {
		p.Claims = changes
		for path, credential := range map[string]string{"/delegated/": r.Carol(), "/bearer/": p.Bearer(changes)} {
			r.Want(200, "GET", path, "", credential)
			h := r.LastHeader()
			want := [...]string{"carol", "", "user"}
			if changes["preferred_username"] != nil {
				want[0] = "1"
			}
			switch changes["roles"] {
			case "admin":
				want[2] = "admin"
			case 5:
				want[2] = ""
			}
			got, name := [...]string{h.Get("X-Auth-User"), h.Get("X-Auth-Email"), h.Get("X-Auth-Roles")},
				h.Get("X-Auth-Name")
			if got != want || name != "" {
				t.Errorf("%.100v at %s: the upstream gets %v and the name %.20q, want %v", changes, path, got, name,
					want)
			}
		}
	}
	for _, changes := range []map[string]any{{"sub": ""}, {"sub": 5}, {"exp": 1}, {"aud": "another"}} {
		before := r.Reached()
		w := r.Want(401, "GET", "/bearer/", "", p.Bearer(changes))
		if r.Reached() != before || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%v: %v, %d requests reached the upstream", changes, w.Header(), r.Reached()-before)
		}
	}
}

// Tokens of an issuer without an audience open no route, whatever audience they name: JWTs, and
// opaque ones, about which the issuer is not asked.
func TestIssuerWithoutAudience(t *testing.T) {
	t.Parallel()
	p, other := rig.NewProvider(t), rig.NewProvider(t)
	r := rig.New(t, trusting(t, "{name: cluster, issuer: \""+p.Issuer+"\", introspection: {client_id: gateway}}",
		asIssuer(other, "other")))
	p.Now, other.Now = r.Clock.Now, r.Clock.Now
	if w := r.Do("GET", "/bearer/", "", other.Bearer(nil)); w.Code != http.StatusOK {
		t.Fatalf("a token of an issuer with an audience: %d", w.Code)
	}
	before := r.Reached()
	for _, header := range []string{
		p.Bearer(nil), p.Bearer(map[string]any{"aud": ""}), p.Bearer(map[string]any{"aud": []string{}}),
		p.Bearer(map[string]any{"aud": nil}), "Authorization: Bearer an-opaque-token",
	} {
		if w := r.Do("GET", "/bearer/", "", header); w.Code != http.StatusUnauthorized || r.Reached() != before {
			t.Errorf("%.40s: %d", header, w.Code)
		}
	}
}
