//go:build interop

package oidc

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"
)

// keycloakStepUpRoutes demand more of a login.
const keycloakStepUpRoutes = `
  - {match: /two, upstream: app, auth: [oidc], policy: {factors: 2}}
  - {match: /fresh, upstream: app, auth: [oidc], policy: {max_age: 20s}}
`

// levels makes the clients sign in by levels, as docs/providers/keycloak.md sets them up: the
// password is the first, and for users who have one a code is the second. The ID token has
// the level as acr, and for the client methods what was used as amr.
func (k *keycloak) levels(clients ...string) {
	k.t.Helper()
	const flows = "/authentication/flows"
	k.admin("POST", flows, object{"alias": "levels", "providerId": "basic-flow", "topLevel": true}, nil)
	seen := map[any]bool{}
	// add adds an execution, or without a provider a flow, and configures it.
	add := func(flow, provider, name, requirement string, config object) {
		k.t.Helper()
		if at := flows + "/" + url.PathEscape(flow) + "/executions"; provider == "" {
			k.admin("POST", at+"/flow", object{"alias": name, "type": "basic-flow", "provider": "registration-page-form"}, nil)
		} else {
			k.admin("POST", at+"/execution", object{"provider": provider}, nil)
		}
		var all []object
		k.admin("GET", flows+"/levels/executions", nil, &all)
		added := all[slices.IndexFunc(all, func(e object) bool { return !seen[e["id"]] })]
		seen[added["id"]], added["requirement"] = true, requirement
		k.admin("PUT", flows+"/levels/executions", added, nil)
		if config != nil {
			k.admin("POST", "/authentication/executions/"+added["id"].(string)+"/config",
				object{"alias": name, "config": config}, nil)
		}
	}
	const level = "conditional-level-of-authentication"
	add("levels", "auth-cookie", "", "ALTERNATIVE", nil)
	add("levels", "", "by levels", "ALTERNATIVE", nil)
	add("by levels", "", "first", "CONDITIONAL", nil)
	add("first", level, "level 1", "REQUIRED", object{"loa-condition-level": "1", "loa-max-age": "36000"})
	add("first", "auth-username-password-form", "password", "REQUIRED",
		object{"default.reference.value": "pwd", "default.reference.maxAge": "36000"})
	add("by levels", "", "second", "CONDITIONAL", nil)
	add("second", level, "level 2", "REQUIRED", object{"loa-condition-level": "2", "loa-max-age": "0"})
	add("second", "conditional-user-configured", "", "REQUIRED", nil)
	add("second", "auth-otp-form", "code", "REQUIRED",
		object{"default.reference.value": "mfa", "default.reference.maxAge": "36000"})
	var all []object
	k.admin("GET", flows, nil, &all)
	flow := all[slices.IndexFunc(all, func(f object) bool { return f["alias"] == "levels" })]["id"]
	for _, name := range clients {
		path := "/clients/" + k.id("/clients", "clientId", name)
		k.admin("PUT", path, object{"clientId": name, "authenticationFlowBindingOverrides": object{"browser": flow}}, nil)
	}
	methods := "/clients/" + k.id("/clients", "clientId", "methods") + "/protocol-mappers/models"
	k.admin("POST", methods, object{"name": "methods", "protocol": "openid-connect", "protocolMapper": "oidc-amr-mapper",
		"config": object{"id.token.claim": "true", "access.token.claim": "false"}}, nil)
}

// keycloakStepUp: a login with the password alone leads to Keycloak again where two factors are
// needed, or a fresh sign-in. What Keycloak confirms with acr, amr and auth_time opens the page,
// and a user without a second factor comes back to a 403, and keeps the session. Who has no
// login gives both factors in one trip.
func keycloakStepUp(t *testing.T, a *atKeycloak) {
	step := 0 // of the next code; each serves once, and this Keycloak takes some of those to come
	code := func() map[string]string {
		at := time.Now().Add(time.Duration(step) * 30 * time.Second)
		step++
		return map[string]string{"otp": world.Must(authenticator.Code(keycloakOTP, at))(t)}
	}
	for provider, values := range map[string]string{"levels": "gold", "methods": "2"} {
		carol, bob := a.signedIn(t, provider, "carol"), a.signedIn(t, provider, "bob")
		for _, b := range []*browser{carol, bob} {
			a.stepsUp(t, b, "/two", map[string]string{"acr_values": values})
		}
		session := sessionOf(a.Delegated, bob)
		if !strings.HasPrefix(bob.URL.String(), a.Base+"/callback") || bob.Page.Status != http.StatusForbidden {
			t.Errorf("by %s without a second factor, expected 403: %s", provider, bob.Describe())
		}
		a.Up.None(t)
		wantIn(t, a.Delegated, session)

		carol.Send(map[string]string{"otp": "123"})
		if f, _ := carol.Form(); !f.Fields.Has("otp") {
			t.Fatalf("Keycloak asks for no code again: %s", carol.Describe())
		}
		a.Up.None(t)
		carol.Send(code())
		wantReached(t, a.Delegated, carol, "/two", "carol")
		if amr := proofOf(t, a.Delegated, carol).AMR; !slices.Contains(amr, "mfa") {
			t.Errorf("by %s the login has the methods %q", provider, amr)
		}
	}

	once := browse(a.Delegated.Instance)
	once.Open(a.Base + "/login?provider=levels&return_to=/two")
	once.Send(map[string]string{"username": "carol", "password": keycloakSecret})
	once.Send(code())
	wantReached(t, a.Delegated, once, "/two", "carol")

	b := a.signedIn(t, "levels", "carol")
	before := proofOf(t, a.Delegated, b).AuthTime
	world.Until(t, "an old sign-in", func() bool { return a.Status(b.Client, "GET", "/fresh") == http.StatusUnauthorized })
	a.Up.All()
	a.stepsUp(t, b, "/fresh", map[string]string{"max_age": "20"})
	wantReached(t, a.Delegated, b, "/fresh", "carol")
	if after := proofOf(t, a.Delegated, b).AuthTime; after <= before {
		t.Errorf("the sign-in is of %d after that of %d", after, before)
	}
}

// stepsUp opens a page that leads to Keycloak, with parameters, and gives the password there.
func (a *atKeycloak) stepsUp(t *testing.T, b *browser, page string, asks map[string]string) {
	t.Helper()
	b.StopAt = a.k.base
	b.Open(a.Base + page)
	b.StopAt = ""
	if b.Next == "" {
		t.Fatalf("%s leads to no step-up: %s", page, b.Describe())
	}
	asked := world.QueryOf(b.Next)
	for name, want := range map[string]string{
		"prompt": "login", "acr_values": asks["acr_values"], "max_age": asks["max_age"],
	} {
		if got := asked.Get(name); got != want {
			t.Errorf("for %s the gateway asks for %s=%q, expected %q", page, name, got, want)
		}
	}
	b.Open(b.Next)
	if f, ok := b.Form(); !ok || !f.Fields.Has("password") {
		t.Fatalf("Keycloak asks for no password: %s\n%s", b.Describe(), a.Log)
	}
	a.Up.None(t)
	b.Send(map[string]string{"password": keycloakSecret})
}
