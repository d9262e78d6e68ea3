package provider_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"

	"authgate/upstream/provider"
)

func TestUserinfoRefuses(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.shop()
	token := c.login(w.browser())
	id, _ := token.Extra("id_token").(string)
	for name, header := range map[string]string{
		"an unknown token": "Bearer unknown",
		"a refresh token":  "Bearer " + token.RefreshToken,
		"an ID token":      "Bearer " + id,
		"no token":         "Bearer ",
	} {
		r := request(t, "GET", w.issuer+"/userinfo", nil)
		r.Header.Set("Authorization", header)
		p := w.browser().do(r)
		if p.status != 401 || !strings.Contains(p.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: %d, challenge %q", name, p.status, p.header.Get("WWW-Authenticate"))
		}
	}
	for name, target := range map[string]string{
		"nothing": "/userinfo", "a token in the query": "/userinfo?access_token=" + token.AccessToken,
	} {
		p := w.browser().open(w.issuer + target)
		if p.status != 401 || p.header.Get("WWW-Authenticate") != `Bearer realm="provider"` {
			t.Errorf("%s: %d, challenge %q", name, p.status, p.header.Get("WWW-Authenticate"))
		}
	}
}

// introspected is what a client is told about a token.
func introspected(t *testing.T, c *client, token string) map[string]any {
	t.Helper()
	p := c.fetch("/introspect", url.Values{"token": {token}})
	var claims map[string]any
	if err := json.Unmarshal([]byte(p.body), &claims); err != nil || p.status != 200 {
		t.Fatalf("%d %q: %v", p.status, p.body, err)
	}
	return claims
}

func TestIntrospection(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, phone := w.shop(), w.phone()
	token := phone.login(w.browser())
	now := float64(w.clock.Now().Unix())
	want := map[string]any{
		"active": true, "iss": w.issuer, "sub": "1001", "username": "alice", "client_id": "phone",
		"scope": "openid profile email", "token_type": "Bearer", "iat": now, "exp": now + 300,
		"sid": sessionOf(t, phone, token), "roles": []any{"user", "admin"},
	}
	if diff := cmp.Diff(want, introspected(t, shop, token.AccessToken)); diff != "" {
		t.Errorf("an access token (-want +got):\n%s", diff)
	}
	inactive := map[string]any{"active": false}
	for name, value := range map[string]string{"a refresh token": token.RefreshToken, "an unknown token": "x", "an empty token": ""} {
		if diff := cmp.Diff(inactive, introspected(t, shop, value)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if p := phone.fetch("/introspect", url.Values{"token": {token.AccessToken}}); p.status != 401 || errorOf(t, p) != "invalid_client" {
		t.Errorf("a public client asks: %d %s", p.status, p.body)
	}
	if p := shop.fetch("/introspect", url.Values{}); errorOf(t, p) != "invalid_request" {
		t.Errorf("no token: %s", p.body)
	}
	w.clock.Advance(5 * time.Minute)
	if diff := cmp.Diff(inactive, introspected(t, shop, token.AccessToken)); diff != "" {
		t.Errorf("an expired token (-want +got):\n%s", diff)
	}
}

// Access tokens can be JWTs, for resource servers that verify them alone.
func TestJWTAccessToken(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *provider.Options) { o.AccessTokenAudience = []string{"api", "other"} })
	c := w.shop()
	token := c.login(w.browser())
	if !c.opens(token) {
		t.Error("it does not open userinfo")
	}
	verified, err := c.provider.Verifier(&oidc.Config{ClientID: "api", Now: w.clock.Now}).Verify(t.Context(), token.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := verified.Claims(&got); err != nil {
		t.Fatal(err)
	}
	now := float64(w.clock.Now().Unix())
	want := map[string]any{
		"iss": w.issuer, "aud": []any{"api", "other"}, "sub": "1001", "client_id": "shop",
		"iat": now, "exp": now + 300, "sid": sessionOf(t, c, token), "scope": "openid profile email",
		"roles": []any{"user", "admin"}, "preferred_username": "alice", "jti": got["jti"],
	}
	if diff := cmp.Diff(want, got); diff != "" || got["jti"] == "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if aud := introspected(t, c, token.AccessToken)["aud"]; !cmp.Equal(aud, []any{"api", "other"}) {
		t.Errorf("introspection tells the audience %v", aud)
	}
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, phone, b := w.shop(), w.phone(), w.browser()
	token, other := shop.login(b), phone.login(b)
	if p := phone.fetch("/revoke", url.Values{"token": {token.RefreshToken}}); errorOf(t, p) != "invalid_grant" {
		t.Errorf("the token of another client: %s", p.body)
	}
	if p := phone.fetch("/revoke", url.Values{"token": {token.AccessToken}}); errorOf(t, p) != "invalid_grant" {
		t.Errorf("the access token of another client: %s", p.body)
	}
	if p := shop.fetch("/revoke", url.Values{}); errorOf(t, p) != "invalid_request" {
		t.Errorf("no token: %s", p.body)
	}
	if p := shop.fetch("/revoke", url.Values{"token": {"unknown"}}); p.status != 200 || p.body != "" {
		t.Errorf("an unknown token: %d %s", p.status, p.body)
	}
	if !shop.opens(token) {
		t.Fatal("the token is gone too early")
	}

	if p := shop.fetch("/revoke", url.Values{"token": {token.AccessToken}, "token_type_hint": {"refresh_token"}}); p.status != 200 {
		t.Errorf("an access token: %d %s", p.status, p.body)
	}
	if shop.opens(token) {
		t.Error("a revoked access token opens userinfo")
	}
	token, err := shop.refresh(token.RefreshToken)
	if err != nil {
		t.Fatalf("refreshing after the access token was revoked: %v", err)
	}

	if p := shop.fetch("/revoke", url.Values{"token": {token.RefreshToken}}); p.status != 200 {
		t.Errorf("a refresh token: %d %s", p.status, p.body)
	}
	if _, err := shop.refresh(token.RefreshToken); failed(err) != "invalid_grant" {
		t.Errorf("a revoked refresh token: %v", err)
	}
	if shop.opens(token) {
		t.Error("the refresh token is revoked, but the access token lives on")
	}
	if !phone.opens(other) || b.open(phone.url()).query.Get("code") == "" {
		t.Error("a client has revoked its token, and the person is signed out elsewhere")
	}
}
