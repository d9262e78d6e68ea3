package provider

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// groupsPath is the path of the place of groups.
const groupsPath = "/users/alice-oid/getMemberObjects"

// leavesOut makes ID tokens name the place of groups instead of having them.
func (f *fake) leavesOut(endpoint string) {
	f.userinfo = object{"sub": "alice-sub", "preferred_username": "alice"}
	f.id["_claim_names"] = object{"groups": "src1"}
	f.id["_claim_sources"] = object{"src1": object{"endpoint": endpoint}}
}

func groupsProvider(f *fake) *Provider {
	return f.provider(func(o *Options) { o.Mapping.Roles = "groups" })
}

// The groups that an ID token leaves out come from their place, by the user's own token, at the sign-in
// and at each renewal, also at one that brings no ID token.
func TestGroupsOfUsersWithMany(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.leavesOut(f.idp + groupsPath)
	body, groups := "", `["g1","g2"]`
	f.instead[groupsPath] = func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body = r.Method + " " + r.Header.Get("Content-Type") + " " + string(raw)
		sayJSON(`{"@odata.context":"x","value":`+groups+`}`)(w, r)
	}
	p := groupsProvider(f)
	login := must(exchange(t, p))
	if diff := cmp.Diff([]string{"g1", "g2"}, login.Profile.Roles); diff != "" {
		t.Error(diff)
	}
	if _, got := f.lastCall(groupsPath); got != "Bearer "+f.access ||
		body != `POST application/json {"securityEnabledOnly":false}` {
		t.Errorf("the request is %s with %s", body, got)
	}
	for _, idToken := range []bool{true, false} {
		groups = `["g3"]`
		f.answer = object{}
		if !idToken {
			groups, f.answer["id_token"] = `["g4"]`, nil
		}
		profile, _ := profileOf(p, must(refresh(t, p, login.Tokens)), login.Said)
		if diff := cmp.Diff([]string{map[bool]string{true: "g3", false: "g4"}[idToken]}, profile.Roles); diff != "" {
			t.Errorf("renewed, with an ID token %t: %s", idToken, diff)
		}
	}
	f.fail(groupsPath)
	if profile, _ := profileOf(p, must(refresh(t, p, login.Tokens)), login.Said); profile.Roles != nil {
		t.Errorf("the place is silent, and the roles are %v", profile.Roles)
	}
}

// A user whose groups cannot be had signs in without the roles of any, and the log says so.
func TestGroupsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]http.HandlerFunc{
		"refused":         say(403, "application/json", `{"error":"Authorization_RequestDenied"}`),
		"silent":          say(503, "", ""),
		"redirect":        say(302, "", ""),
		"no JSON":         sayJSON("<html>"),
		"no list":         sayJSON(`{}`),
		"other values":    sayJSON(`{"value":[1]}`),
		"not all of them": sayJSON(`{"value":["g1"],"@odata.nextLink":"https://graph.example/2"}`),
	} {
		f := newFake(t)
		f.leavesOut(f.idp + groupsPath)
		f.instead[groupsPath] = instead
		if got := must(exchange(t, groupsProvider(f))).Profile; got.Roles != nil || got.Username != "alice" {
			t.Errorf("%s: got %+v", name, got)
		}
		if !strings.Contains(f.log.String(), "the groups of a user with many cannot be had") {
			t.Errorf("%s: the log does not say it", name)
		}
	}
}

// A renewal without an ID token takes the groups from the place that the old one names, and nothing else from
// it: what was taken away since does not come back. Silent keys are no reason to keep groups.
func TestGroupsAtARenewalWithoutAnIDToken(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.leavesOut(f.idp + groupsPath)
	f.instead[groupsPath] = sayJSON(`{"value":["g1"]}`)
	f.id["department"] = "sales"
	p := groupsProvider(f)
	login := must(exchange(t, p))
	newer := must(exchange(t, p)).Said
	newer.ID = []byte(`{"department":"support"}`) // another login has brought it since
	f.answer["id_token"] = nil
	renewed := must(refresh(t, p, login.Tokens))
	if profile, _ := profileOf(p, renewed, newer); profile.Claims["department"] != "support" {
		t.Errorf("the claims are %v", profile.Claims)
	}
	f.fail(groupsPath)
	renewed = must(refresh(t, p, login.Tokens))
	if profile, _ := profileOf(p, renewed, login.Said); profile.Roles != nil {
		t.Errorf("the place is silent, and the roles are %v", profile.Roles)
	}
	f.answer, f.key = object{}, newECKey("second")
	f.fail("/keys")
	renewed, err := refresh(t, p, login.Tokens)
	if profile, _ := profileOf(p, renewed, login.Said); err == nil || profile.Roles != nil {
		t.Errorf("keys and place are silent, and the roles are %v, %v", profile.Roles, err)
	}
}

// Only the claim with roles is asked for. Another one, such as how the user proved who they are, is not.
func TestPlacesOfOtherClaims(t *testing.T) {
	t.Parallel()
	for claim, roles := range map[string]string{"groups": "roles", "amr": "groups"} {
		f := newFake(t)
		f.leavesOut(f.idp + groupsPath)
		f.id["_claim_names"] = object{claim: "src1"}
		f.instead[groupsPath] = sayJSON(`{"value":["mfa"]}`)
		must(exchange(t, f.provider(func(o *Options) { o.Mapping.Roles = roles })))
		f.wantCalled(t, groupsPath, 0)
	}
}

// Only a place of groups over TLS or on this machine is asked, and only for a claim that the token does not have.
func TestPlacesOfGroups(t *testing.T) {
	t.Parallel()
	for endpoint, called := range map[string]string{
		"https://graph.windows.net/t/users/oid/getMemberObjects": userGroups,
		"https://graph.example/v1.0/me/getMemberObjects?x=1":     "https://graph.example/v1.0/me/getMemberObjects?x=1",
		"http://graph.example/v1.0/me/getMemberObjects":          "",
		"https://user@graph.example/getMemberObjects":            "",
		"https://graph.example/v1.0/me":                          "",
		"getMemberObjects":                                       "",
	} {
		f := newFake(t)
		f.leavesOut(endpoint)
		must(exchange(t, groupsProvider(f)))
		asked := ""
		for path, r := range f.last {
			if strings.HasSuffix(path, memberObjects) {
				asked = r.URL.String()
			}
		}
		if asked != called {
			t.Errorf("%s: asked %q, want %q", endpoint, asked, called)
		}
	}
	f := newFake(t)
	f.leavesOut(f.idp + groupsPath)
	f.id["groups"] = []string{"g9"}
	if got := must(exchange(t, groupsProvider(f))).Profile.Roles; !cmp.Equal(got, []string{"g9"}) {
		t.Errorf("the token has the claim, and the roles are %v", got)
	}
	f.wantCalled(t, groupsPath, 0)
}
