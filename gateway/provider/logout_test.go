package provider

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{name: "two failures, then the browser", endSession: bad, revoke: bad, tokens: fullTokens, calls: "form revoke", redirect: true},
		{name: "a redirect, then the browser", endSession: say(302, "", ""), tokens: fullTokens, calls: "form", redirect: true},
		{name: "nothing is offered", tokens: fullTokens},
		{name: "nothing but revocation, and that fails", revoke: say(503, "", "the-refresh-token"), tokens: fullTokens, calls: "revoke", fault: "logout"},
		{name: "no tokens", revoke: ok},

		{name: "form", logout: "form", endSession: done, revoke: ok, tokens: fullTokens, calls: "form"},
		{name: "form that fails", logout: "form", endSession: page, revoke: ok, tokens: fullTokens, calls: "form", fault: "logout"},
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
			wantResult(t, err, ErrFault, test.fault)
			calls := strings.TrimSpace(strings.Repeat("form ", f.called("/logout")) + strings.Repeat("revoke ", f.called("/revoke")))
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
	const form, revoke, redirect = "form", "revoke", "redirect"
	id, refresh, realm := []string{testClient}, []string{"the-refresh-token"}, []string{"main"}
	for name, test := range map[string]struct {
		way    string
		tokens Tokens
		change func(*Options)
		want   url.Values
		header string
	}{
		"form":                  {form, fullTokens, nil, url.Values{"client_id": id, "client_secret": {testSecret}, "refresh_token": refresh}, ""},
		"form of a public one":  {form, fullTokens, func(o *Options) { o.Client.Secret = "" }, url.Values{"client_id": id, "refresh_token": refresh}, ""},
		"form by basic":         {form, fullTokens, func(o *Options) { o.Client.AuthMethod = basicMethod }, url.Values{"client_id": id, "refresh_token": refresh}, basicHeader},
		"revoke":                {revoke, fullTokens, nil, url.Values{"client_id": id, "client_secret": {testSecret}, "token": refresh, "token_type_hint": {"refresh_token"}}, ""},
		"revoke access":         {revoke, noRefresh, nil, url.Values{"client_id": id, "client_secret": {testSecret}, "token": {"the-access-token"}, "token_type_hint": {"access_token"}}, ""},
		"redirect":              {redirect, fullTokens, nil, url.Values{"realm": realm, "client_id": id, "id_token_hint": {"the-id-token"}, "post_logout_redirect_uri": {"https://gateway.example/"}}, ""},
		"redirect with nothing": {redirect, Tokens{}, func(o *Options) { o.PostLogoutURL = "" }, url.Values{"realm": realm, "client_id": id}, ""},
		"redirect elsewhere":    {redirect, Tokens{}, func(o *Options) { o.LogoutURL, o.PostLogoutURL = o.Issuer+"/out", "" }, url.Values{"client_id": id}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.offer(say(204, "", ""), say(200, "", ""))
			f.discovery["token_endpoint_auth_methods_supported"] = []string{postMethod}
			got, err := f.provider(func(o *Options) {
				if o.Logout = test.way; test.change != nil {
					test.change(o)
				}
			}).Logout(t.Context(), test.tokens)
			if err != nil {
				t.Fatal(err)
			}
			sent, header := must(url.Parse(got)).Query(), ""
			if path := map[string]string{form: "/logout", revoke: "/revoke"}[test.way]; path != "" {
				sent, header = f.lastCall(path)
			}
			if diff := cmp.Diff(test.want, sent); diff != "" || header != test.header {
				t.Errorf("Authorization %q, want %q; form or query (-want +got):\n%s", header, test.header, diff)
			}
			if name == "redirect elsewhere" && !strings.HasPrefix(got, f.idp+"/out?") {
				t.Errorf("the browser goes to %s, want /out", got)
			}
		})
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
