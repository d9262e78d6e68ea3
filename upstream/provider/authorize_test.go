package provider_test

import (
	"net/url"
	"strings"
	"testing"
)

// A request with a wrong client or redirect URI ends with a page, even for a user who
// is signed in.
func TestAuthorizeNeverRedirects(t *testing.T) {
	w := start(t, nil)
	c, b := w.shop, w.browser()
	c.login(b)
	for name, target := range map[string]string{
		"unknown client":           c.url("client_id", "nobody"),
		"two clients":              c.url() + "&client_id=phone",
		"no redirect URI":          c.url("redirect_uri", ""),
		"two redirect URIs":        c.url() + "&redirect_uri=https://evil.example/",
		"another host":             c.url("redirect_uri", "https://evil.example/callback"),
		"longer path":              c.url("redirect_uri", shopCallback+"/"),
		"other case":               c.url("redirect_uri", "https://SHOP.example/callback"),
		"that of another client":   c.url("redirect_uri", phoneCallback),
		"a malformed query":        c.url() + "&%zz",
		"an error beside":          c.url("redirect_uri", "https://evil.example/", "response_type", "token"),
		"script for a destination": c.url("redirect_uri", "javascript:alert(1)"),
	} {
		for _, path := range []string{"/authorize", "/signin"} {
			p := b.open(strings.Replace(target, "/authorize", path, 1))
			if p.status != 400 || p.left != "" || !strings.Contains(p.body, "This does not work") {
				t.Errorf("%s at %s: %d, sent to %q", name, path, p.status, p.left)
			}
		}
	}
}

// The client gets every other mistake (RFC 6749, section 4.1.2.1).
func TestAuthorizeErrors(t *testing.T) {
	w := start(t, nil)
	c, b := w.phone, w.browser()
	c.login(b)
	for _, tt := range []struct{ name, target, code string }{
		{"no response type", c.url("response_type", ""), "invalid_request"},
		{"a hybrid flow", c.url("response_type", "code id_token"), "unsupported_response_type"},
		{"in the fragment", c.url("response_mode", "fragment"), "invalid_request"},
		{"a request object", c.url("request", "e30.e30."), "request_not_supported"},
		{"a request elsewhere", c.url("request_uri", "http://169.254.169.254/"), "request_uri_not_supported"},
		{"no openid", c.url("scope", "profile email"), "invalid_scope"},
		{"no method of PKCE", c.url("code_challenge_method", ""), "invalid_request"},
		{"the plain method", c.url("code_challenge_method", "plain", "code_challenge", verifier), "invalid_request"},
		{"a challenge that is no sum", c.url("code_challenge", verifier), "invalid_request"},
		{"a short challenge", c.url("code_challenge", "c2hvcnQ"), "invalid_request"},
		{"unknown prompt", c.url("prompt", "create"), "invalid_request"},
		{"none and login", c.url("prompt", "none login"), "invalid_request"},
		{"max_age in words", c.url("max_age", "a day"), "invalid_request"},
		{"negative max_age", c.url("max_age", "-1"), "invalid_request"},
		{"two nonces", c.url() + "&nonce=other", "invalid_request"},
	} {
		for _, path := range []string{"/authorize", "/signin"} {
			p := b.open(strings.Replace(tt.target, "/authorize", path, 1))
			q := p.query // with that of the redirect URI
			if !strings.HasPrefix(p.left, phoneCallback+"&") || q.Get("tenant") != "a b" ||
				q.Get("error") != tt.code || q.Get("state") != state || q.Get("iss") != w.issuer || q.Has("code") {
				t.Errorf("%s at %s: sent to %q with %d, want %s", tt.name, path, p.left, p.status, tt.code)
			}
		}
	}
}

// A request can be posted, and unknown parameters are ignored.
func TestAuthorizePost(t *testing.T) {
	w := start(t, nil)
	b := w.browser()
	form := b.post(w.issuer+"/authorize", must(url.Parse(w.shop.url("scope", "openid address", "claims", "{}", "ui_locales", "de"))).Query())
	token, err := w.shop.exchange(b.post(form.url, credentials("alice")).query.Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	if scope := token.Extra("scope"); scope != "openid" {
		t.Errorf("the scope %q was granted, want openid", scope)
	}
}
