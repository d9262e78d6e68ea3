package provider_test

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// A code comes with what belongs to it, or is lost.
func TestCodeRefused(t *testing.T) {
	w := start(t, nil)
	shop, phone, b := w.shop, w.phone, w.browser()
	short := verifier[:42]
	for _, tt := range []struct{ name, value, code string }{
		{"code", "", "invalid_request"},
		{"code", "another", "invalid_grant"},
		{"code_verifier", verifier + "x", "invalid_grant"},
		{"code_verifier", short, "invalid_grant"},
		{"redirect_uri", phoneCallback, "invalid_grant"},
		{"grant_type", "", "invalid_request"},
		{"grant_type", "password", "unsupported_grant_type"},
		{"code_verifier", "twice", "invalid_request"},
	} {
		challenged := verifier
		if tt.value == short {
			challenged = short
		}
		code := shop.code(b, "code_challenge", oauth2.S256ChallengeFromVerifier(challenged))
		form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {shopCallback}}
		switch tt.value {
		case "":
			form.Del(tt.name)
		case "twice":
			form.Add(tt.name, verifier)
		default:
			form.Set(tt.name, tt.value)
		}
		wantRefused(t, tt.name+" "+tt.value, shop.fetch("/token", form), 400, tt.code)
		if tt.value == verifier+"x" {
			wantFailed(t, "the code after a wrong verifier", shop.exchange, code)
		}
	}

	phone.oauth.RedirectURL = shopCallback // phone may use it too
	code := shop.code(b)
	wantFailed(t, "the code of another client", phone.exchange, code)
	if _, err := shop.exchange(code); err != nil {
		t.Errorf("another client has spoilt the code: %v", err)
	}
	code = shop.code(b)
	b.open(w.issuer + "/logout")
	wantFailed(t, "the code after the logout", shop.exchange, code)
}

// A code works once. When it comes again, it was stolen, and the tokens end.
func TestCodeUsedTwice(t *testing.T) {
	w := start(t, nil)
	c := w.shop
	code := c.code(w.browser())
	token := must(c.exchange(code))
	c.wantOpens("at first", token, true)
	wantFailed(t, "the code once more", c.exchange, code)
	c.wantOpens("in the end", token, false)
	wantFailed(t, "the refresh token", c.refresh, token.RefreshToken)
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
	encoded := url.QueryEscape(shopSecret)
	const form, client, invalid = "application/x-www-form-urlencoded", "invalid_client", "invalid_request"
	for _, tt := range []struct {
		name       string
		id, secret string // in the header
		more       url.Values
		mediaType  string
		status     int
		code       string
	}{
		{"an unknown client", "", "", url.Values{"client_id": {"nobody"}}, form, 401, client},
		{"without its secret", "", "", url.Values{"client_id": {"shop"}}, form, 401, client},
		{"with a wrong secret in the header", "shop", "x", url.Values{}, form, 401, client},
		{"with a secret that is not encoded", "shop", "%zz", url.Values{}, form, 401, client},
		{"a public client with a secret", "", "", url.Values{"client_id": {"phone"}, "client_secret": {"x"}}, form, 401, client},
		{"two clients", "shop", encoded, url.Values{"client_id": {"phone"}}, form, 401, client},
		{"in both places", "shop", encoded, url.Values{"client_secret": {shopSecret}}, form, 400, invalid},
		{"as plain text", "shop", encoded, url.Values{}, "text/plain", 400, invalid},
		{"in a long form", "shop", encoded, url.Values{"scope": {strings.Repeat("x", 20<<10)}}, form, 400, invalid},
		{"in the header, and named in the form", "shop", encoded, url.Values{"client_id": {"shop"}}, form, 400, "invalid_grant"},
		{"in the form", "", "", url.Values{"client_id": {"shop"}, "client_secret": {shopSecret}}, form, 400, "invalid_grant"},
	} {
		tt.more.Set("grant_type", "refresh_token")
		tt.more.Set("refresh_token", "unknown")
		r := request("POST", w.issuer+"/token", tt.more)
		r.Header.Set("Content-Type", tt.mediaType)
		if tt.id != "" {
			r.SetBasicAuth(tt.id, tt.secret)
		}
		wantRefused(t, tt.name, w.browser().do(r), tt.status, tt.code)
	}
	query := w.issuer + "/token?grant_type=refresh_token&refresh_token=unknown&client_id=phone"
	wantRefused(t, "in the query", w.browser().do(request("POST", query, url.Values{})), 401, client)
	if p := w.browser().open(query); p.status != 405 {
		t.Errorf("GET: %d, want 405", p.status)
	}
}
