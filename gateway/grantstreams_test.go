package gateway

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/gateway/identity/provider"
	"authgate/gateway/login/grants"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// A stream that a client has opened with a user's token ends with the token, with what the
// user has granted, and with the login that did; and not before.
func TestStreamsOfGrants(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *streaming, in signedIn, tokens ownrig.Lent){
		"logout": func(s *streaming, in signedIn, _ ownrig.Lent) { byCookie(s, in) },
		"consent": func(s *streaming, in signedIn, _ ownrig.Lent) {
			s.want(200, "POST", "/account/clients/revoke", `{"client_id":"wiki"}`, jsonType, in.cookie)
		},
		"refresh token": func(s *streaming, _ signedIn, tokens ownrig.Lent) {
			s.client.AsWiki("/oauth/revoke", url.Values{"token": {tokens.Refresh}})
		},
		"access token": func(s *streaming, _ signedIn, tokens ownrig.Lent) {
			s.client.AsWiki("/oauth/revoke", url.Values{"token": {tokens.Access}})
		},
		"expired": func(s *streaming, _ signedIn, _ ownrig.Lent) { s.clock.Advance(15 * time.Minute) },
		"disabled": func(s *streaming, _ signedIn, _ ownrig.Lent) {
			s.mustReload(strings.Replace(baseConfig, aliceIs, aliceIs+"disabled: true, ", 1) + ownrig.OAuthClient)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamsWith(t, baseConfig+ownrig.OAuthClient, func(s *streaming) {
				in := s.login(aliceIn)
				tokens := s.client.Lend(in.cookie, "", "")
				s.endsAfter("HTTP/1.1", "/bearer/", "Authorization: Bearer "+tokens.Access, func() {
					s.client.AsWiki("/oauth/token", url.Values{"grant_type": {"refresh_token"},
						"refresh_token": {tokens.Refresh}})
					s.alive(1)
					end(s, in, tokens)
				})
			})
		})
	}
}

// A stream that a client has opened for a user whom a provider vouches for ends with what the operator, the
// provider or a reload ends, and not before.
func TestStreamsOfCrossApp(t *testing.T) {
	t.Parallel()
	const agent = "oauth: {enabled: true, clients: [{id: agent, secret: " + ownrig.OAuthSecret +
		", grants: [device_code]}], cross_app: [{provider: okta, clients: [agent]}]}\n" +
		"providers: [{name: okta, issuer: \"https://okta.invalid\", client_id: gateway}]\n"
	for name, end := range map[string]func(s *streaming) error{
		"operator, by name": func(s *streaming) error {
			n, err := s.Operators().EndLoginsOf(s.t.Context(), "okta:carol")
			if n != 1 {
				s.t.Errorf("%d ended", n)
			}
			return err
		},
		"operator, by subject": func(s *streaming) error {
			_, err := s.Operators().EndLoginsOf(s.t.Context(), "okta:1")
			return err
		},
		"user": func(s *streaming) error {
			_, err := s.state.Load().oauth.Consents.Withdraw(s.t.Context(), "okta:1", "agent")
			return err
		},
		"reload": func(s *streaming) error {
			return s.reload(strings.Replace(baseConfig+agent, "okta.invalid", "x.invalid", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamsWith(t, baseConfig+agent, func(s *streaming) {
				vouched := grants.Vouched{Provider: "okta", Issuer: "https://okta.invalid", ID: "1", Issued: s.clock.Now(),
					Left: time.Minute, Profile: provider.Profile{Subject: "1", Username: "carol"}}
				issued := must.Get(s.state.Load().oauth.Grants.Vouch(t.Context(), &vouched,
					grants.Terms{Client: "agent", Access: time.Hour}, "Agent"))(t)
				s.endsAfter("HTTP/1.1", "/bearer/", "Authorization: Bearer "+issued.Access, func() { must.Do(t, end(s)) })
			})
		})
	}
}

// An error that comes before the endpoint for programs is found is told as its other errors are
// (RFC 6749, section 5.2), to scripts of any origin too.
func TestEarlyErrorsForPrograms(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+ownrig.OAuthClient)
	w := r.do("POST", "/oauth/token", "grant_type=x", ownrig.Form, "Authorization: Bearer x", "Authorization: Bearer y",
		"Origin: https://spa.example.net")
	var body map[string]string
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &body))
	if w.Code != 400 || body["error"] != "invalid_request" || body["error_description"] == "" ||
		w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v %v", w.Code, w.Header(), body)
	}
}
