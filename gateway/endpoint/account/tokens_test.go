package account_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// Only a session can make and revoke tokens, and a token cannot end a session.
func TestWhoMakesAPITokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	made := r.NewToken(alice.Cookie, "")
	bearer, basic := "Authorization: Bearer "+made.Token, rig.Basic("alice", made.Token)
	const order = `{"name":"ci","expires_in":3600}`
	revoke := `{"id":"` + made.ID + `"}`
	for target, body := range map[string]string{"/account/tokens": order, "/account/tokens/revoke": revoke} {
		for line, want := range map[string]int{
			bearer: 403, alice.Bearer: 403, basic: 401, rig.Basic("alice", "wonderland"): 401, "": 401,
			"Authorization: Bearer agt_x": 401, "Cookie: session_id=x": 401,
		} {
			r.Want(want, "POST", target, body, rig.JSON, line)
		}
		r.Want(403, "POST", target, body, rig.JSON, alice.Cookie, bearer)
		r.Want(403, "POST", target, body, rig.JSON, alice.Cookie, "Sec-Fetch-Site: cross-site")
		r.Want(415, "POST", target, body, "Content-Type: text/plain", alice.Cookie)
		r.Want(400, "POST", target, body, rig.Form, alice.Cookie)
		r.Want(400, "POST", target, "[]", rig.JSON, alice.Cookie)
	}
	r.Want(403, "POST", "/logout", "", bearer)
	r.Want(403, "POST", "/logout", "", bearer, alice.Cookie)
	r.Want(401, "POST", "/refresh", rig.RefreshBody(made.Token), rig.JSON)
	r.Want(401, "POST", "/login", `{"username":"alice","password":"`+made.Token+`"}`, rig.JSON)
	r.Want(401, "POST", "/login", "", basic)
	r.Good(alice, true)
	r.Want(404, "POST", "/account/tokens/revoke", revoke, rig.JSON, bob.Cookie)
	r.Want(200, "GET", "/bearer/", "", bearer)
	r.Want(200, "POST", "/account/tokens/revoke", revoke, rig.JSON, alice.Cookie)
	r.Want(401, "GET", "/bearer/", "", bearer)
	r.Want(401, "GET", "/bearer/", "", basic)
	r.Want(404, "POST", "/account/tokens/revoke", revoke, rig.JSON, alice.Cookie)
	if log := r.Log.String(); strings.Contains(log, made.Token) || !strings.Contains(log, "token_created") ||
		!strings.Contains(log, "token_revoked") {
		t.Error("the log has the token, or lacks an audit event")
	}
}

// Users of a provider have no API tokens: their roles are known only while they are
// signed in.
func TestDelegatedUsersHaveNoAPITokens(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, "")
	back := r.Leave("")
	cookie := rig.JarOf(r.Want(302, "GET", back.Target, "", back.Cookie)).Line()
	w := r.Want(403, "POST", "/account/tokens", `{"name":"ci","expires_in":3600}`, rig.JSON, cookie)
	if detail := rig.DetailOf(t, w); !strings.Contains(detail, "local account") {
		t.Errorf("the answer is %q", detail)
	}
	r.Want(403, "POST", "/account/tokens/revoke", `{"id":"x"}`, rig.JSON, cookie)
	if got := strings.TrimSpace(r.Want(200, "GET", "/account/tokens", "", cookie).Body.String()); got != `{"tokens":[]}` {
		t.Errorf("the list is %s", got)
	}
}

// An order says how long the token lives, and asks for no role that the owner does
// not have.
func TestOrderOfAPIToken(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	bob := r.Login(rig.Bob)
	for _, order := range []string{
		`{}`, `{"name":"x"}`, `{"expires_in":60}`, `{"name":"x","expires_in":0}`, `{"name":"x","expires_in":-1}`,
		`{"name":"x","expires_in":null}`,
		`{"name":"x","expires_in":"60"}`, `{"name":"x","expires_in":1.5}`, `{"name":"x","expires_in":31536001}`,
		`{"name":"x","expires_in":1e300}`,
		`{"name":"","expires_in":60}`, `{"name":" ","expires_in":60}`, `{"name":7,"expires_in":60}`,
		`{"name":"a\nb","expires_in":60}`,
		`{"name":"` + strings.Repeat("x", 101) + `","expires_in":60}`,
		`{"name":"x","expires_in":60,"roles":["admin"]}`, `{"name":"x","expires_in":60,"roles":["user","admin"]}`,
		`{"name":"x","expires_in":60,"roles":"user"}`,
		`{"name":"x","expires_in":60,"roles":null}`, `{"name":"x","expires_in":60,"roles":[null]}`,
		`{"name":"x","expires_in":60,"role":[]}`,
		`{"name":"x","name":"y","expires_in":60}`,
	} {
		r.Want(400, "POST", "/account/tokens", order, rig.JSON, bob.Cookie)
	}
	for order, roles := range map[string]string{
		`{"name":"x","expires_in":31536000}`: "[user]", `{"name":"x","expires_in":1,"roles":[]}`: "[]",
		`{"name":"x","expires_in":60,"roles":["user","user"]}`: "[user]",
	} {
		w := r.Want(201, "POST", "/account/tokens", order, rig.JSON, bob.Cookie)
		if made := rig.ReadToken(t, w); fmt.Sprint(made.Roles) != roles || !strings.HasPrefix(made.Token, "agt_") ||
			made.ID == "" || made.Name != "x" {
			t.Errorf("%s gives %+v", order, made)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Error("the answer can be cached")
		}
	}
}

// The list shows when a token was last used, and never the token.
func TestListOfAPITokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	made := r.NewToken(alice.Cookie, "")
	r.NewToken(bob.Cookie, "")
	want := fmt.Sprintf(`{"tokens":[{"id":%q,"name":"ci","roles":["user","admin"],`+
		`"created_at":%q,"last_used_at":"","expires_at":%q}]}`, made.ID, made.CreatedAt, made.ExpiresAt)
	for _, line := range []string{alice.Cookie, alice.Bearer} {
		if got := strings.TrimSpace(r.Want(200, "GET", "/account/tokens", "", line).Body.String()); got != want {
			t.Errorf("the list is %s, want %s", got, want)
		}
	}
	if created, err := time.Parse(time.RFC3339, made.CreatedAt); err != nil || !strings.HasSuffix(made.CreatedAt, "Z") {
		t.Errorf("created at %v, %v", created, err)
	}
	r.Want(401, "GET", "/account/tokens", "")
	r.Want(401, "GET", "/account/tokens", "", rig.Basic("alice", made.Token))
}

// With session.csrf_token, a client that does not tell its site needs the token of
// its login.
func TestAPITokensNeedCSRFToken(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.WithToken)
	alice := r.Login(rig.Alice)
	const order = `{"name":"ci","expires_in":3600}`
	token := "X-CSRF-Token: " + r.CSRFToken(alice.Cookie)
	r.Want(403, "POST", "/account/tokens", order, rig.JSON, alice.Cookie)
	made := rig.ReadToken(t, r.Want(201, "POST", "/account/tokens", order, rig.JSON, alice.Cookie, token))
	revoke := `{"id":"` + made.ID + `"}`
	r.Want(403, "POST", "/account/tokens/revoke", revoke, rig.JSON, alice.Cookie)
	bearer, basic := "Authorization: Bearer "+made.Token, rig.Basic("alice", made.Token)
	r.Want(200, "POST", "/bearer/", "", bearer) // no browser sends it by itself
	r.Want(200, "POST", "/bearer/", "", basic)
	r.Want(200, "POST", "/account/tokens/revoke", revoke, rig.JSON, alice.Cookie, token)
}

// delegatedTokens returns a rig whose provider's users may have API tokens for two hours
// after the last sign-in or renewal, and its configuration. A renewal says roles.
func delegatedTokens(t *testing.T, roles *[]string) (r *rig.Rig, yaml string) {
	t.Helper()
	p := rig.NewProvider(t)
	const more = "delegated: {lifetime: 1h, api_tokens: 2h}\n"
	r = p.Rig(rig.Base, more)
	p.Renewed = func(w http.ResponseWriter, _ *http.Request) {
		p.Reply(w, p.Tokens(p.Key, map[string]any{"roles": *roles}))
	}
	return r, p.Config(rig.Base, more)
}

// A user of a provider has API tokens if the configuration says so. They have the roles
// that the provider said last, and work until so long after that.
func TestAPITokensOfProviderUsers(t *testing.T) {
	t.Parallel()
	roles := []string{"user"}
	r, _ := delegatedTokens(t, &roles)
	session := r.Carol()
	made := r.NewToken(session, `,"roles":["user"]`)
	all := rig.ReadToken(t, r.Want(201, "POST", "/account/tokens", `{"name":"long","expires_in":86400}`, rig.JSON,
		session))
	bearer := "Authorization: Bearer " + made.Token
	for _, line := range []string{bearer, rig.Basic("carol", made.Token)} {
		r.Want(200, "GET", "/bearer/", "", line)
		h := r.LastHeader()
		if h.Get("X-Auth-User") != "carol" || h.Get("X-Auth-Mechanism") != "bearer" ||
			h.Get("X-Auth-Roles") != "user" ||
			h.Get("X-Auth-Provider") != "small" || h.Get("X-Auth-Subject") != "small:1" {
			t.Errorf("the upstream sees %v", h)
		}
	}
	r.Want(401, "GET", "/bearer/", "", rig.Basic("alice", made.Token))
	r.Want(401, "GET", "/delegated/", "", bearer)
	r.Want(403, "POST", "/account/tokens", `{"name":"x","expires_in":60}`, rig.JSON, bearer)
	r.Want(400, "POST", "/account/tokens", `{"name":"x","expires_in":60,"roles":["admin"]}`, rig.JSON, session)
	list := r.Want(200, "GET", "/account/tokens", "", session).Body.String()
	if !strings.Contains(list, made.ID) || !strings.Contains(list, all.ID) {
		t.Errorf("the list is %s", list)
	}
	page := r.Want(200, "GET", "/account?part=programs", "", session, "Accept: text/html").Body.String()
	if !strings.Contains(page, made.ID) || !strings.Contains(page, `action="/account/tokens"`) {
		t.Errorf("the page shows no tokens: %s", page)
	}
	list = r.Want(200, "GET", "/account/tokens", "", r.Login(rig.Alice).Cookie).Body.String()
	if strings.Contains(list, made.ID) {
		t.Errorf("another user's list is %s", list)
	}

	r.Want(200, "POST", "/account/tokens/revoke", `{"id":"`+made.ID+`"}`, rig.JSON, session)
	r.Want(401, "GET", "/bearer/", "", bearer)

	bearer = "Authorization: Bearer " + all.Token
	r.Clock.Advance(50 * time.Minute)
	roles = []string{"other"} // the renewal takes the role from the token
	r.Want(200, "GET", "/delegated/", "", session)
	if got := r.LastHeader().Get("X-Auth-Roles"); got != "other" {
		t.Fatalf("after the renewal the user has the roles %q", got)
	}
	r.Want(200, "GET", "/bearer/", "", bearer)
	if got := r.LastHeader().Get("X-Auth-Roles"); got != "" {
		t.Errorf("the token has the roles %q, which the user did not have when it was made", got)
	}
	r.Want(200, "POST", "/logout", "", session) // tokens outlive the login
	r.Clock.Advance(2*time.Hour - time.Second)
	r.Want(200, "GET", "/bearer/", "", bearer)
	r.Clock.Advance(time.Second)
	r.Want(401, "GET", "/bearer/", "", bearer) // two hours after the renewal
	r.Carol()
	r.Want(200, "GET", "/bearer/", "", bearer) // and again after a sign-in
}

// Signing out everywhere ends these tokens. Without the key they open nothing, and
// neither do they if the provider's name belongs to another issuer.
func TestAPITokensOfProviderUsersEnd(t *testing.T) {
	t.Parallel()
	roles := []string{"user"}
	r, yaml := delegatedTokens(t, &roles)
	session := r.Carol()
	bearer := "Authorization: Bearer " + r.NewToken(session, "").Token
	r.Want(200, "GET", "/bearer/", "", bearer)
	end := r.Want(200, "POST", "/account/sessions/end", `{"others":true,"tokens":true}`, rig.JSON, session)
	if !strings.Contains(end.Body.String(), `"tokens":1`) {
		t.Errorf("signing out everywhere answers %s", end.Body)
	}
	r.Want(401, "GET", "/bearer/", "", bearer)

	bearer = "Authorization: Bearer " + r.NewToken(session, "").Token
	r.Reload(rig.Edit(t, yaml, "api_tokens: 2h", "api_tokens: 0s"))
	r.Want(401, "GET", "/bearer/", "", bearer)
	r.Want(403, "POST", "/account/tokens", `{"name":"x","expires_in":60}`, rig.JSON, session)
	r.Reload(yaml)
	r.Want(200, "GET", "/bearer/", "", bearer)
	r.Reload(rig.Edit(t, yaml, `issuer: "http://127.0.0.1`, `issuer: "http://localhost`))
	r.Want(401, "GET", "/bearer/", "", bearer)
}
