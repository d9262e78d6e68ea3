package account_test

import (
	"fmt"
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
