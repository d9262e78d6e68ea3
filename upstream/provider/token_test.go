package provider_test

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// A code comes with what belongs to it, or is lost.
func TestCodeRefused(t *testing.T) {
	w := start(t, nil)
	shop, phone, b := w.shop, w.phone, w.browser()
	const request, grant = "invalid_request", "invalid_grant"
	short := verifier[:42]
	for _, tt := range []struct {
		name      string
		values    []string
		challenge string // for this verifier
		code      string
	}{
		{"code", nil, verifier, request},
		{"code", []string{"another"}, verifier, grant},
		{"code_verifier", []string{verifier + "x"}, verifier, grant},
		{"code_verifier", []string{short}, short, grant},
		{"code_verifier", []string{verifier, verifier}, verifier, request},
		{"redirect_uri", []string{phoneCallback}, verifier, grant},
		{"grant_type", nil, verifier, request},
		{"grant_type", []string{"password"}, verifier, "unsupported_grant_type"},
	} {
		code := shop.code(b, "code_challenge", oauth2.S256ChallengeFromVerifier(tt.challenge))
		form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {shopCallback}}
		if form[tt.name] = tt.values; tt.values == nil {
			form.Del(tt.name)
		}
		wantRefused(t, fmt.Sprintf("%s %q", tt.name, tt.values), shop.fetch("/token", form), 400, tt.code)
		if tt.code == grant && form.Get("code") == code {
			wantFailed(t, "the code after a wrong "+tt.name, shop.exchange, code)
		}
	}
	code := shop.code(b)
	b.open(w.issuer + "/logout")
	wantFailed(t, "the code after the logout", shop.exchange, code)

	phone.oauth.RedirectURL = shopCallback // phone may use it too
	code = shop.code(b)
	wantFailed(t, "the code of another client", phone.exchange, code)
	token := must(shop.exchange(code)) // phone has not spoilt it
	shop.wantOpens("at first", token, true)
	wantFailed(t, "the code once more", shop.exchange, code) // it was stolen
	shop.wantOpens("in the end", token, false)
	wantFailed(t, "the refresh token", shop.refresh, token.RefreshToken)
}

// A refresh token works once. When it comes again, the client has lost it: its tokens
// end, and the user stays signed in. The client may ask for less than it was granted.
func TestRefresh(t *testing.T) {
	w := start(t, nil)
	c, b := w.shop, w.browser()
	first := c.login(b)
	second := must(c.refresh(first.RefreshToken))
	if id := c.idToken(second); id["nonce"] != nil || id["sub"] != "1001" || id["sid"] != c.idToken(first)["sid"] || second.RefreshToken == first.RefreshToken {
		t.Errorf("the new ID token says %v", id)
	}
	c.wantOpens("refreshed", second, true)
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {second.RefreshToken}, "scope": {"openid address"}}
	wantRefused(t, "more than was granted", c.fetch("/token", form), 400, "invalid_scope")
	form.Set("scope", "openid profile")
	narrow := c.fetch("/token", form).json()
	access, _ := narrow["access_token"].(string)
	if info := c.userinfo(access); narrow["scope"] != "openid profile" || info["name"] == nil || info["email"] != nil {
		t.Errorf("%v opens %v, want not the scope email", narrow, info)
	}
	last, _ := narrow["refresh_token"].(string)
	wantFailed(t, "the refresh token of another client", w.phone.refresh, last)
	wantRefused(t, "no refresh token", c.fetch("/token", url.Values{"grant_type": {"refresh_token"}}), 400, "invalid_request")
	for _, token := range []string{"unknown", first.RefreshToken, last} {
		wantFailed(t, "a used refresh token", c.refresh, token)
	}
	c.wantOpens("stolen", &oauth2.Token{AccessToken: access}, false)
	if p := b.open(c.url()); p.query.Get("code") == "" {
		t.Error("the person is signed out, though only a client lost its token")
	}
}

// Every endpoint for clients finds out which one asks (RFC 6749, section 2.3), from a
// POST whose body is a form of a sane size.
func TestClientAuthentication(t *testing.T) {
	w := start(t, nil)
	right := url.QueryEscape(shopSecret)
	const form, client, grant, invalid = "application/x-www-form-urlencoded", "invalid_client", "invalid_grant", "invalid_request"
	for _, tt := range []struct{ name, id, secret, body, mediaType, code string }{ // id and secret are in the header
		{"an unknown client", "", "", "client_id=stranger", form, client},
		{"without its secret", "", "", "client_id=shop", form, client},
		{"with a wrong secret in the header", "shop", "x", "", form, client},
		{"with a secret that is not encoded", "shop", "%zz", "", form, client},
		{"a public client with a secret", "", "", "client_id=phone&client_secret=x", form, client},
		{"two clients", "shop", right, "client_id=phone", form, client},
		{"in both places", "shop", right, "client_secret=" + right, form, invalid},
		{"as plain text", "shop", right, "", "text/plain", invalid},
		{"in a long form", "shop", right, "scope=" + strings.Repeat("x", 20<<10), form, invalid},
		{"in the header, and named in the form", "shop", right, "client_id=shop", form, grant},
		{"in the form", "", "", "client_id=shop&client_secret=" + right, form, grant},
	} {
		r := request("POST", w.issuer+"/token?client_id=shop&client_secret="+right, nil) // the query does not count
		r.Body = io.NopCloser(strings.NewReader("grant_type=refresh_token&refresh_token=unknown&" + tt.body))
		r.ContentLength = -1
		r.Header.Set("Content-Type", tt.mediaType)
		if tt.id != "" {
			r.SetBasicAuth(tt.id, tt.secret)
		}
		wantRefused(t, tt.name, w.browser().do(r), map[string]int{client: 401, grant: 400, invalid: 400}[tt.code], tt.code)
	}
}
