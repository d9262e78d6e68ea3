package provider

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAuthorizationURL(t *testing.T) {
	offline := []string{"openid", "offline_access"}
	for name, test := range map[string]struct {
		change func(f *fake, o *Options)
		want   url.Values // over the usual ones; nil removes
	}{
		"plain":              {func(*fake, *Options) {}, nil},
		"further parameters": {func(_ *fake, o *Options) { o.AuthorizationParams = map[string]string{"hd": "example.org"} }, url.Values{"hd": {"example.org"}}},
		"parameters that are ours": {func(_ *fake, o *Options) {
			o.AuthorizationParams = map[string]string{"state": "x", "nonce": "x", "code_challenge": "x", "code_challenge_method": "plain", "client_id": "x", "redirect_uri": "x", "scope": "x", "response_type": "token"}
		}, nil},
		"offline access": {func(_ *fake, o *Options) { o.Scopes = offline }, url.Values{"scope": {"openid offline_access"}, "prompt": {"consent"}}},
		"offline access with a prompt": {func(_ *fake, o *Options) {
			o.Scopes, o.AuthorizationParams = offline, map[string]string{"prompt": "login"}
		}, url.Values{"scope": {"openid offline_access"}, "prompt": {"login"}}},
		"without OpenID Connect": {func(f *fake, o *Options) {
			o.Endpoints = Endpoints{Authorization: f.idp + "/authorize", Token: f.idp + "/token", Userinfo: f.idp + "/userinfo"}
		}, url.Values{"nonce": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			got, err := f.provider(func(o *Options) { test.change(f, o) }).AuthorizationURL(t.Context(), testAttempt)
			if err != nil {
				t.Fatal(err)
			}
			want := url.Values{
				"response_type": {"code"}, "client_id": {testClient}, "redirect_uri": {"https://gateway.example/callback"}, "scope": {"openid profile"},
				"state": {testAttempt.State}, "nonce": {testAttempt.Nonce},
				// of testAttempt.Verifier: printf %s … | openssl sha256 -binary | basenc --base64url
				"code_challenge": {"H-wHqp3DEpV09yNSxgxr-j_EEJSKItM7jvppyxkV2AQ"}, "code_challenge_method": {"S256"},
			}
			for parameter, values := range test.want {
				if want[parameter] = values; values == nil {
					delete(want, parameter)
				}
			}
			path, query, _ := strings.Cut(got, "?")
			if diff := cmp.Diff(want, must(url.ParseQuery(query))); diff != "" || path != f.idp+"/authorize" {
				t.Errorf("leads to %s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func TestCheckIssuer(t *testing.T) {
	for _, test := range []struct {
		name      string
		announced any
		iss       string // OWN: of the fake
		present   bool
		mixUp     bool
		asks      int // for metadata
	}{
		{name: "neither announced nor present", asks: 1},
		{name: "not announced, but present", iss: "OWN", present: true},
		{name: "announced and present", announced: true, iss: "OWN", present: true},
		{name: "announced and missing", announced: true, mixUp: true, asks: 1},
		{name: "of another", iss: "https://evil.example", present: true, mixUp: true},
		{name: "with a slash more", iss: "OWN/", present: true, mixUp: true},
		{name: "empty", present: true, mixUp: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.discovery["authorization_response_iss_parameter_supported"] = test.announced
			err := f.provider(nil).CheckIssuer(t.Context(), strings.Replace(test.iss, "OWN", f.idp, 1), test.present)
			wantResult(t, err, ErrMixUp, map[bool]string{true: "iss"}[test.mixUp])
			f.wantCalled(t, discoveryPath, test.asks)
		})
	}
	p := newFake(t).github() // no issuer is configured
	wantResult(t, p.CheckIssuer(t.Context(), "", false), nil, "")
	wantError(t, p.CheckIssuer(t.Context(), "", true), ErrMixUp, "iss")
	wantError(t, p.CheckIssuer(t.Context(), "https://github.com/login/oauth", true), ErrMixUp, "iss")
}
