package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
)

// tokenHeaderConfig lets tokens come in a header of their own.
var tokenHeaderConfig = strings.Replace(baseConfig, "upstreams:", "token: {header: X-Authgate-Token}\n"+
	"upstreams:", 1) + `
  - {match: /open/, name: open, upstream: app, auth: [session, bearer, none]}
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
  - {match: /kept/, name: kept, upstream: app, auth: [bearer], forward_credentials: true}
listen: {trusted_proxies: [10.0.0.0/8]}
`

// withoutToken fails the test if a token of the gateway reached the upstream.
func (r *rig) withoutToken(tokens ...string) {
	r.t.Helper()
	for name, values := range r.upstream.Last().Header {
		for _, token := range tokens {
			if strings.Contains(strings.Join(values, " "), token) {
				r.t.Errorf("a token reached the upstream in %s", name)
			}
		}
		if strings.Contains(strings.ToLower(name), "authgate") || name == "Proxy-Authorization" {
			r.t.Errorf("%s reached the upstream", name)
		}
	}
}

// A token in token.header counts as in Authorization, which then is the application's.
func TestTokenHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokenHeaderConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	made := r.client.NewToken(alice.cookie, "").Token
	for _, token := range []string{made, alice.access} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/open/", "/admin/", "/kept/"} {
			for _, application := range []string{"", "Bearer of-the-application", "Token x", "Basic YXBwOnB3"} {
				if target == "/any/" && strings.HasPrefix(application, "Basic") {
					continue // which is the gateway's there
				}
				r.want(200, "POST", target, "", "x-authgate-token: "+token, headerIf("Authorization", application),
					bob.cookie)
				r.wantUser("alice")
				r.withoutToken(token)
				if got := r.upstream.Last().Header.Get("Authorization"); got != application {
					t.Errorf("%s: the upstream got %q, want %q", target, got, application)
				}
			}
		}
		r.want(200, "GET", "/me", "", "X-Authgate-Token: "+token)
		r.want(401, "GET", "/session/", "", "X-Authgate-Token: "+token)
		r.want(200, "GET", "/session/", "", "X-Authgate-Token: "+token, bob.cookie)
		r.wantUser("bob")
		r.withoutToken(token)
		r.want(200, "GET", "/public/", "", "X-Authgate-Token: "+token, "X_Authgate_Token: "+token,
			"X.Authgate.Token: "+token)
		r.wantUser("")
		r.withoutToken(token)
	}
	r.want(200, "GET", "/basic/", "", "X-Authgate-Token: "+made, basicHeader("service", "s3rvice"))
	r.want(200, "GET", "/open/", "", "X_Authgate_Token: "+made) // another spelling holds no credential
	r.wantUser("")
	r.withoutToken(made)
	r.want(200, "GET", "/open/", "", "X-Authgate-Token:")
	r.want(200, "POST", "/logout", "", "X-Authgate-Token: "+bob.access)
	r.want(401, "GET", "/session/", "", bob.cookie)
}

// A wrong token is 401, whatever else is good. Two credentials for the gateway are 400.
func TestTokenHeaderRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokenHeaderConfig)
	alice := r.login(aliceIn)
	made := r.client.NewToken(alice.cookie, "").Token
	for _, wrong := range []string{made + "x", alice.access + "x", "x", "Bearer " + made, "agt_", alice.refresh} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/open/"} {
			w := r.want(401, "GET", target, "", "X-Authgate-Token: "+wrong, alice.cookie, browser)
			const challenge = `Bearer realm="authgate", error="invalid_token"`
			if got := w.Header()["Www-Authenticate"]; !slices.Contains(got, challenge) {
				t.Errorf("%s asks for %q", target, got)
			}
		}
		r.want(401, "GET", "/me", "", "X-Authgate-Token: "+wrong, alice.cookie)
	}
	good := "X-Authgate-Token: " + made
	for _, own := range []string{
		"Authorization: Bearer " + made, alice.bearer, "Authorization: Bearer agt_x",
		basicHeader("alice", made), "Authorization: Token " + made,
	} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/open/", "/me"} {
			r.want(400, "GET", target, "", good, own)
		}
	}
	r.want(400, "GET", "/any/", "", good, basicHeader("service", "s3rvice"))
	r.want(400, "POST", "/login", "", good, basicHeader("alice", "wonderland"))
	r.want(400, "GET", "/bearer/", "", good, good)
	r.want(200, "GET", "/me", "", good, "Authorization: Bearer of-the-application")
	w := httptest.NewRecorder()
	r.HTTPRedirect(w, request("GET", "/", "", good))
	if w.Code != 403 {
		t.Errorf("a token in cleartext: %d", w.Code)
	}
}

// A proxy that asks may pass the header on, and gets it back empty.
func TestTokenHeaderVerify(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokenHeaderConfig)
	made := r.client.NewToken(r.login(aliceIn).cookie, "").Token
	for _, target := range []string{"/bearer/", "/public/"} {
		w := r.asks(200, asTraefik("GET", "gw.example", target), "X-Authgate-Token: "+made)
		wantIdentity(t, w, map[string]string{"X-Authgate-Token": ""})
	}
	r.asks(401, asTraefik("GET", "gw.example", "/bearer/"), "X-Authgate-Token: "+made+"x")
}

// Caches keep answers to requests without credentials apart by the header too, and a description
// cannot have it.
func TestTokenHeaderOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokenHeaderConfig)
	w := r.want(200, "GET", "/open/", "")
	if got := w.Header().Get("Vary"); got != "Cookie, Authorization, X-Authgate-Token" {
		t.Errorf("Vary: %q", got)
	}
	e := newExplainer(t, parseConfig(t, t.TempDir(), tokenHeaderConfig))
	header := http.Header{"x-authgate-token": {"agt_"}}
	if _, err := e.Explain(&explain.Request{Method: "GET", URL: "/open/", Header: header}); err == nil {
		t.Error("a description has a credential")
	}
}

// proxiedConfig has routes whose application has Authorization for itself.
const proxiedConfig = baseConfig + `
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer, basic], authorization: application}
  - {match: /tokens/, name: tokens, upstream: app, auth: [bearer], authorization: application}
  - {match: /people/, name: people, upstream: app, auth: [session], authorization: application}
  - {match: /open/, name: open, upstream: app, auth: [session, bearer, none], authorization: application}
`

// proxied returns a header line as Proxy-Authorization.
func proxied(line string) string { return "Proxy-" + line }

// Where Authorization is the application's, the gateway's credential comes in
// Proxy-Authorization.
func TestProxyAuthorization(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		yaml := edit(t, proxiedConfig, `{url: "http://app.invalid"}`,
			`{url: "http://app.invalid", fast_path: `+fast+`}`)
		r := newNetworkRig(t, yaml, func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.WriteString(w, q.Header.Get("X-Auth-User")+"|"+q.Header.Get("Authorization")+"|"+
				q.Header.Get("Proxy-Authorization"))
		})
		in := r.login(aliceIn)
		made := r.client.NewToken(in.cookie, "").Token
		bob := r.login(bobIn)
		seen := func(want, target string, header ...string) {
			t.Helper()
			if got := r.want(200, "GET", target, "", header...).Body.String(); got != want {
				t.Errorf("fast_path %s: %s with %.60q: the upstream saw %q, want %q", fast, target, header, got, want)
			}
		}
		bearer := "Authorization: Bearer " + made
		for _, own := range []string{bearer, basicHeader("alice", made), basicHeader("", made), in.bearer} {
			for _, application := range []string{"", "Bearer x", "Basic YXBwOnB3", "Digest y"} {
				seen("alice|"+application+"|", "/shared/", proxied(own), headerIf("Authorization", application),
					bob.cookie)
				seen("alice|"+application+"|", "/tokens/", proxied(own), headerIf("Authorization", application))
			}
		}
		seen("service|Bearer x|", "/shared/", proxied(basicHeader("service", "s3rvice")), "Authorization: Bearer x")
		seen("alice||", "/tokens/", proxied(bearer), bearer) // the gateway's own tokens reach no application
		seen("alice||", "/tokens/", proxied(bearer), "Authorization: Token "+made)
		seen("alice|Basic YXBwOnB3|", "/shared/", in.cookie, "Authorization: Basic YXBwOnB3")
		seen("alice|Bearer x|", "/people/", in.cookie,
			"Authorization: Bearer x", proxied(bearer)) // which is not accepted there
		seen("|Bearer x|", "/open/", "Authorization: Bearer x")
		seen("alice|Bearer x|", "/open/", "Authorization: Bearer x", proxied(bearer))
		seen("||", "/public/", proxied(bearer))
	}
}

// A wrong credential in Proxy-Authorization is 401 with a challenge, two are 400, and neither
// reaches the application, whatever else is good.
func TestProxyAuthorizationRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, proxiedConfig)
	alice := r.login(aliceIn)
	made := r.client.NewToken(alice.cookie, "").Token
	bearer := "Authorization: Bearer " + made
	for _, wrong := range []string{
		bearer + "x", "Authorization: Bearer x", "Authorization: Bearer", "Authorization: ",
		basicHeader("alice", "wonderland"), basicHeader("service", "wrong"),
		basicHeader("bob", made), "Authorization: Basic !",
		"Authorization: Token " + made,
	} {
		for _, target := range []string{"/shared/", "/tokens/", "/open/"} {
			w := r.want(401, "GET", target, "", proxied(wrong), alice.cookie, "Authorization: Bearer x")
			if w.Header()["Www-Authenticate"] == nil {
				t.Errorf("%s with %q asks for nothing", target, wrong)
			}
		}
	}
	r.want(400, "GET", "/shared/", "", proxied(bearer), proxied(bearer))
	r.want(400, "GET", "/shared/", "", proxied(bearer), proxied(basicHeader("service", "s3rvice")))
	r.want(401, "GET", "/bearer/", "", proxied(bearer)) // where Authorization is the gateway's
	r.want(401, "GET", "/shared/", "", "Authorization: Basic YXBwOnB3")
	r.want(403, "POST", "/shared/", "", alice.cookie, "Authorization: Bearer x", "Sec-Fetch-Site: cross-site")
	r.want(200, "POST", "/shared/", "", proxied(bearer), "Sec-Fetch-Site: cross-site")
	w := httptest.NewRecorder()
	r.HTTPRedirect(w, request("GET", "/", "", proxied(bearer)))
	if w.Code != 403 {
		t.Errorf("a credential in cleartext: %d", w.Code)
	}
}

// A credential for the gateway alone is in one header, and a stream that it opened ends with it.
func TestApartCredentialsEnd(t *testing.T) {
	t.Parallel()
	yaml := strings.Replace(proxiedConfig, "upstreams:", "token: {header: X-Authgate-Token}\nupstreams:", 1)
	for _, protocol := range protocols {
		for _, name := range []string{"Proxy-Authorization: Bearer ", "X-Authgate-Token: "} {
			streamsWith(t, yaml, func(s *streaming) {
				in := s.login(aliceIn)
				token := s.client.NewToken(in.cookie, "")
				s.want(400, "GET", "/tokens/", "", "Proxy-Authorization: Bearer "+token.Token,
					"X-Authgate-Token: "+token.Token)
				body := s.open(protocol, "/tokens/", name+token.Token)
				time.Sleep(time.Minute)
				s.alive(1)
				since := time.Now()
				s.want(200, "POST", "/account/tokens/revoke", `{"id":"`+token.ID+`"}`, ownrig.JSON, in.cookie)
				s.ends(body, since)
			})
		}
	}
}
