package signin_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// Failures on routes and at /login count together, under the limits of the configuration.
// Existing sessions go on.
func TestLoginThrottled(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"limits: {login_failures: 4, login_window: 1m}\n")
	s := r.Login(rig.Alice)
	for range 2 {
		r.Want(401, "POST", "/login", `{"username":"alice","password":"x"}`, rig.JSON)
		r.Want(401, "GET", "/basic/", "", rig.Basic("ALICE ", "x"))
	}
	for _, w := range []*httptest.ResponseRecorder{
		r.Want(429, "POST", "/login", rig.Alice, rig.JSON),
		r.Want(429, "POST", "/login", rig.Bob, rig.JSON), // from the same address
		r.Want(429, "GET", "/basic/", "", rig.Basic("service", "s3rvice")),
		r.Want(429, "POST", "/login", rig.AliceForm, rig.Form, rig.Browser),
	} {
		if w.Header().Get("Retry-After") != "60" || w.Header()["Set-Cookie"] != nil {
			t.Errorf("a throttled login: %v", w.Header())
		}
	}
	r.Good(s, true)
	if got := r.Sample("authgate_logins_total", "result=throttled"); got != 3 { // at /login
		t.Errorf("%v throttled logins were counted", got)
	}
	r.Clock.Advance(time.Minute)
	r.Want(200, "POST", "/login", rig.Alice, rig.JSON)
}

// Spellings of a name and a password.
const (
	composed, decomposed = "Jos\u00e9", "Jose\u0301"
	// spaces are what people paste around a name.
	spaces = " \t\n\u00a0\u2003\u3000"
)

// josesConfig has an account and a Basic user of one name, which the configuration writes
// decomposed. Their password is wonderland.
func josesConfig(t *testing.T) string {
	yaml := rig.Edit(t, rig.Base, "username: alice", `username: "`+decomposed+`"`)
	const service = `{username: service, password_hash: "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"}`
	yaml = rig.Edit(t, yaml, service, `{username: "`+decomposed+`", password_hash: "`+rig.AliceHash+`"}`)
	return rig.Edit(t, yaml, "admin: {roles: [admin]}", `admin: {users: ["`+composed+`", "basic:`+composed+`"]}`)
}

// A user name is found in any normalization and with space around it, at /login and in
// Basic. The application gets it as the configuration writes it.
func TestUserNamesAreFoundInAnySpelling(t *testing.T) {
	t.Parallel()
	r := rig.New(t, strings.Replace(josesConfig(t), "auth: [session, bearer], policy",
		"auth: [session, basic], policy", 1))
	wantUser := func(name string) {
		t.Helper()
		if got := r.LastHeader().Get("X-Auth-User"); got != decomposed {
			t.Errorf("%q is %q for the application, want %q", name, got, decomposed)
		}
	}
	for _, name := range []string{composed, decomposed, spaces + composed, composed + spaces, "\u0085" + composed} {
		body, err := json.Marshal(map[string]string{"username": name, "password": "wonderland"})
		if err != nil {
			t.Fatal(err)
		}
		r.Want(200, "GET", "/admin/", "", r.Login(string(body)).Cookie)
		wantUser(name)
		r.Want(200, "POST", "/login", url.Values{"username": {name}, "password": {"wonderland"}}.Encode(), rig.Form)
		status := 200
		if strings.ContainsAny(name, "\t\n\u0085") { // a control character stays wrong in Basic
			status = 401
		}
		r.Want(status, "POST", "/login", "", rig.Basic(name, "wonderland"))
		r.Want(status, "GET", "/admin/", "", rig.Basic(name, "wonderland"))
	}
	r.Want(200, "GET", "/admin/", "", rig.Basic("\u00a0"+decomposed+"\u2003", "wonderland"))
	wantUser("with the space that Basic takes")
	r.Want(401, "POST", "/login", `{"username":"Jos e","password":"wonderland"}`, rig.JSON)
}

// Failures of one name in several spellings count together.
func TestSpellingsShareACountOfFailures(t *testing.T) {
	t.Parallel()
	r := rig.New(t, josesConfig(t)+"limits: {login_failures: 4}\n")
	for _, name := range []string{
		" " + composed, decomposed, strings.ToUpper(composed), "\u00a0" + strings.ToLower(decomposed),
	} {
		r.Want(401, "POST", "/login", url.Values{"username": {name}, "password": {"wrong"}}.Encode(), rig.Form)
	}
	r.Want(429, "POST", "/login", url.Values{"username": {composed}, "password": {"wonderland"}}.Encode(), rig.Form)
}

// The right password with a space after the name is no failure.
func TestASpaceAfterTheNameIsNoFailure(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"limits: {login_failures: 3}\n")
	for range 4 {
		w := r.Want(303, "POST", "/login", "username=alice+&password=wonderland", rig.Form, rig.Browser)
		if rig.JarOf(w)["session_id"] == "" {
			t.Errorf("no session: %v", w.Header())
		}
	}
	page := r.Want(401, "POST", "/login", "username=+alice%09&password=wrong", rig.Form, rig.Browser)
	if !strings.Contains(page.Body.String(), `value="alice"`) {
		t.Errorf("the page does not keep the name:\n%s", page.Body)
	}
	if !strings.Contains(r.Log.String(), `"result":"failure","subject":"local:alice"`) {
		t.Errorf("the log does not name the account:\n%s", r.Log)
	}
}
