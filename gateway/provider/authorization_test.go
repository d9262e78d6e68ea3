package provider

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

func TestAuthorizationURL(t *testing.T) {
	base := url.Values{
		"response_type": {"code"}, "client_id": {testClient}, "redirect_uri": {"https://gateway.example/callback"}, "scope": {"openid profile"},
		"state": {testAttempt.State}, "nonce": {testAttempt.Nonce},
		// of testAttempt.Verifier: printf %s … | openssl sha256 -binary | basenc --base64url
		"code_challenge": {"H-wHqp3DEpV09yNSxgxr-j_EEJSKItM7jvppyxkV2AQ"}, "code_challenge_method": {"S256"},
	}
	tests := []struct {
		name   string
		change func(*Options)
		want   url.Values // over base; nil removes
	}{
		{"plain", func(o *Options) {}, nil},
		{"further parameters", func(o *Options) { o.AuthorizationParams = map[string]string{"hd": "example.org"} }, url.Values{"hd": {"example.org"}}},
		{"parameters that are ours", func(o *Options) {
			o.AuthorizationParams = map[string]string{"state": "x", "nonce": "x", "code_challenge": "x", "code_challenge_method": "plain", "client_id": "x", "redirect_uri": "x", "scope": "x", "response_type": "token"}
		}, nil},
		{"offline access", func(o *Options) { o.Scopes = []string{"openid", "offline_access"} }, url.Values{"scope": {"openid offline_access"}, "prompt": {"consent"}}},
		{"offline access with a prompt", func(o *Options) {
			o.Scopes, o.AuthorizationParams = []string{"openid", "offline_access"}, map[string]string{"prompt": "login"}
		}, url.Values{"scope": {"openid offline_access"}, "prompt": {"login"}}},
		{"without OpenID Connect", func(o *Options) {
			o.Endpoints = Endpoints{Authorization: o.Issuer + "/authorize", Token: o.Issuer + "/token", Userinfo: o.Issuer + "/userinfo"}
		}, url.Values{"nonce": nil}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			got, err := f.provider(test.change).AuthorizationURL(t.Context(), testAttempt)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			want := url.Values{}
			for _, values := range []url.Values{base, test.want} {
				for name, value := range values {
					if want[name] = value; value == nil {
						delete(want, name)
					}
				}
			}
			if diff := cmp.Diff(want, u.Query()); diff != "" {
				t.Error(diff)
			}
			if u.RawQuery = ""; u.String() != f.idp+"/authorize" {
				t.Errorf("leads to %s", u)
			}
		})
	}
}

func TestCheckIssuer(t *testing.T) {
	tests := []struct {
		name      string
		announced any
		iss       string
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
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			f.discovery["authorization_response_iss_parameter_supported"] = test.announced
			iss := test.iss
			if len(iss) >= 3 && iss[:3] == "OWN" {
				iss = f.idp + iss[3:]
			}
			err := f.provider(nil).CheckIssuer(t.Context(), iss, test.present)
			if test.mixUp {
				wantError(t, err, ErrMixUp, "iss")
			} else if err != nil {
				t.Error(err)
			}
			if got := f.called(discoveryPath); got != test.asks {
				t.Errorf("%d calls of discovery, want %d", got, test.asks)
			}
		})
	}
	t.Run("no issuer is configured", func(t *testing.T) {
		p := newFake(t, clocktest.New().Now).listen().github()
		if err := p.CheckIssuer(t.Context(), "", false); err != nil {
			t.Error(err)
		}
		wantError(t, p.CheckIssuer(t.Context(), "", true), ErrMixUp, "iss")
		wantError(t, p.CheckIssuer(t.Context(), "https://github.com/login/oauth", true), ErrMixUp, "iss")
	})
}
