package oauth_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// A user of a provider is a user of clients as well. email_verified is what the provider says:
// one that says nothing vouches for nothing. userinfo and the ID token tell the same.
func TestClaimsOfProviders(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	routes, clients, _ := strings.Cut(configuration, "oauth:")
	r := p.Rig(routes, "oauth:"+clients)
	const address = "carol@example.com"
	type object = map[string]any
	known := object{"sub": "small:1", "preferred_username": "carol", "groups": []any{"user"}}
	email := func(verified any) object { return object{"email": address, "email_verified": verified} }
	for name, c := range map[string]struct{ says, told object }{
		"verified":            {email(true), email(true)},
		"verified, as a text": {email("true"), email(true)},
		"unverified":          {email(false), email(false)},
		"unverified, as text": {email("no"), email(false)},
		"nothing about it":    {object{"email": address}, email(false)},
		"no address":          {object{"email_verified": true}, object{}},
		"no usable address":   {object{"email": "a@b@c", "email_verified": false}, object{}},
		"a name":              {object{"name": "Carol X"}, object{"name": "Carol X"}},
		"an unusable name":    {object{"name": "\u202ex"}, object{}},
	} {
		p.Claims = c.says
		s := &server{r, r.Carol()}
		a := s.tokens(t, "scope", "openid profile email groups")
		want := maps.Clone(known)
		maps.Copy(want, c.told)
		id := claimsOf(t, a.ID)
		var info object
		w := s.Want(200, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &info))
		for place, claims := range map[string]object{"the ID token": id, "userinfo": info} {
			for _, other := range []string{"iss", "aud", "exp", "iat", "auth_time", "at_hash", "sid", "amr", "acr"} {
				delete(claims, other)
			}
			if diff := cmp.Diff(want, claims); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, place, diff)
			}
		}
	}
}

// The class of a sign-in says how many factors it has proved.
func TestClassOfSignIn(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	routes, clients, _ := strings.Cut(configuration, "oauth:")
	yaml := p.Config(routes, "oauth:"+clients)
	r := rig.New(t, rig.Edit(t, yaml, "name: small,", "name: small, two_factors: {amr: [hwk]},"))
	p.Now = r.Clock.Now
	for want, methods := range map[string][]string{"factors:1": {"pwd"}, "factors:2": {"pwd", "hwk"}} {
		p.Claims = map[string]any{"amr": methods}
		s := &server{r, r.Carol()}
		a := s.tokens(t)
		for _, token := range []string{a.ID, s.refresh(t, 200, a.Refresh).ID} {
			if got := claimsOf(t, token)["acr"]; got != want {
				t.Errorf("%v: %v", methods, got)
			}
		}
	}
	supported := document(t, r, "gw.example", "/.well-known/openid-configuration")["acr_values_supported"]
	if diff := cmp.Diff([]any{"factors:1", "factors:2"}, supported); diff != "" {
		t.Error(diff)
	}
}

// An ID token ends with the account, and with each role that it names in groups.
func TestIDTokenEnds(t *testing.T) {
	t.Parallel()
	start := rig.New(t, configuration).Clock.Now().Truncate(time.Second)
	at := func(d time.Duration) string { return start.Add(d).UTC().Format(time.RFC3339) }
	yaml := rig.Edit(t, configuration, "roles: [user, admin],",
		"roles: [user, {name: admin, until: "+at(30*time.Second)+"}], until: "+at(40*time.Second)+",")
	r := rig.New(t, yaml)
	s := &server{r, r.Login(rig.Alice).Cookie}
	for scope, want := range map[string]time.Duration{"openid": 40 * time.Second, "openid groups": 30 * time.Second} {
		if got := claimsOf(t, s.tokens(t, "scope", scope).ID)["exp"]; got != float64(start.Add(want).Unix()) {
			t.Errorf("%s: it ends at %v, want %v later than %d", scope, got, want, start.Unix())
		}
	}
}
