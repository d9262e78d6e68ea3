package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
)

// proxied returns a header line as Proxy-Authorization.
func proxied(line string) string { return "Proxy-" + line }

// Where Authorization is the application's, the gateway's credential comes in
// Proxy-Authorization.
func TestProxyAuthorization(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		yaml := edit(t, ownrig.ProxiedConfig, `{url: "http://app.invalid"}`,
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
				seen("alice|"+application+"|", "/shared/", proxied(own), ownrig.HeaderIf("Authorization", application),
					bob.cookie)
				seen("alice|"+application+"|", "/tokens/", proxied(own), ownrig.HeaderIf("Authorization", application))
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

// A credential of the gateway reaches no application, in whatever header it comes. What an
// application has in Authorization reaches it.
func TestCredentialsStayHere(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.TokenHeaderConfig)
	alice := r.login(aliceIn)
	token := r.client.NewToken(alice.cookie, "").Token
	const header, foreign = "X-Authgate-Token: ", "Authorization: Bearer of-the-application"
	for _, c := range []struct {
		target, credential, more, authorization string
	}{
		{"/bearer/", header + token, "Authorization: Token x", "Token x"},
		{"/shared/", header + alice.access, foreign, "Bearer of-the-application"},
		{"/kept/", header + token, "", ""},
		{"/session/", header + token, alice.cookie, ""},
		{"/public/", header + token, "X_Authgate_Token: " + token, ""},
		{"/public/", "X.Authgate.Token: " + token, "", ""},
		{"/open/", "X_Authgate_Token: " + token, "", ""},
		{"/public/", "Authorization: Token " + token, "", ""},
		{"/session/", "Authorization: Token " + token, alice.cookie, ""},
		{"/any/", basicHeader("alice", token), "", ""},
		{"/any/", "Authorization: Bearer " + token, "", ""},
		{"/shared/", alice.bearer, "", ""},
		{"/shared/", alice.cookie, foreign, "Bearer of-the-application"},
		{"/shared/", alice.cookie, basicHeader("alice", "x"), strings.TrimPrefix(basicHeader("alice", "x"),
			"Authorization: ")},
	} {
		r.want(200, "GET", c.target, "", c.credential, c.more)
		h := r.upstream.Last().Header
		if got := h.Get("Authorization"); got != c.authorization {
			t.Errorf("%s: the upstream gets %q, want %q", c.target, got, c.authorization)
		}
		for name, values := range h {
			value := strings.Join(values, " ")
			if strings.Contains(strings.ToLower(name), "authgate") || name == "Proxy-Authorization" ||
				strings.Contains(value, token) || strings.Contains(value, alice.access) ||
				strings.Contains(value, strings.TrimPrefix(alice.cookie, "Cookie: ")) {
				t.Errorf("%s: a credential reaches the upstream in %s", c.target, name)
			}
		}
	}
}

// A proxy that asks may pass the header on, and gets it back empty.
func TestTokenHeaderVerify(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.TokenHeaderConfig)
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
	r := newRig(t, ownrig.TokenHeaderConfig)
	w := r.want(200, "GET", "/open/", "")
	if got := w.Header().Get("Vary"); got != "Cookie, Authorization, X-Authgate-Token" {
		t.Errorf("Vary: %q", got)
	}
	e := newExplainer(t, parseConfig(t, t.TempDir(), ownrig.TokenHeaderConfig))
	header := http.Header{"x-authgate-token": {"agt_"}}
	if _, err := e.Explain(&explain.Request{Method: "GET", URL: "/open/", Header: header}); err == nil {
		t.Error("a description has a credential")
	}
}

// A credential for the gateway alone is in one header, and a stream that it opened ends with it.
func TestApartCredentialsEnd(t *testing.T) {
	t.Parallel()
	yaml := strings.Replace(ownrig.ProxiedConfig, "upstreams:", "token: {header: X-Authgate-Token}\nupstreams:", 1)
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
