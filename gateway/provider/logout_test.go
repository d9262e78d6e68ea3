package provider

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

// What a provider offers and a login has, and how the session there ends.
func TestLogout(t *testing.T) {
	full := Tokens{Access: "the-access-token", Refresh: "the-refresh-token", ID: "the-id-token"}
	noRefresh := Tokens{Access: "the-access-token", ID: "the-id-token"}
	page := say(200, "text/html; charset=utf-8", "Do you want to sign out?")
	const form, revocation = "/logout", "/revoke"
	tests := []struct {
		name       string
		logout     string
		endSession http.HandlerFunc // nil: not announced
		revoke     http.HandlerFunc // nil: not announced
		tokens     Tokens
		calls      []string // that were made
		redirect   bool
		fault      string
	}{
		{name: "Keycloak", endSession: say(204, "", ""), revoke: say(200, "", ""), tokens: full, calls: []string{form}},
		{name: "200 that is no page", endSession: say(200, "application/json", "{}"), tokens: full, calls: []string{form}},
		{name: "revocation alone", revoke: say(200, "", ""), tokens: full, calls: []string{revocation}},
		{name: "revocation of the access token", revoke: say(200, "", ""), tokens: noRefresh, calls: []string{revocation}},
		{name: "end session alone, no refresh token", endSession: page, tokens: noRefresh, redirect: true},
		{name: "a page, then revocation", endSession: page, revoke: say(200, "", ""), tokens: full, calls: []string{form, revocation}},
		{name: "a page, then the browser", endSession: page, tokens: full, calls: []string{form}, redirect: true},
		{name: "a failure, then revocation", endSession: say(400, "application/json", `{"error":"invalid_request"}`), revoke: say(200, "", ""), tokens: full, calls: []string{form, revocation}},
		{name: "two failures, then the browser", endSession: say(500, "", ""), revoke: say(500, "", ""), tokens: full, calls: []string{form, revocation}, redirect: true},
		{name: "nothing is offered", tokens: full},
		{name: "nothing but revocation, and that fails", revoke: say(503, "", "the-refresh-token"), tokens: full, calls: []string{revocation}, fault: "logout"},
		{name: "no tokens", revoke: say(200, "", "")},

		{name: "form", logout: "form", endSession: say(204, "", ""), revoke: say(200, "", ""), tokens: full, calls: []string{form}},
		{name: "form that fails", logout: "form", endSession: page, revoke: say(200, "", ""), tokens: full, calls: []string{form}, fault: "logout"},
		{name: "form without a refresh token", logout: "form", endSession: say(204, "", ""), revoke: say(200, "", ""), tokens: noRefresh},
		{name: "revoke", logout: "revoke", endSession: say(204, "", ""), revoke: say(200, "", ""), tokens: full, calls: []string{revocation}},
		{name: "revoke that is not offered", logout: "revoke", endSession: say(204, "", ""), tokens: full},
		{name: "redirect", logout: "redirect", endSession: say(204, "", ""), revoke: say(200, "", ""), tokens: full, redirect: true},
		{name: "redirect that is not offered", logout: "redirect", revoke: say(200, "", ""), tokens: full},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			if test.endSession != nil {
				f.discovery["end_session_endpoint"], f.instead["/logout"] = f.idp+"/logout", test.endSession
			}
			if test.revoke != nil {
				f.discovery["revocation_endpoint"], f.instead["/revoke"] = f.idp+"/revoke", test.revoke
			}
			got, err := f.provider(func(o *Options) { o.Logout = test.logout }).Logout(t.Context(), test.tokens)
			wantResult(t, err, ErrFault, test.fault)
			var calls []string
			for _, path := range []string{form, revocation} {
				for range f.called(path) {
					calls = append(calls, path)
				}
			}
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("calls: %s", diff)
			}
			if test.redirect != strings.HasPrefix(got, f.idp+"/logout?") || !test.redirect && got != "" {
				t.Errorf("redirect %q", got)
			}
		})
	}
}

func TestLogoutRequests(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.discovery["end_session_endpoint"] = f.idp + "/logout?realm=main"
	f.discovery["revocation_endpoint"] = f.idp + "/revoke"
	f.discovery["token_endpoint_auth_methods_supported"] = []string{postMethod}
	f.instead["/logout"], f.instead["/revoke"] = say(204, "", ""), say(200, "", "")
	tokens := Tokens{Access: "the-access-token", Refresh: "the-refresh-token", ID: "the-id-token"}
	logout := func(t *testing.T, way string, tokens Tokens, change func(*Options)) string {
		t.Helper()
		got, err := f.provider(func(o *Options) {
			if o.Logout = way; change != nil {
				change(o)
			}
		}).Logout(t.Context(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}

	logout(t, "form", tokens, nil)
	if diff := cmp.Diff(url.Values{"client_id": {testClient}, "client_secret": {testSecret}, "refresh_token": {"the-refresh-token"}}, f.form("/logout")); diff != "" {
		t.Errorf("form: %s", diff)
	}
	logout(t, "form", tokens, func(o *Options) { o.Client.Secret = "" })
	if diff := cmp.Diff(url.Values{"client_id": {testClient}, "refresh_token": {"the-refresh-token"}}, f.form("/logout")); diff != "" {
		t.Errorf("form of a public client: %s", diff)
	}
	logout(t, "form", tokens, func(o *Options) { o.Client.AuthMethod = basicMethod })
	if form := f.form("/logout"); form.Get("client_id") != testClient || form.Has("client_secret") || !strings.HasPrefix(f.authorization("/logout"), "Basic ") {
		t.Errorf("form with basic authentication: %v", form)
	}

	logout(t, "revoke", tokens, nil)
	want := url.Values{"client_id": {testClient}, "client_secret": {testSecret}, "token": {"the-refresh-token"}, "token_type_hint": {"refresh_token"}}
	if diff := cmp.Diff(want, f.form("/revoke")); diff != "" {
		t.Errorf("revocation: %s", diff)
	}
	logout(t, "revoke", Tokens{Access: "the-access-token"}, nil)
	if form := f.form("/revoke"); form.Get("token") != "the-access-token" || form.Get("token_type_hint") != "access_token" {
		t.Errorf("revocation of the access token: %v", form)
	}

	for name, test := range map[string]struct {
		tokens Tokens
		change func(*Options)
		want   url.Values
	}{
		"all":                               {tokens, nil, url.Values{"realm": {"main"}, "client_id": {testClient}, "id_token_hint": {"the-id-token"}, "post_logout_redirect_uri": {"https://gateway.example/"}}},
		"no ID token and nowhere to return": {Tokens{}, func(o *Options) { o.PostLogoutURL = "" }, url.Values{"realm": {"main"}, "client_id": {testClient}}},
		"another place":                     {Tokens{}, func(o *Options) { o.LogoutURL = f.idp + "/out"; o.PostLogoutURL = "" }, url.Values{"client_id": {testClient}}},
	} {
		u, err := url.Parse(logout(t, "redirect", test.tokens, test.change))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, u.Query()); diff != "" {
			t.Errorf("redirect, %s: %s", name, diff)
		}
		if wantPath := map[bool]string{true: "/out", false: "/logout"}[name == "another place"]; u.Path != wantPath {
			t.Errorf("redirect, %s: to %s", name, u.Path)
		}
	}
}

// A logout fails if nothing is known of the provider, or its address is in the clear.
func TestLogoutFaults(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	p := f.provider(func(o *Options) { o.LogoutURL = "http://id.example.org/logout" })
	_, err := p.Logout(t.Context(), Tokens{Refresh: "the-refresh-token"})
	wantError(t, err, ErrFault, "logout_url")
	f.instead[discoveryPath] = say(503, "", "")
	_, err = f.provider(nil).Logout(t.Context(), Tokens{Refresh: "the-refresh-token"})
	wantError(t, err, ErrFault, "discovery")
}

// All ways together have one timeout, and the browser is not sent to where
// nobody answers.
func TestStalledLogout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, time.Now)
		f.discovery["end_session_endpoint"], f.discovery["revocation_endpoint"] = f.idp+"/logout", f.idp+"/revoke"
		f.instead["/logout"], f.instead["/revoke"] = stall, stall
		p := f.provider(func(o *Options) { o.Transport, o.Timeout = f, 10*time.Second })
		started := time.Now()
		redirect, err := p.Logout(t.Context(), Tokens{Refresh: "the-refresh-token"})
		if !errors.Is(err, ErrTimeout) || redirect != "" {
			t.Errorf("got %q, %v", redirect, err)
		}
		if took := time.Since(started); took != 10*time.Second {
			t.Errorf("took %v, want 10s", took)
		}
		f.discovery["end_session_endpoint"] = nil
		p = f.provider(func(o *Options) { o.Transport, o.Logout = f, "revoke" })
		_, err = p.Logout(t.Context(), Tokens{Refresh: "the-refresh-token"})
		wantError(t, err, ErrTimeout, "deadline exceeded")
	})
}
