package provider_test

import (
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/oauth2"
)

// A code comes with what belongs to it, or is lost.
func TestCodeRefused(t *testing.T) {
	w := start(t, nil)
	shop, phone, b := w.shop, w.phone, w.browser()
	for _, tt := range []struct{ name, value, code string }{
		{"code", "", "invalid_request"},
		{"code", "another", "invalid_grant"},
		{"code_verifier", "", "invalid_grant"},
		{"code_verifier", verifier + "x", "invalid_grant"},
		{"redirect_uri", phoneCallback, "invalid_grant"},
		{"grant_type", "", "invalid_request"},
		{"grant_type", "password", "unsupported_grant_type"},
		{"code_verifier", "twice", "invalid_request"},
	} {
		form := url.Values{"grant_type": {"authorization_code"}, "code": {shop.code(b)}, "code_verifier": {verifier}, "redirect_uri": {shopCallback}}
		switch tt.value {
		case "":
			form.Del(tt.name)
		case "twice":
			form.Add(tt.name, verifier)
		default:
			form.Set(tt.name, tt.value)
		}
		wantRefused(t, tt.name+" "+tt.value, shop.fetch("/token", form), 400, tt.code)
	}

	phone.oauth.RedirectURL = shopCallback // phone may use it too
	code := shop.code(b)
	_, err := phone.exchange(code)
	wantFailed(t, "the code of another client", err)
	if _, err := shop.exchange(code); err != nil {
		t.Errorf("another client has spoilt the code: %v", err)
	}
	code = shop.code(b)
	_, err = shop.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(verifier+"x"))
	wantFailed(t, "a wrong verifier", err)
	_, err = shop.exchange(code)
	wantFailed(t, "the code after a wrong verifier", err)

	short := verifier[:42]
	code = shop.code(b, "code_challenge", oauth2.S256ChallengeFromVerifier(short))
	_, err = shop.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(short))
	wantFailed(t, "a verifier of 42 characters", err)
	code = shop.code(b)
	b.open(w.issuer + "/logout")
	_, err = shop.exchange(code)
	wantFailed(t, "the code after the logout", err)
}

// A code works once, however many exchange it at once. When it comes again, it was
// stolen, and the tokens end.
func TestCodeUsedTwice(t *testing.T) {
	w := start(t, nil)
	c := w.shop
	code := c.code(w.browser())
	token := must(c.exchange(code))
	c.wantOpens("at first", token, true)
	_, err := c.exchange(code)
	wantFailed(t, "the code once more", err)
	c.wantOpens("in the end", token, false)
	_, err = c.refresh(token.RefreshToken)
	wantFailed(t, "the refresh token", err)

	code = c.code(w.browser())
	var won atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.exchange(code); err == nil {
				won.Add(1)
			}
		})
	}
	if all.Wait(); won.Load() != 1 {
		t.Errorf("%d of 20 got tokens, want 1", won.Load())
	}
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
		t.Errorf("%v opens %v, want neither the scope email nor the address", narrow, info)
	}
	last, _ := narrow["refresh_token"].(string)
	_, err := w.phone.refresh(last)
	wantFailed(t, "the refresh token of another client", err)
	wantRefused(t, "no refresh token", c.fetch("/token", url.Values{"grant_type": {"refresh_token"}}), 400, "invalid_request")
	for _, token := range []string{"unknown", first.RefreshToken, last} {
		_, err = c.refresh(token)
		wantFailed(t, "a used refresh token", err)
	}
	c.wantOpens("stolen", &oauth2.Token{AccessToken: access}, false)
	if p := b.open(c.url()); p.query.Get("code") == "" {
		t.Error("the person is signed out, though only a client lost its token")
	}
}

// Every endpoint for clients finds out which one asks (RFC 6749, section 2.3).
func TestClientAuthentication(t *testing.T) {
	w := start(t, nil)
	encoded := url.QueryEscape(shopSecret)
	for _, tt := range []struct {
		name       string
		id, secret string // in the header
		form       url.Values
		status     int
		code       string
	}{
		{"nobody", "", "", url.Values{}, 401, "invalid_client"},
		{"an unknown client", "", "", url.Values{"client_id": {"nobody"}}, 401, "invalid_client"},
		{"without its secret", "", "", url.Values{"client_id": {"shop"}}, 401, "invalid_client"},
		{"with a wrong secret in the header", "shop", "x", url.Values{}, 401, "invalid_client"},
		{"with a secret that is not encoded", "shop", "%zz", url.Values{}, 401, "invalid_client"},
		{"a public client with a secret", "", "", url.Values{"client_id": {"phone"}, "client_secret": {"x"}}, 401, "invalid_client"},
		{"two clients", "shop", encoded, url.Values{"client_id": {"phone"}}, 401, "invalid_client"},
		{"in both places", "shop", encoded, url.Values{"client_secret": {shopSecret}}, 400, "invalid_request"},
		{"in the header, and named in the form", "shop", encoded, url.Values{"client_id": {"shop"}}, 400, "invalid_grant"},
		{"in the form", "", "", url.Values{"client_id": {"shop"}, "client_secret": {shopSecret}}, 400, "invalid_grant"},
	} {
		tt.form.Set("grant_type", "refresh_token")
		tt.form.Set("refresh_token", "unknown")
		r := request("POST", w.issuer+"/token", tt.form)
		if tt.id != "" {
			r.SetBasicAuth(tt.id, tt.secret)
		}
		wantRefused(t, tt.name, w.browser().do(r), tt.status, tt.code)
	}
}

// What clients send goes into the body of a POST, as a form of a sane size.
func TestFormOnly(t *testing.T) {
	w := start(t, nil)
	b, target := w.browser(), w.issuer+"/token"
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {w.phone.code(b)}, "client_id": {"phone"},
		"code_verifier": {verifier}, "redirect_uri": {phoneCallback},
	}
	if p := b.open(target + "?" + form.Encode()); p.status != 405 {
		t.Errorf("GET: %d", p.status)
	}
	wantRefused(t, "in the query", b.post(target+"?"+form.Encode(), url.Values{}), 401, "invalid_client")
	text := request("POST", target, form)
	text.Header.Set("Content-Type", "text/plain")
	wantRefused(t, "as text/plain", b.do(text), 400, "invalid_request")
	long := url.Values{"client_id": {"phone"}, "grant_type": {"refresh_token"}, "refresh_token": {strings.Repeat("x", 20<<10)}}
	wantRefused(t, "a long form", b.post(target, long), 400, "invalid_request")
	if p := b.post(target, form); p.status != 200 {
		t.Errorf("as it should be: %d %s", p.status, p.body)
	}
}
