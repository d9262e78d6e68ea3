package oidc

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/e2e/world"

	"golang.org/x/oauth2"
)

// The resources of tokens: two of the gateway and two others, each with signed and
// opaque tokens.
const (
	signedResource, opaqueResource   = "https://signed.example", "https://opaque.example"
	signedElsewhere, opaqueElsewhere = "https://signed.elsewhere.example", "https://opaque.elsewhere.example"
)

// resourceServer is a gateway that accepts the tokens of one provider.
type resourceServer struct {
	*world.Delegated
	client *http.Client
}

// bearerOfTrustedIssuer: bearer routes accept access tokens that other applications
// got from the provider: signed ones by its keys (RFC 9068) and opaque ones by
// introspection (RFC 7662).
func bearerOfTrustedIssuer(t *testing.T, c *world.Certified) {
	d := &world.Delegated{Instance: world.Prepare(t), Up: world.Record(t),
		Provider: c.Provider(t, world.ProviderOptions{Resources: map[string]string{
			signedResource: "jwt", opaqueResource: "opaque", signedElsewhere: "jwt", opaqueElsewhere: "opaque",
		}})}
	d.Provider.Register(d.Instance, world.ProviderClient{Name: "certified"}) // a client that may introspect
	d.Configure(fmt.Sprintf(`
token:
  trusted_issuers:
    - name: certified
      issuer: %s
      audience: [%s, %s]
      algorithms: [ES256]
      roles_claim: roles
      username_claim: preferred_username
      introspection: {client_id: gateway, client_secret: '%s'}
`, d.Provider.Issuer, signedResource, opaqueResource, world.CertifiedSecret) +
		strings.ReplaceAll(world.DelegatedRoutes, "oidc", "bearer") + world.App(d.Up.URL))
	d.Run()
	r := &resourceServer{d, d.Stranger()}
	alice, bob := browse(r.Delegated.Instance), browse(r.Delegated.Instance)
	for _, resource := range []string{signedResource, opaqueResource} {
		r.opens(t, resource, "alice", accessTokenOf(r.Provider, alice, "alice", resource), http.StatusOK)
		r.opens(t, resource, "bob", accessTokenOf(r.Provider, bob, "bob", resource), http.StatusForbidden)
	}
	good, revoked := accessTokenOf(r.Provider, alice, "alice", signedResource), accessTokenOf(r.Provider, bob,
		"bob", opaqueResource)
	r.Provider.Do("revoke", "bob")
	for what, token := range map[string]string{
		"for another audience":         accessTokenOf(r.Provider, alice, "alice", signedElsewhere),
		"opaque, for another audience": accessTokenOf(r.Provider, alice, "alice", opaqueElsewhere),
		"with other claims":            forged(t, good, map[string]any{"sub": "bob"}),
		"without its signature":        unsigned(good),
		"opaque, unknown":              "nonsense",
		"opaque, revoked":              revoked,
	} {
		if got := r.ask("/secure-resource", token); got != http.StatusUnauthorized {
			t.Errorf("a token %s: %d", what, got)
		}
		r.Up.None(t)
	}

	r.Provider.Do("rotate", nil)
	good = accessTokenOf(r.Provider, alice, "alice", signedResource)
	r.opens(t, "after the keys were rotated", "alice", good, http.StatusOK)

	unseen := accessTokenOf(r.Provider, alice, "alice", opaqueResource)
	r.Provider.Do("down", nil)
	if got := r.ask("/secure-resource", unseen); got < http.StatusInternalServerError {
		t.Errorf("opaque, while the provider is down: %d", got)
	}
	r.Up.None(t)
	r.opens(t, "signed, while the provider is down", "alice", good, http.StatusOK)
}

// ask sends a token and returns the status.
func (r *resourceServer) ask(path, token string) int {
	r.T.Helper()
	return r.Status(r.client, "GET", path, "Authorization", "Bearer "+token)
}

// opens checks that a token gives its user access to the upstream, and what
// /admin-resource answers.
func (r *resourceServer) opens(t *testing.T, what, user, token string, admin int) {
	t.Helper()
	if got := r.ask("/secure-resource", token); got != http.StatusOK {
		t.Fatalf("%s: /secure-resource is %d for %s\n%s", what, got, user, r.Log)
	}
	wantHeaders(t, r.Up.One(t), map[string]string{
		"X-Auth-User": user + ".example", "X-Auth-Subject": "certified:" + user, "X-Auth-Mechanism": "bearer",
		"X-Auth-Provider": "certified",
		"X-Auth-Roles":    map[string]string{"alice": "user,admin", "bob": "user"}[user], "Authorization": "",
	})
	if got := r.ask("/admin-resource", token); got != admin || len(r.Up.All()) != map[int]int{http.StatusOK: 1}[got] {
		t.Errorf("%s: /admin-resource is %d for %s", what, got, user)
	}
}

// accessTokenOf returns an access token for a resource that an application got with the
// person's consent.
func accessTokenOf(p *world.Provider, b *browser, user, resource string) string {
	p.T.Helper()
	const redirect = "https://application.example/callback"
	p.Do("client", map[string]any{
		"client_id": "application", "token_endpoint_auth_method": "none", "redirect_uris": []string{redirect},
	})
	application := oauth2.Config{
		ClientID: "application", RedirectURL: redirect, Scopes: []string{"openid", "read"},
		Endpoint: oauth2.Endpoint{AuthURL: p.Issuer + "/auth", TokenURL: p.Issuer + "/token",
			AuthStyle: oauth2.AuthStyleInParams},
	}
	verifier, indicator := oauth2.GenerateVerifier(), oauth2.SetAuthURLParam("resource", resource)
	b.StopAt = redirect
	b.Open(application.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), indicator))
	b.consent(p, user)
	back, err := url.Parse(b.Next)
	if err != nil || back.Query().Get("code") == "" {
		p.T.Fatalf("no code: %s", b.Describe())
	}
	token, err := application.Exchange(p.T.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier), indicator)
	if err != nil {
		p.T.Fatal(err)
	}
	return token.AccessToken
}

// unsigned returns a token without its signature.
func unsigned(token string) string { return token[:strings.LastIndexByte(token, '.')+1] }
