package oauth

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// relyingParty is an application with go-oidc and golang.org/x/oauth2.
type relyingParty struct {
	*server
	ctx      context.Context // with a client that trusts the gateway's authority
	provider *oidc.Provider
	config   oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// relyOn returns the application for a client of a server, which it discovers.
func relyOn(t *testing.T, s *server, client, secret string) *relyingParty {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), s.Stranger())
	provider := world.Must(oidc.NewProvider(ctx, s.Base))(t)
	return &relyingParty{s, ctx, provider, oauth2.Config{
		ClientID: client, ClientSecret: secret, Endpoint: provider.Endpoint(), RedirectURL: redirect,
		Scopes: []string{oidc.ScopeOpenID, "profile", "email", "groups", oidc.ScopeOfflineAccess},
	}, provider.VerifierContext(ctx, &oidc.Config{ClientID: client})}
}

// redirect is where the user comes back to. No program listens there: the browser stops.
const redirect = "http://127.0.0.1:8765/callback"

// ask has alice allow an authorization request, and returns the answer to it.
func ask(t *testing.T, g *world.Instance, address string) url.Values {
	t.Helper()
	person := user{world.Browse(g)}
	person.T, person.StopAt = t, redirect
	person.allow(address)
	return world.QueryOf(person.Next)
}

// signIn returns the tokens of alice, and what her ID token says.
func (r *relyingParty) signIn(t *testing.T) (*oauth2.Token, *oidc.IDToken) {
	t.Helper()
	verifier := oauth2.GenerateVerifier()
	answer := ask(t, r.Instance, r.config.AuthCodeURL("its state", oidc.Nonce("its nonce"),
		oauth2.S256ChallengeOption(verifier)))
	if answer.Get("state") != "its state" || answer.Get("iss") != r.Base {
		t.Fatalf("the answer: %v", answer)
	}
	token := world.Must(r.config.Exchange(r.ctx, answer.Get("code"), oauth2.VerifierOption(verifier)))(t)
	raw, _ := token.Extra("id_token").(string)
	id := world.Must(r.verifier.Verify(r.ctx, raw))(t)
	if id.Nonce != "its nonce" {
		t.Errorf("the nonce is %s", id.Nonce)
	}
	world.NoError(t, id.VerifyAccessToken(token.AccessToken))
	return token, id
}

// call asks the API with a client, and returns the status.
func (r *relyingParty) call(t *testing.T, c *http.Client, path string) int {
	t.Helper()
	response := world.Must(c.Get(r.Base + path))(t)
	response.Body.Close()
	return response.StatusCode
}

// person is what the application learns about a user.
type person struct {
	User     string   `json:"preferred_username"`
	Email    string   `json:"email"`
	Verified bool     `json:"email_verified"`
	Groups   []string `json:"groups"`
}

// TestGoOIDC: an application with go-oidc and golang.org/x/oauth2 signs a user in, checks the
// ID token, and calls the API for her until she signs out.
func TestGoOIDC(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	r := relyOn(t, s, "shop", shopSecret)
	token, id := r.signIn(t)
	var claims, told person
	world.NoError(t, id.Claims(&claims))
	info := world.Must(r.provider.UserInfo(r.ctx, oauth2.StaticTokenSource(token)))(t)
	world.NoError(t, info.Claims(&told))
	for _, got := range []person{claims, told} {
		if got.User != "alice" || got.Email != "alice@example.org" || !got.Verified || len(got.Groups) != 2 {
			t.Errorf("the application learns %+v", got)
		}
	}
	raw, _ := token.Extra("id_token").(string)
	other := r.provider.VerifierContext(r.ctx, &oidc.Config{ClientID: "phone"})
	if _, err := other.Verify(r.ctx, raw); err == nil {
		t.Error("an ID token for shop is one for phone")
	}
	token.Expiry = time.Now().Add(-time.Minute) // the library refreshes
	if got := r.call(t, r.config.Client(r.ctx, token), "/api/go"); got != http.StatusOK {
		t.Errorf("the API answers %d", got)
	}
	s.wantUpstream(t, "/api/go", "alice", "user,admin")
	machine := clientcredentials.Config{ClientID: "shop", ClientSecret: shopSecret, TokenURL: r.config.Endpoint.TokenURL}
	if got := r.call(t, machine.Client(r.ctx), "/api/machine"); got != http.StatusOK {
		t.Errorf("the API answers %d to the application itself", got)
	}
	s.wantUpstream(t, "/api/machine", "client:shop", "machine")
}

// TestGoOIDCDevice: golang.org/x/oauth2 signs a user in by a code on another device.
func TestGoOIDCDevice(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	r := relyOn(t, s, "phone", "")
	begun := world.Must(r.config.DeviceAuth(r.ctx))(t)
	user{world.Browse(s.Instance)}.allow(begun.VerificationURIComplete)
	token := world.Must(r.config.DeviceAccessToken(r.ctx, begun))(t)
	if got := r.call(t, r.config.Client(r.ctx, token), "/api/device"); got != http.StatusOK {
		t.Errorf("the API answers %d", got)
	}
	s.wantUpstream(t, "/api/device", "alice", "user,admin")
}

// TestGoOIDCLogout: go-oidc takes the logout token that a client gets when a login ends. Another
// login of the same user goes on.
func TestGoOIDCLogout(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	endpoint := world.Serve(t, func(w http.ResponseWriter, q *http.Request) { got <- q.FormValue("logout_token") })
	s := prepare(t, "    - {id: told, redirect_uris: ['"+redirect+"'], backchannel_logout_uri: '"+endpoint+"/logout'}\n")
	s.Run()
	r := relyOn(t, s, "told", "")
	_, stays := r.signIn(t)
	verifier := oauth2.GenerateVerifier()
	alice := user{world.Browse(s.Instance)}
	alice.StopAt = redirect
	alice.allow(r.config.AuthCodeURL("", oauth2.S256ChallengeOption(verifier)))
	code := world.QueryOf(alice.Next).Get("code")
	token := world.Must(r.config.Exchange(r.ctx, code, oauth2.VerifierOption(verifier)))(t)
	raw, _ := token.Extra("id_token").(string)
	ends := world.Must(r.verifier.Verify(r.ctx, raw))(t)

	world.WantStatus(t, "the logout", s.Do(alice.Client, "POST", "/logout", "", "Origin", s.Base), http.StatusOK)
	select {
	case raw := <-got:
		logout := world.Must(r.verifier.VerifyLogout(r.ctx, raw))(t)
		var is, was struct{ SID string }
		world.NoError(t, ends.Claims(&is))
		world.NoError(t, stays.Claims(&was))
		if logout.Subject != "alice" || logout.SessionID != is.SID || is.SID == was.SID {
			t.Errorf("the logout token is for %s and the login %s, expected %s", logout.Subject, logout.SessionID, is.SID)
		}
	case <-time.After(world.Patience):
		t.Fatal("the application is not told of the logout")
	}
	if n := len(got); n > 0 {
		t.Error("the application is told twice")
	}
}
