package chain_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// A token in token.header counts as in Authorization, which then is the application's.
func TestTokenHeader(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.TokenHeaderConfig)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	made := r.NewToken(alice.Cookie, "").Token
	for _, token := range []string{made, alice.Access} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/open/", "/admin/", "/kept/"} {
			for _, application := range []string{"", "Bearer of-the-application", "Token x", "Basic YXBwOnB3"} {
				if target == "/any/" && strings.HasPrefix(application, "Basic") {
					continue // which is the gateway's there
				}
				r.Want(200, "POST", target, "", "x-authgate-token: "+token, rig.HeaderIf("Authorization", application),
					bob.Cookie)
				wantUser(r, "alice")
			}
		}
		r.Want(200, "GET", "/me", "", "X-Authgate-Token: "+token)
		r.Want(401, "GET", "/session/", "", "X-Authgate-Token: "+token)
		r.Want(200, "GET", "/session/", "", "X-Authgate-Token: "+token, bob.Cookie)
		wantUser(r, "bob")
		r.Want(200, "GET", "/public/", "", "X-Authgate-Token: "+token, "X_Authgate_Token: "+token,
			"X.Authgate.Token: "+token)
		wantUser(r, "")
	}
	r.Want(200, "GET", "/basic/", "", "X-Authgate-Token: "+made, rig.Basic("service", "s3rvice"))
	r.Want(200, "GET", "/open/", "", "X_Authgate_Token: "+made) // another spelling holds no credential
	wantUser(r, "")
	r.Want(200, "GET", "/open/", "", "X-Authgate-Token:")
	r.Want(200, "POST", "/logout", "", "X-Authgate-Token: "+bob.Access)
	r.Want(401, "GET", "/session/", "", bob.Cookie)
}

// wantUser fails the test unless the newest request was one of that user, "" for none.
func wantUser(r *rig.Rig, user string) {
	r.T.Helper()
	if got := r.LastUser(); got != user {
		r.T.Errorf("the user is %q, want %q", got, user)
	}
}

// A wrong token is 401, whatever else is good. Two credentials for the gateway are 400.
func TestTokenHeaderRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.TokenHeaderConfig)
	alice := r.Login(rig.Alice)
	made := r.NewToken(alice.Cookie, "").Token
	for _, wrong := range []string{made + "x", alice.Access + "x", "x", "Bearer " + made, "agt_", alice.Refresh} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/open/"} {
			w := r.Want(401, "GET", target, "", "X-Authgate-Token: "+wrong, alice.Cookie, rig.Browser)
			const challenge = `Bearer realm="authgate", error="invalid_token"`
			if got := w.Header()["Www-Authenticate"]; !slices.Contains(got, challenge) {
				t.Errorf("%s asks for %q", target, got)
			}
		}
		r.Want(401, "GET", "/me", "", "X-Authgate-Token: "+wrong, alice.Cookie)
	}
	good := "X-Authgate-Token: " + made
	for _, own := range []string{
		"Authorization: Bearer " + made, alice.Bearer, "Authorization: Bearer agt_x",
		rig.Basic("alice", made), "Authorization: Token " + made,
	} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/open/", "/me"} {
			r.Want(400, "GET", target, "", good, own)
		}
	}
	r.Want(400, "GET", "/any/", "", good, rig.Basic("service", "s3rvice"))
	r.Want(400, "POST", "/login", "", good, rig.Basic("alice", "wonderland"))
	r.Want(400, "GET", "/bearer/", "", good, good)
	r.Want(200, "GET", "/me", "", good, "Authorization: Bearer of-the-application")
}

// proxied returns a header line as Proxy-Authorization.
func proxied(line string) string { return "Proxy-" + line }

// A wrong credential in Proxy-Authorization is 401 with a challenge, two are 400, and neither
// reaches the application, whatever else is good.
func TestProxyAuthorizationRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.ProxiedConfig)
	alice := r.Login(rig.Alice)
	made := r.NewToken(alice.Cookie, "").Token
	bearer := "Authorization: Bearer " + made
	for _, wrong := range []string{
		bearer + "x", "Authorization: Bearer x", "Authorization: Bearer", "Authorization: ",
		rig.Basic("alice", "wonderland"), rig.Basic("service", "wrong"),
		rig.Basic("bob", made), "Authorization: Basic !",
		"Authorization: Token " + made,
	} {
		for _, target := range []string{"/shared/", "/tokens/", "/open/"} {
			w := r.Want(401, "GET", target, "", proxied(wrong), alice.Cookie, "Authorization: Bearer x")
			if w.Header()["Www-Authenticate"] == nil {
				t.Errorf("%s with %q asks for nothing", target, wrong)
			}
		}
	}
	r.Want(400, "GET", "/shared/", "", proxied(bearer), proxied(bearer))
	r.Want(400, "GET", "/shared/", "", proxied(bearer), proxied(rig.Basic("service", "s3rvice")))
	r.Want(401, "GET", "/bearer/", "", proxied(bearer)) // where Authorization is the gateway's
	r.Want(401, "GET", "/shared/", "", "Authorization: Basic YXBwOnB3")
	r.Want(403, "POST", "/shared/", "", alice.Cookie, "Authorization: Bearer x", "Sec-Fetch-Site: cross-site")
	r.Want(200, "POST", "/shared/", "", proxied(bearer), "Sec-Fetch-Site: cross-site")
}

// On a route whose application has bearer tokens of its own, these go on beside a good
// session, and only there.
func TestApplicationTokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+`
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
  - {match: /shared-admin/, name: shared-admin, upstream: app, auth: [session, bearer], `+
		`authorization: application, policy: admin}
`)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	jwt := func(header, claims string) string {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(header)) + "." + encode([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	foreign := []string{
		"opaque", "ghp_1234", "a.b.c", jwt(`{"alg":"HS256"}`, `{"iss":"https://app.example","sub":"alice"}`),
		jwt(`{"alg":"none"}`, `{"sub":"alice"}`), jwt(`[]`, `x`), strings.Repeat("x", 20_000),
	}
	for _, token := range foreign {
		line := "Authorization: Bearer " + token
		r.Want(200, "GET", "/shared/", "", alice.Cookie, line)
		if h := r.LastHeader(); h.Get("X-Auth-Mechanism") != "session" || h.Get("X-Auth-User") != "alice" {
			t.Errorf("%.80s: the request is one of %v", token, h)
		}
		r.Want(401, "GET", "/shared/", "", line)
		r.Want(401, "GET", "/shared/", "", line, "Cookie: session_id=x")
		r.Want(401, "GET", "/any/", "", line, alice.Cookie) // the default
		r.Want(403, "GET", "/shared-admin/", "", line, bob.Cookie)
		r.Want(403, "POST", "/shared/", "", line, alice.Cookie, "Sec-Fetch-Site: cross-site")
	}
	r.Want(200, "GET", "/shared/", "", bob.Cookie, alice.Bearer) // one of the gateway's counts first
	wantUser(r, "alice")
	parts := strings.Split(alice.Access, ".")
	own := []string{
		alice.Access[:len(alice.Access)-4] + "AAAA", alice.Refresh, "",
		parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://app.example"}`)) + "." + parts[2],
		jwt(`{"alg":"none"}`, `{"iss":"https://gw.example","sub":"alice"}`),
	}
	for _, token := range own {
		r.Want(401, "GET", "/shared/", "", alice.Cookie, "Authorization: Bearer "+token)
	}
	r.Clock.Advance(16 * time.Minute)
	r.Want(401, "GET", "/shared/", "", alice.Cookie, alice.Bearer) // expired
	r.Want(200, "GET", "/shared/", "", alice.Cookie)
}

// An API token opens routes that accept bearer tokens, in both headers, with the
// mechanism bearer.
func TestAPITokenOnRoutes(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.APITokenConfig)
	alice := r.Login(rig.Alice)
	made := r.NewToken(alice.Cookie, `,"roles":["user"]`)
	bearer, basic := "Authorization: Bearer "+made.Token, rig.Basic("alice", made.Token)
	r.Want(200, "POST", "/logout", "", alice.Cookie) // tokens outlive the login
	for _, line := range []string{bearer, basic, rig.Basic("", made.Token), rig.Basic("__token__", made.Token)} {
		for _, target := range []string{"/bearer/", "/any/", "/git/", "/wiki/", "/shared/"} {
			r.Want(200, "POST", target, "", line)
			h := r.LastHeader()
			if h.Get("X-Auth-User") != "alice" || h.Get("X-Auth-Mechanism") != "bearer" ||
				h.Get("X-Auth-Roles") != "user" ||
				h.Get("X-Auth-Provider") != "local" {
				t.Errorf("%s: the upstream sees %v", target, h)
			}
		}
		r.Want(401, "GET", "/session/", "", line)
		r.Want(401, "GET", "/basic/", "", line)
		r.Want(403, "GET", "/admin/", "", line) // the token has not the role
	}
	bob := r.Login(rig.Bob)
	for _, wrong := range []string{
		rig.Basic("bob", made.Token), rig.Basic("__TOKEN__", made.Token), rig.Basic("", made.Token+"A"),
		rig.Basic("alice", made.Token+"A"), strings.TrimSuffix(basic, "=") + "!",
		bearer + "A", "Authorization: Bearer agt_", rig.Basic("alice", "agt_"),
	} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/wiki/"} {
			r.Want(401, "GET", target, "", wrong, bob.Cookie) // and no other credential counts
		}
	}
	r.Clock.Advance(time.Hour)
	r.Want(401, "GET", "/bearer/", "", bearer)
	r.Want(401, "GET", "/bearer/", "", basic)
}

// Basic credentials of the application go on as before.
func TestBasicBesideAPITokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.APITokenConfig)
	alice, foreign := r.Login(rig.Alice), rig.Basic("alice", "the application's")
	r.Want(200, "GET", "/wiki/", "", alice.Cookie, foreign)
	wantUser(r, "alice")
	r.Want(403, "POST", "/wiki/", "", alice.Cookie, foreign, "Sec-Fetch-Site: cross-site")
	r.Want(200, "GET", "/any/", "", rig.Basic("service", "s3rvice"))
}

// basic_challenge asks for Basic alone, because Docker takes a Bearer challenge for that of a token server; and
// not in the middle of a page.
func TestBasicChallengeForAPITokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.APITokenConfig)
	const basic, bearer = `Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`
	const script = "Sec-Fetch-Mode: cors"
	for _, c := range []struct {
		target, header string
		want           []string
	}{
		{"/git/", "", []string{basic}}, {"/wiki/", "", []string{basic}},
		{"/git/", script, nil}, {"/wiki/", script, nil},
		{"/bearer/", "", []string{bearer}}, {"/shared/", "", []string{bearer}}, {"/any/", "", []string{basic, bearer}},
		{"/both/", "", []string{basic}},
		{"/git/", rig.Basic("alice", "agt_x"), []string{basic}}, {"/git/", "Authorization: Bearer agt_x",
			[]string{basic}},
	} {
		w := r.Want(401, "GET", c.target, "", c.header)
		if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, c.want) {
			t.Errorf("%s with %q asks for %q, want %q", c.target, c.header, got, c.want)
		}
	}
	r.Want(302, "GET", "/wiki/", "", rig.Browser, "Sec-Fetch-Mode: navigate")
}
