//go:build interop

package oidc

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/google/go-cmp/cmp"
)

// keycloakCodeFlow: the gateway asks for a code with PKCE, which Keycloak requires.
// A wrong password gives no session, the right one the user's identity.
func keycloakCodeFlow(t *testing.T, a *atKeycloak) {
	b := browse(a.Delegated.Instance)
	b.StopAt = a.k.base
	b.Open(a.Base + "/login?provider=keycloak")
	asked := world.QueryOf(b.Next)
	if asked.Get("response_type") != "code" || asked.Get("code_challenge_method") != "S256" ||
		len(asked.Get("code_challenge")) != 43 {
		t.Errorf("the gateway asks for %v", asked)
	}
	asked.Del("code_challenge")
	asked.Del("code_challenge_method")
	plain := browse(a.Delegated.Instance)
	plain.Open(b.Next[:strings.IndexByte(b.Next, '?')+1] + asked.Encode())
	if got := plain.URL.Query().Get("error"); got != "invalid_request" {
		t.Errorf("without PKCE, expected invalid_request: %s", plain.Describe())
	}

	for _, provider := range []string{"keycloak", "public"} {
		b := browse(a.Delegated.Instance)
		a.opens(t, b, provider)
		b.Send(map[string]string{"username": "alice", "password": "a guess"})
		if f, _ := b.Form(); !f.Fields.Has("password") || b.Cookie(a.Base, "session") != "" {
			t.Errorf("a wrong password is accepted: %s", b.Describe())
		}
		b.Send(map[string]string{"username": "alice", "password": keycloakSecret})
		if b.URL.String() != a.Base+"/secure-resource" {
			t.Fatalf("Keycloak does not send the browser back: %s", b.Describe())
		}
		a.Up.All()
		for b, want := range map[*browser]struct {
			user, email string
			admin       int
		}{b: {"alice", "alice@example.org", http.StatusOK}, a.signedIn(t, provider, "bob"): {"bob", "",
			http.StatusForbidden}} {
			identifies(t, a.Delegated, b, want.admin, map[string]string{
				"X-Auth-User": want.user, "X-Auth-Subject": provider + ":" + strings.TrimPrefix(a.k.user(want.user), "/users/"),
				"X-Auth-Email":     want.email,
				"X-Auth-Mechanism": "oidc", "X-Auth-Provider": provider, "Cookie": "",
			})
		}
	}
}

// keycloakRoles: the roles are those of the realm, of a client or the groups, as
// configured. Keycloak gives no userinfo for lightweight access tokens, so there is no
// sign-in with them.
func keycloakRoles(t *testing.T, a *atKeycloak) {
	for provider, want := range map[string][]string{
		"keycloak":     {"admin", "default-roles-main", "offline_access", "uma_authorization", "user"},
		"client-roles": {"admin", "editor"},
		"groups":       {"admin", "staff"},
	} {
		if got := a.roles(t, a.signedIn(t, provider, "alice")); !slices.Equal(got, want) {
			t.Errorf("by %s the upstream gets the roles %q, expected %q", provider, got, want)
		}
	}
	b := browse(a.Delegated.Instance)
	a.opens(t, b, "light")
	b.Send(map[string]string{"username": "alice", "password": keycloakSecret})
	const why = "Lightweight access token not allowed for userinfo endpoint"
	if b.Page.Status != http.StatusBadGateway || b.Cookie(a.Base, "session") != "" {
		t.Errorf("with a lightweight access token, expected 502: %s\n%s", b.Describe(), a.Log)
	}
	world.Until(t, "the reason in the log", func() bool { return strings.Contains(a.Log.String(), why) })
}

// keycloakRefresh: a role that is taken or given at Keycloak is taken or given here,
// without a new login.
func keycloakRefresh(t *testing.T, a *atKeycloak) {
	b := a.signedIn(t, "brief", "alice")
	admin := func(want int) {
		t.Helper()
		world.Until(t, "another answer for administrators",
			func() bool { return a.Status(b.Client, "GET", "/admin-resource") == want })
	}
	admin(http.StatusOK)
	a.k.role("DELETE", "alice", "admin")
	admin(http.StatusForbidden)
	a.k.role("POST", "alice", "admin")
	admin(http.StatusOK)
}

// keycloakDisabled: the session of a user who is disabled at Keycloak ends with its
// next refresh, and the user cannot sign in. Other users notice nothing.
func keycloakDisabled(t *testing.T, a *atKeycloak) {
	alice, bob := sessionOf(a.Delegated, a.signedIn(t, "brief", "alice")), sessionOf(a.Delegated,
		a.signedIn(t, "brief", "bob"))
	enable := func(enabled bool) {
		t.Helper()
		var bobs object
		path := a.k.user("bob")
		a.k.admin("GET", path, nil, &bobs)
		bobs["enabled"] = enabled
		a.k.admin("PUT", path, bobs, nil)
	}
	wantIn(t, a.Delegated, bob)
	enable(false)
	client := a.Stranger()
	world.Until(t, "the end of bob's session", func() bool {
		return a.Status(client, "GET", "/secure-resource", "Cookie", bob) == http.StatusUnauthorized
	})
	wantOut(t, a.Delegated, bob)
	world.Until(t, "the reason in the log", // which comes after the end
		func() bool { return strings.Contains(a.Log.String(), `"login_ended_by_provider"`) })
	b := browse(a.Delegated.Instance)
	a.opens(t, b, "brief")
	b.Send(map[string]string{"username": "bob", "password": keycloakSecret})
	if !strings.HasPrefix(b.URL.String(), a.k.base) || b.Cookie(a.Base, "session") != "" {
		t.Errorf("a disabled user signs in: %s", b.Describe())
	}
	wantIn(t, a.Delegated, alice)
	enable(true)
	wantIn(t, a.Delegated, sessionOf(a.Delegated, a.signedIn(t, "brief", "bob")))
}

// keycloakLogout: a logout here ends the session at Keycloak by the refresh token, so that
// the next sign-in asks for a password.
func keycloakLogout(t *testing.T, a *atKeycloak) {
	a.k.admin("POST", a.k.user("alice")+"/logout", nil, nil)
	for _, provider := range []string{"keycloak", "public"} {
		b := a.signedIn(t, provider, "alice")
		session := sessionOf(a.Delegated, b)
		if got := a.k.sessions("alice"); got != 1 {
			t.Fatalf("alice has %d sessions at Keycloak", got)
		}
		again := browse(a.Delegated.Instance)
		again.Client.Jar = b.Client.Jar
		again.Open(a.Base + "/login?provider=" + provider + "&return_to=/secure-resource")
		if again.URL.String() != a.Base+"/secure-resource" {
			t.Fatalf("while the session at Keycloak lives, nothing is asked: %s", again.Describe())
		}
		wantOut(t, a.Delegated, session) // the browser has a new one
		session = sessionOf(a.Delegated, again)
		again.Open(a.Base + "/logout")
		wantOut(t, a.Delegated, session)
		if got := a.k.sessions("alice"); got != 0 {
			t.Errorf("after the logout alice has %d sessions at Keycloak\n%s", got, a.Log)
		}
		a.opens(t, b, provider)
	}
}

// keycloakLogoutRedirects: with logout: redirect the browser goes to Keycloak with
// the ID token, and comes back signed out.
func keycloakLogoutRedirects(t *testing.T, a *atKeycloak) {
	b := a.signedIn(t, "redirect", "alice")
	session := sessionOf(a.Delegated, b)
	b.Open(a.Base + "/logout")
	wantOut(t, a.Delegated, session)
	if b.URL.String() != a.Base+"/" {
		t.Errorf("Keycloak does not send the browser back: %s", b.Describe())
	}
	if got := a.k.sessions("alice"); got != 0 {
		t.Errorf("after the logout alice has %d sessions at Keycloak", got)
	}
	a.opens(t, b, "redirect")
}

// keycloakBackChannel: a logout at Keycloak ends the sessions here that it names, by
// the user's own browser or by an administrator.
func keycloakBackChannel(t *testing.T, a *atKeycloak) {
	b := a.signedIn(t, "keycloak", "alice")
	first, second, bob := sessionOf(a.Delegated, b), sessionOf(a.Delegated,
		a.signedIn(t, "public", "alice")), sessionOf(a.Delegated, a.signedIn(t, "keycloak", "bob"))
	b.Open(a.k.base + "/realms/main/protocol/openid-connect/logout")
	b.Send(nil)
	wantOut(t, a.Delegated, first)
	wantIn(t, a.Delegated, second)
	a.k.admin("POST", a.k.user("alice")+"/logout", nil, nil)
	wantOut(t, a.Delegated, second)
	wantIn(t, a.Delegated, bob)
}

// keycloakKeys: after a new key of the realm, sign-ins continue at once with it. Sessions
// outlive the old key, first passive and then disabled.
func keycloakKeys(t *testing.T, a *atKeycloak) {
	const components = "/components"
	b := a.signedIn(t, "brief", "alice")
	session, before := sessionOf(a.Delegated, b), a.signingKey(t)
	a.k.admin("POST", components, object{"name": "new", "providerId": "rsa-generated",
		"providerType": "org.keycloak.keys.KeyProvider", "config": map[string][]string{
			"priority": {"200"}, "enabled": {"true"}, "active": {"true"}, "algorithm": {"RS256"}, "keySize": {"2048"},
		}}, nil)
	after := a.signingKey(t)
	if before == after {
		t.Errorf("Keycloak signs with the key %s before and after", before)
	}
	old := components + "/" + a.k.id(components+"?type=org.keycloak.keys.KeyProvider", "name", "rsa-generated")
	for _, setting := range []string{"active", "enabled"} {
		var key object
		a.k.admin("GET", old, nil, &key)
		key["config"].(object)[setting] = []string{"false"}
		a.k.admin("PUT", old, key, nil)
		if got := a.signingKey(t); got != after {
			t.Errorf("Keycloak signs with the key %s, expected %s", got, after)
		}
		refreshed := func(want int) {
			world.Until(t, "a refresh", func() bool { return a.Status(b.Client, "GET", "/admin-resource") == want })
		}
		a.k.role("DELETE", "alice", "admin")
		refreshed(http.StatusForbidden)
		a.k.role("POST", "alice", "admin")
		refreshed(http.StatusOK)
		wantIn(t, a.Delegated, session)
	}
}

// signingKey signs bob in and returns the name of the key of his ID token, which the
// gateway sends back to Keycloak for the logout.
func (a *atKeycloak) signingKey(t *testing.T) string {
	t.Helper()
	b := a.signedIn(t, "redirect", "bob")
	b.StopAt = a.k.base
	b.Open(a.Base + "/logout")
	head, _, _ := strings.Cut(world.QueryOf(b.Next).Get("id_token_hint"), ".")
	var header struct{ Kid string }
	if err := json.Unmarshal(world.Must(base64.RawURLEncoding.DecodeString(head))(t), &header); err != nil ||
		header.Kid == "" {
		t.Fatalf("the ID token names no key: %s, %v", b.Next, err)
	}
	return header.Kid
}

// keycloakBearer: a program gets in with an access token of Keycloak that is meant for
// the gateway, and not with one that is not.
func keycloakBearer(t *testing.T, a *atKeycloak) {
	ask := func(client string, form url.Values) string {
		t.Helper()
		request := world.Must(http.NewRequest("POST", a.k.base+"/realms/main/protocol/openid-connect/token",
			strings.NewReader(form.Encode())))(t)
		request.Header.Set("Content-Type", world.TypeForm)
		request.SetBasicAuth(url.QueryEscape(client), url.QueryEscape(keycloakSecret))
		response := world.Must(http.DefaultClient.Do(request))(t)
		defer response.Body.Close()
		var token struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.NewDecoder(response.Body).Decode(&token); err != nil || token.AccessToken == "" {
			t.Fatalf("Keycloak gives %s no token: %s, %v", client, response.Status, err)
		}
		return "Bearer " + token.AccessToken
	}
	grant := url.Values{"grant_type": {"client_credentials"}}
	token, c := ask("program", grant), a.Stranger()
	a.Up.All()
	if got := a.Status(c, "GET", "/api", "Authorization", token); got != http.StatusOK {
		t.Fatalf("with a token of Keycloak: %d\n%s", got, a.Log)
	}
	got := map[string]string{}
	m := a.Up.One(t)
	for _, name := range []string{"X-Auth-User", "X-Auth-Mechanism", "X-Auth-Provider", "Authorization"} {
		got[name] = m.Value(t, name)
	}
	want := map[string]string{"X-Auth-User": "service-account-program", "X-Auth-Mechanism": "bearer",
		"X-Auth-Provider": "programs", "Authorization": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the upstream got (-want +got):\n%s", diff)
	}
	client := "/clients/" + a.k.id("/clients", "clientId", "program") + "/protocol-mappers/models"
	a.k.admin("DELETE", client+"/"+a.k.id(client, "name", "audience"), nil, nil)
	if got := a.Status(c, "GET", "/api", "Authorization", ask("program", grant)); got != http.StatusUnauthorized {
		t.Errorf("with a token for another audience: %d", got)
	}
	a.Up.None(t)
}

// keycloakDown: while Keycloak is down, sessions continue with what is known, and a
// sign-in that cannot be finished gets a page that says so. When Keycloak is back, the
// same sessions are refreshed, and users sign in.
func keycloakDown(t *testing.T, a *atKeycloak) {
	b, visitor := a.signedIn(t, "brief", "alice"), browse(a.Delegated.Instance)
	session := sessionOf(a.Delegated, b)
	a.opens(t, visitor, "keycloak")
	visitor.StopAt = a.Base + "/callback"
	visitor.Send(map[string]string{"username": "bob", "password": keycloakSecret})
	visitor.StopAt = ""
	a.k.role("DELETE", "alice", "admin")
	a.k.stop()
	world.Until(t, "a refresh that fails", func() bool {
		wantIn(t, a.Delegated, session)
		return strings.Contains(a.Log.String(), "connection refused")
	})
	visitor.Open(visitor.Next)
	if visitor.Page.Status != http.StatusBadGateway ||
		!strings.HasPrefix(visitor.Page.Header.Get("Content-Type"), "text/html") || visitor.Cookie(a.Base, "session") != "" {
		t.Errorf("with Keycloak down, expected a page with 502 and no session: %s", visitor.Describe())
	}
	a.k.run()
	world.Until(t, "a refresh at Keycloak, which is back", func() bool {
		return a.Status(b.Client, "GET", "/admin-resource") == http.StatusForbidden
	})
	wantIn(t, a.Delegated, session)
	wantIn(t, a.Delegated, sessionOf(a.Delegated, a.signedIn(t, "keycloak", "bob")))
}
