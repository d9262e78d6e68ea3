package provider_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/oauth2"
)

// errorOf is the code in a JSON error answer.
func errorOf(t *testing.T, p page) string {
	t.Helper()
	var answer struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal([]byte(p.body), &answer); err != nil {
		t.Fatalf("%d %q: %v", p.status, p.body, err)
	}
	if answer.Description == "" {
		t.Errorf("%s says no more", answer.Error)
	}
	return answer.Error
}

// newCode is one that alice's browser was sent to a client with.
func (w *world) newCode(c *client) string {
	w.t.Helper()
	return w.browser().signIn(c.url(), "alice", "wonderland").query.Get("code")
}

// A code comes with what belongs to it, or is lost.
func TestCodeRefused(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, phone := w.shop(), w.phone()
	for _, tt := range []struct {
		name   string
		change func(url.Values)
		code   string
	}{
		{"no code", func(f url.Values) { f.Del("code") }, "invalid_request"},
		{"another code", func(f url.Values) { f.Set("code", "x"+f.Get("code")) }, "invalid_grant"},
		{"no verifier", func(f url.Values) { f.Del("code_verifier") }, "invalid_grant"},
		{"another verifier", func(f url.Values) { f.Set("code_verifier", verifier+"x") }, "invalid_grant"},
		{"no redirect URI", func(f url.Values) { f.Del("redirect_uri") }, "invalid_grant"},
		{"another redirect URI", func(f url.Values) { f.Set("redirect_uri", phoneCallback) }, "invalid_grant"},
		{"no grant type", func(f url.Values) { f.Del("grant_type") }, "invalid_request"},
		{"another grant type", func(f url.Values) { f.Set("grant_type", "password") }, "unsupported_grant_type"},
		{"a parameter twice", func(f url.Values) { f.Add("code_verifier", verifier) }, "invalid_request"},
	} {
		form := url.Values{
			"grant_type": {"authorization_code"}, "code": {w.newCode(shop)},
			"code_verifier": {verifier}, "redirect_uri": {shopCallback},
		}
		tt.change(form)
		p := shop.fetch("/token", form)
		if code := errorOf(t, p); p.status != 400 || code != tt.code {
			t.Errorf("%s: %d %s, want 400 %s", tt.name, p.status, code, tt.code)
		}
		if p.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the answer may be cached", tt.name)
		}
	}

	code := w.newCode(shop)
	phone.oauth.RedirectURL = shopCallback // phone may use it too
	if _, err := phone.exchange(code); failed(err) != "invalid_grant" {
		t.Errorf("the code of another client: %v", err)
	}
	if _, err := shop.exchange(code); err != nil {
		t.Errorf("another client has spoilt the code: %v", err)
	}
	code = w.newCode(shop)
	if _, err := shop.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(verifier+"x")); failed(err) != "invalid_grant" {
		t.Errorf("a wrong verifier: %v", err)
	}
	if _, err := shop.exchange(code); failed(err) != "invalid_grant" {
		t.Errorf("the code after a wrong verifier: %v", err)
	}
}

// A verifier is of 43 characters at least, whatever was made of it.
func TestShortVerifier(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.shop()
	short := verifier[:42]
	target := c.url("code_challenge", oauth2.S256ChallengeFromVerifier(short))
	code := w.browser().signIn(target, "alice", "wonderland").query.Get("code")
	if _, err := c.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(short)); failed(err) != "invalid_grant" {
		t.Errorf("a verifier of 42 characters: %v", err)
	}
}

// A code works once. When it comes again, it was stolen, and nobody knows who
// has the tokens: they end.
func TestCodeUsedTwice(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.shop()
	code := w.newCode(c)
	token, err := c.exchange(code)
	if err != nil {
		t.Fatal(err)
	}
	if !c.opens(token) {
		t.Fatal("the token is not good to begin with")
	}
	if _, err := c.exchange(code); failed(err) != "invalid_grant" {
		t.Errorf("the code once more: %v", err)
	}
	if c.opens(token) {
		t.Error("the access token lives on")
	}
	if _, err := c.refresh(token.RefreshToken); failed(err) != "invalid_grant" {
		t.Errorf("the refresh token lives on: %v", err)
	}
}

// However many exchange a code at once, one gets tokens.
func TestCodeAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.shop()
	code := w.newCode(c)
	var won atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.exchange(code); err == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 20 got tokens, want 1", won.Load())
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c, b := w.shop(), w.browser()
	first := c.login(b)
	second, err := c.refresh(first.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	id := c.idToken(second)
	if id.Nonce != "" || id.Subject != "1001" || sessionOf(t, c, second) != sessionOf(t, c, first) {
		t.Errorf("the new ID token is of %s with the nonce %q", id.Subject, id.Nonce)
	}
	if second.RefreshToken == first.RefreshToken || !c.opens(second) {
		t.Error("the tokens are not new and good")
	}
	phone := w.phone()
	if _, err := phone.refresh(second.RefreshToken); failed(err) != "invalid_grant" {
		t.Errorf("the refresh token of another client: %v", err)
	}
	if p := c.fetch("/token", url.Values{"grant_type": {"refresh_token"}}); errorOf(t, p) != "invalid_request" {
		t.Errorf("no refresh token: %s", p.body)
	}
	if _, err := c.refresh("unknown"); failed(err) != "invalid_grant" {
		t.Errorf("an unknown refresh token: %v", err)
	}

	if _, err := c.refresh(first.RefreshToken); failed(err) != "invalid_grant" {
		t.Errorf("a refresh token used before: %v", err)
	}
	if c.opens(second) {
		t.Error("the refresh token was stolen, but the access token lives on")
	}
	if _, err := c.refresh(second.RefreshToken); failed(err) != "invalid_grant" {
		t.Errorf("the refresh token was stolen, but the next lives on: %v", err)
	}
	if p := b.open(c.url()); p.query.Get("code") == "" {
		t.Error("the person is signed out, though only a client lost its token")
	}
}

// A client may ask for less than it was granted, not for more.
func TestRefreshScope(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.shop()
	c.oauth.Scopes = []string{"openid", "email"}
	token := c.login(w.browser())
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}, "scope": {"openid profile"}}
	if p := c.fetch("/token", form); errorOf(t, p) != "invalid_scope" {
		t.Errorf("more than was granted: %s", p.body)
	}
	form.Set("scope", "openid")
	p := c.fetch("/token", form)
	var answer tokenAnswer
	if err := json.Unmarshal([]byte(p.body), &answer); err != nil || answer.Scope != "openid" {
		t.Fatalf("%d %v: scope %q, want openid", p.status, err, answer.Scope)
	}
	info, err := c.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(&oauth2.Token{AccessToken: answer.AccessToken}))
	if err != nil {
		t.Fatal(err)
	}
	if info.Email != "" {
		t.Error("userinfo tells the e-mail address without the scope email")
	}
}

type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	Scope       string `json:"scope"`
}

// Every endpoint for clients finds out which one asks (RFC 6749, section 2.3).
func TestClientAuthentication(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	basic := func(id, secret string) [2]string { return [2]string{url.QueryEscape(id), url.QueryEscape(secret)} }
	for _, tt := range []struct {
		name   string
		header [2]string
		form   url.Values
		status int
		code   string
	}{
		{"nobody", [2]string{}, url.Values{}, 401, "invalid_client"},
		{"an unknown client", [2]string{}, url.Values{"client_id": {"nobody"}}, 401, "invalid_client"},
		{"without its secret", [2]string{}, url.Values{"client_id": {"shop"}}, 401, "invalid_client"},
		{"with a wrong secret", [2]string{}, url.Values{"client_id": {"shop"}, "client_secret": {"x"}}, 401, "invalid_client"},
		{"with a wrong secret in the header", basic("shop", "x"), url.Values{}, 401, "invalid_client"},
		{"with a secret that is not encoded", [2]string{"shop", "%zz"}, url.Values{}, 401, "invalid_client"},
		{"a public client with a secret", [2]string{}, url.Values{"client_id": {"phone"}, "client_secret": {"x"}}, 401, "invalid_client"},
		{"two clients", basic("shop", shopSecret), url.Values{"client_id": {"phone"}}, 401, "invalid_client"},
		{"in both places", basic("shop", shopSecret), url.Values{"client_secret": {shopSecret}}, 400, "invalid_request"},
		{"in the header, and named in the form", basic("shop", shopSecret), url.Values{"client_id": {"shop"}}, 400, "invalid_grant"},
		{"in the form", [2]string{}, url.Values{"client_id": {"shop"}, "client_secret": {shopSecret}}, 400, "invalid_grant"},
	} {
		tt.form.Set("grant_type", "refresh_token")
		tt.form.Set("refresh_token", "unknown")
		r := request(t, "POST", w.issuer+"/token", tt.form)
		if tt.header[0] != "" {
			r.SetBasicAuth(tt.header[0], tt.header[1])
		}
		p := w.browser().do(r)
		if code := errorOf(t, p); p.status != tt.status || code != tt.code {
			t.Errorf("%s: %d %s, want %d %s", tt.name, p.status, code, tt.status, tt.code)
		}
		if challenged := p.header.Get("WWW-Authenticate") != ""; challenged != (tt.status == 401) {
			t.Errorf("%s: %d with a challenge: %v", tt.name, p.status, challenged)
		}
	}
}

// What clients send goes into the body of a POST, as a form of a sane size.
func TestFormOnly(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.phone()
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {w.newCode(c)}, "client_id": {"phone"},
		"code_verifier": {verifier}, "redirect_uri": {phoneCallback},
	}
	if p := w.browser().open(w.issuer + "/token?" + form.Encode()); p.status != 405 {
		t.Errorf("GET: %d", p.status)
	}
	if p := w.browser().post(w.issuer+"/token?"+form.Encode(), url.Values{}); errorOf(t, p) != "invalid_client" {
		t.Errorf("in the query: %s", p.body)
	}
	r := request(t, "POST", w.issuer+"/token", form)
	r.Header.Set("Content-Type", "text/plain")
	if p := w.browser().do(r); errorOf(t, p) != "invalid_request" {
		t.Errorf("as text/plain: %s", p.body)
	}
	long := url.Values{"client_id": {"phone"}, "grant_type": {"refresh_token"}, "refresh_token": {strings.Repeat("x", 20<<10)}}
	if p := w.browser().post(w.issuer+"/token", long); errorOf(t, p) != "invalid_request" {
		t.Errorf("a long form: %s", p.body)
	}
	if p := w.browser().post(w.issuer+"/token", form); p.status != 200 {
		t.Errorf("as it should be: %d %s", p.status, p.body)
	}
}
