package provider_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"

	"authgate/upstream/provider"
)

// Access tokens can be JWTs, for resource servers that verify them alone or ask. Other
// tokens are none, there and at userinfo.
func TestIntrospection(t *testing.T) {
	w := start(t, func(o *provider.Options) { o.AccessTokenAudience = []string{"api", "other"} })
	shop, phone := w.shop, w.phone
	introspected := func(token string) map[string]any {
		return shop.fetch("/introspect", url.Values{"token": {token}}).json()
	}
	token := phone.login(w.browser())
	phone.wantOpens("a JWT", token, true)
	now := float64(w.clock.Now().Unix())
	want := map[string]any{
		"iss": w.issuer, "aud": []any{"api", "other"}, "sub": "1001", "client_id": "phone", "iat": now, "exp": now + 300,
		"sid": phone.idToken(token)["sid"], "scope": "openid profile email", "roles": []any{"user", "admin"},
	}
	var jwt map[string]any
	api := must(oidc.NewProvider(t.Context(), w.issuer)).Verifier(&oidc.Config{ClientID: "api", Now: w.clock.Now})
	if err := must(api.Verify(t.Context(), token.AccessToken)).Claims(&jwt); err != nil || jwt["jti"] == nil || jwt["preferred_username"] != "alice" {
		t.Errorf("%v: %v, want a jti and alice", err, jwt)
	}
	delete(jwt, "jti")
	delete(jwt, "preferred_username")
	if diff := cmp.Diff(want, jwt); diff != "" {
		t.Errorf("the JWT (-want +got):\n%s", diff)
	}
	want["active"], want["username"], want["token_type"] = true, "alice", "Bearer"
	if diff := cmp.Diff(want, introspected(token.AccessToken)); diff != "" {
		t.Errorf("introspection (-want +got):\n%s", diff)
	}
	w.clock.Advance(5 * time.Minute)
	for name, value := range map[string]string{"no token": "", "an ID token": rawIDToken(token), "a refresh token": token.RefreshToken, "an expired token": token.AccessToken} {
		if diff := cmp.Diff(map[string]any{"active": false}, introspected(value)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		r := request("GET", w.issuer+"/userinfo", nil)
		r.Header.Set("Authorization", "Bearer "+value)
		if p := w.browser().do(r); p.status != 401 || !strings.Contains(p.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s at userinfo: %d, challenge %q", name, p.status, p.header.Get("WWW-Authenticate"))
		}
	}
	p := w.browser().open(w.issuer + "/userinfo?access_token=" + phone.login(w.browser()).AccessToken)
	if got := p.header.Get("WWW-Authenticate"); p.status != 401 || got != `Bearer realm="provider"` {
		t.Errorf("a token in the query: %d, challenge %q", p.status, got)
	}
	wantRefused(t, "a public client asks", phone.fetch("/introspect", url.Values{"token": {token.AccessToken}}), 401, "invalid_client")
	wantRefused(t, "no token", shop.fetch("/introspect", url.Values{}), 400, "invalid_request")
}

func TestRevocation(t *testing.T) {
	w := start(t, nil)
	shop, phone, b := w.shop, w.phone, w.browser()
	token, other := shop.login(b), phone.login(b)
	revoke := func(c *client, value string) page { return c.fetch("/revoke", url.Values{"token": {value}}) }
	wantRefused(t, "the refresh token of another client", revoke(phone, token.RefreshToken), 400, "invalid_grant")
	wantRefused(t, "the access token of another client", revoke(phone, token.AccessToken), 400, "invalid_grant")
	wantRefused(t, "no token", shop.fetch("/revoke", url.Values{}), 400, "invalid_request")
	shop.wantOpens("nothing is revoked", token, true)
	for _, value := range []string{"unknown", token.AccessToken} {
		if p := revoke(shop, value); p.status != 200 || p.body != "" {
			t.Errorf("%s: %d %s, want 200", value, p.status, p.body)
		}
	}
	shop.wantOpens("it is revoked", token, false)
	token = must(shop.refresh(token.RefreshToken))
	revoke(shop, token.RefreshToken)
	wantFailed(t, "a revoked refresh token", shop.refresh, token.RefreshToken)
	shop.wantOpens("its refresh token is revoked", token, false)
	phone.wantOpens("another client has revoked its tokens", other, true)
	if b.open(phone.url()).query.Get("code") == "" {
		t.Error("a client has revoked its token, and the person is signed out elsewhere")
	}
}
