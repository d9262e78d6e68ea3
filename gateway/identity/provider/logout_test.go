package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/config/issuers"
)

var (
	fullTokens = Tokens{Access: "the-access-token", Refresh: "the-refresh-token", ID: "the-id-token"}
	noRefresh  = Tokens{Access: "the-access-token", ID: "the-id-token"}
)

// offer makes the fake announce the endpoints for which there is an answer.
func (f *fake) offer(endSession, revoke http.HandlerFunc) {
	if endSession != nil {
		f.discovery["end_session_endpoint"], f.instead["/logout"] = f.idp+"/logout?realm=main", endSession
	}
	if revoke != nil {
		f.discovery["revocation_endpoint"], f.instead["/revoke"] = f.idp+"/revoke", revoke
	}
}

// What a provider offers and a login has, and how the session there ends.
func TestLogout(t *testing.T) {
	ok, done, bad := say(200, "", ""), say(204, "", ""), say(500, "", "")
	page := say(200, "text/html; charset=utf-8", "Do you want to sign out?")
	for _, test := range []struct {
		name       string
		logout     string
		endSession http.HandlerFunc // nil: not announced
		revoke     http.HandlerFunc // nil: not announced
		tokens     Tokens
		calls      string // that were made: form, revoke
		redirect   bool
		fault      string
	}{
		{name: "Keycloak", endSession: done, revoke: ok, tokens: fullTokens, calls: "form"},
		{name: "200 that is no page", endSession: sayJSON("{}"), tokens: fullTokens, calls: "form"},
		{name: "revocation alone", revoke: ok, tokens: fullTokens, calls: "revoke"},
		{name: "end session alone, no refresh token", endSession: page, tokens: noRefresh, redirect: true},
		{name: "a page, then revocation", endSession: page, revoke: ok, tokens: fullTokens, calls: "form revoke"},
		{name: "a page, then the browser", endSession: page, tokens: fullTokens, calls: "form", redirect: true},
		{name: "two failures, then the browser", endSession: bad, revoke: bad, tokens: fullTokens, calls: "form revoke",
			redirect: true},
		{name: "a redirect, then the browser", endSession: say(302, "", ""), tokens: fullTokens, calls: "form",
			redirect: true},
		{name: "nothing is offered", tokens: fullTokens},
		{name: "nothing but revocation, and that fails", revoke: say(503, "", "the-refresh-token"), tokens: fullTokens,
			calls: "revoke", fault: "logout"},
		{name: "no tokens", revoke: ok},

		{name: "form", logout: "form", endSession: done, revoke: ok, tokens: fullTokens, calls: "form"},
		{name: "form that fails", logout: "form", endSession: page, revoke: ok, tokens: fullTokens, calls: "form",
			fault: "logout"},
		{name: "form without a refresh token", logout: "form", endSession: done, revoke: ok, tokens: noRefresh},
		{name: "revoke", logout: "revoke", endSession: done, revoke: ok, tokens: fullTokens, calls: "revoke"},
		{name: "revoke that is not offered", logout: "revoke", endSession: done, tokens: fullTokens},
		{name: "redirect", logout: "redirect", endSession: done, revoke: ok, tokens: fullTokens, redirect: true},
		{name: "redirect that is not offered", logout: "redirect", revoke: ok, tokens: fullTokens},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.offer(test.endSession, test.revoke)
			got, err := f.provider(func(o *Options) { o.Logout = test.logout }).Logout(t.Context(), test.tokens)
			wantError(t, err, ErrFault, test.fault)
			calls := strings.TrimSpace(strings.Repeat("form ", f.called("/logout")) + strings.Repeat("revoke ",
				f.called("/revoke")))
			if calls != test.calls {
				t.Errorf("calls %q, want %q", calls, test.calls)
			}
			if test.redirect != strings.HasPrefix(got, f.idp+"/logout?") || !test.redirect && got != "" {
				t.Errorf("redirect %q, want one: %t", got, test.redirect)
			}
		})
	}
}

// What is sent to the provider, or with the browser.
func TestLogoutRequests(t *testing.T) {
	for want, test := range map[string]struct {
		way    string
		tokens Tokens
		change func(*Options)
	}{
		"client_id=authgate&client_secret=the+client%27s+secret&refresh_token=the-refresh-token": {"form", fullTokens, nil},
		"client_id=authgate&refresh_token=the-refresh-token": {"form", fullTokens, func(o *Options) {
			o.Client.Secret = ""
		}},
		"client_id=authgate&refresh_token=the-refresh-token " + basicHeader: {"form", fullTokens, func(o *Options) {
			o.Client.AuthMethod = issuers.AuthMethodBasic
		}},
		"client_id=authgate&client_secret=the+client%27s+secret&token=the-refresh-token" +
			"&token_type_hint=refresh_token": {"revoke", fullTokens, nil},
		"client_id=authgate&client_secret=the+client%27s+secret&token=the-access-token" +
			"&token_type_hint=access_token": {"revoke", noRefresh, nil},
		"/logout?client_id=authgate&id_token_hint=the-id-token" +
			"&post_logout_redirect_uri=https%3A%2F%2Fgateway.example%2F&realm=main": {"redirect", fullTokens, nil},
		"/logout?client_id=authgate&realm=main": {"redirect", Tokens{}, func(o *Options) { o.PostLogoutURL = "" }},
		"/out?client_id=x&logout_uri=https%3A%2F%2Fapp%2F": {"redirect", Tokens{}, func(o *Options) {
			o.LogoutURL, o.PostLogoutURL = o.Issuer+"/out?client_id=x&logout_uri=https%3A%2F%2Fapp%2F", ""
		}}, // Cognito
		"/out?client_id=authgate": {"redirect", Tokens{},
			func(o *Options) { o.LogoutURL, o.PostLogoutURL = o.Issuer+"/out", "" }},
	} {
		f := newFake(t)
		f.offer(say(204, "", ""), say(200, "", ""))
		f.discovery["token_endpoint_auth_methods_supported"] = []string{issuers.AuthMethodPost}
		got, err := f.provider(func(o *Options) {
			if o.Logout = test.way; test.change != nil {
				test.change(o)
			}
		}).Logout(t.Context(), test.tokens)
		got = strings.TrimPrefix(got, f.idp)
		if path := map[string]string{"form": "/logout", "revoke": "/revoke"}[test.way]; path != "" {
			form, header := f.lastCall(path)
			got = strings.TrimSpace(form.Encode() + " " + header)
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", test.way, got, err, want)
		}
	}
}

// A logout fails if nothing is known of the provider, or its address is in the clear.
func TestLogoutFaults(t *testing.T) {
	f := newFake(t)
	p := f.provider(func(o *Options) { o.LogoutURL = "http://id.example.org/logout" })
	_, err := p.Logout(t.Context(), fullTokens)
	wantError(t, err, ErrFault, "logout_url")
	f.fail(discoveryPath)
	_, err = f.provider(nil).Logout(t.Context(), fullTokens)
	wantError(t, err, ErrFault, "discovery")
}

// All ways together have one timeout, and the browser is not sent to a provider that
// does not answer.
func TestStalledLogout(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake, _ *Provider) {
		f.offer(stall, stall)
		started := time.Now()
		redirect, err := f.provider(func(o *Options) { o.Timeout = 10 * time.Second }).Logout(t.Context(), fullTokens)
		if took := time.Since(started); redirect != "" || took != 10*time.Second {
			t.Errorf("redirect %q after %v, want none after 10s", redirect, took)
		}
		wantError(t, err, ErrTimeout, "deadline exceeded")
	})
}

// logoutClaims are those of a good logout token, but for the changes.
func (f *fake) logoutClaims(change object) object {
	return over(object{
		"iss": f.idp, "aud": testClient, "iat": f.now().Unix(), "exp": f.now().Add(2 * time.Minute).Unix(),
		"jti": "the-jti", "sub": "alice-sub", "sid": "the-sid", "events": object{logoutEvent: object{}},
	}, change)
}

// TestTokenClaims has what refuses a logout token.
func TestLogoutToken(t *testing.T) {
	f := newFake(t)
	short, long := f.now().Add(2*time.Minute), f.now().Add(logoutTokenAge)
	for _, test := range []struct {
		change object
		want   LogoutToken
	}{
		{nil, LogoutToken{ID: "the-jti", Subject: "alice-sub", Session: "the-sid", Expires: short}},
		{object{"sub": nil}, LogoutToken{ID: "the-jti", Session: "the-sid", Expires: short}},
		{object{"sid": nil}, LogoutToken{ID: "the-jti", Subject: "alice-sub", Expires: short}},
		{object{"exp": f.now().Add(24 * time.Hour).Unix()},
			LogoutToken{ID: "the-jti", Subject: "alice-sub", Session: "the-sid", Expires: long}},
	} {
		got, err := f.provider(nil).VerifyLogoutToken(t.Context(), f.key.sign(f.logoutClaims(test.change), nil))
		if diff := cmp.Diff(&test.want, got); diff != "" || err != nil {
			t.Errorf("with %v: %v (-want +got):\n%s", test.change, err, diff)
		}
	}
	_, err := f.provider(nil).VerifyLogoutToken(t.Context(),
		f.key.sign(f.logoutClaims(object{"sub": nil, "sid": nil, "SID": "x"}), nil))
	wantError(t, err, ErrInvalid, "neither sub nor sid")
	token := f.key.sign(f.logoutClaims(nil), nil)
	_, err = f.github().VerifyLogoutToken(t.Context(), token)
	wantError(t, err, ErrInvalid, "no keys")
	f.fail("/keys") // what cannot be verified now is not called invalid
	_, err = f.provider(nil).VerifyLogoutToken(t.Context(), token)
	wantError(t, err, ErrFault, "503")
}
