package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// lent are the tokens that a client got from a user.
type lent struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

const oauthClient = "oauth: {enabled: true, clients: [{id: wiki, secret: \"" + oauthSecret + "\", consent: skip, " +
	"redirect_uris: [\"https://wiki.example.net/cb\"]}]}\n"

// asWiki sends a form as the client wiki.
func (r *rig) asWiki(path string, form url.Values) (tokens lent) {
	r.t.Helper()
	w := r.want(200, "POST", path, form.Encode(), ownrig.Form, ownrig.Basic("wiki", oauthSecret))
	must.Do(r.t, json.Unmarshal(w.Body.Bytes(), &tokens))
	return tokens
}

// lend signs a user in to the client wiki.
func (r *rig) lend(in signedIn) lent { return r.lendFor(in, "", "") }

// lendFor is lend for a token with scopes, for a resource; "": those of the gateway.
func (r *rig) lendFor(in signedIn, scope, resource string) lent {
	r.t.Helper()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of RFC 7636, appendix B
	asked := url.Values{
		"response_type": {"code"}, "client_id": {"wiki"}, "redirect_uri": {"https://wiki.example.net/cb"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	for name, value := range map[string]string{"scope": scope, "resource": resource} {
		if value != "" {
			asked.Set(name, value)
		}
	}
	w := r.want(http.StatusFound, "GET", "/oauth/authorize?"+asked.Encode(), "", browser, in.cookie)
	answer := must.Get(url.Parse(w.Header().Get("Location")))(r.t)
	return r.asWiki("/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": answer.Query()["code"], "code_verifier": {verifier},
	})
}

// A stream that a client has opened with a user's token ends with the token, with what the
// user has granted, and with the login that did; and not before.
func TestStreamsOfGrants(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *streaming, in signedIn, tokens lent){
		"logout": func(s *streaming, in signedIn, _ lent) { byCookie(s, in) },
		"consent": func(s *streaming, in signedIn, _ lent) {
			s.want(200, "POST", "/account/clients/revoke", `{"client_id":"wiki"}`, jsonType, in.cookie)
		},
		"refresh token": func(s *streaming, _ signedIn, tokens lent) {
			s.asWiki("/oauth/revoke", url.Values{"token": {tokens.Refresh}})
		},
		"access token": func(s *streaming, _ signedIn, tokens lent) {
			s.asWiki("/oauth/revoke", url.Values{"token": {tokens.Access}})
		},
		"expired": func(s *streaming, _ signedIn, _ lent) { s.clock.Advance(15 * time.Minute) },
		"disabled": func(s *streaming, _ signedIn, _ lent) {
			s.mustReload(strings.Replace(baseConfig, aliceIs, aliceIs+"disabled: true, ", 1) + oauthClient)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamsWith(t, baseConfig+oauthClient, func(s *streaming) {
				in := s.login(aliceIn)
				tokens := s.lend(in)
				body := s.open("HTTP/1.1", "/bearer/", "Authorization: Bearer "+tokens.Access)
				s.asWiki("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.Refresh}})
				time.Sleep(time.Minute)
				s.alive(1)
				end(s, in, tokens)
				s.ends(body, time.Now())
			})
		})
	}
}

// An error that comes before the endpoint for programs is found is told as its other errors are
// (RFC 6749, section 5.2), to scripts of any origin too.
func TestEarlyErrorsForPrograms(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+oauthClient)
	w := r.do("POST", "/oauth/token", "grant_type=x", ownrig.Form, "Authorization: Bearer x", "Authorization: Bearer y",
		"Origin: https://spa.example.net")
	var body map[string]string
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &body))
	if w.Code != 400 || body["error"] != "invalid_request" || body["error_description"] == "" ||
		w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v %v", w.Code, w.Header(), body)
	}
}
