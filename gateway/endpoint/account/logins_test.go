package account_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// Users see their own live logins, by session or token, and no others.
func TestAccountLogins(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	r.Login(rig.Bob)
	phone := r.Another()
	r.Clock.Advance(time.Minute)
	here := r.Login(rig.Alice)
	for line, current := range map[string]int{here.Cookie: 0, here.Bearer: 0, phone.Cookie: 0, phone.Bearer: 0} {
		all := r.Logins(line)
		if len(all) != 2 || !all[current].Current || all[1-current].Current {
			t.Fatalf("with %.20s: %+v", line, all)
		}
		for _, one := range all {
			created, err := time.Parse(time.RFC3339, one.CreatedAt)
			used, errUsed := time.Parse(time.RFC3339, one.LastUsed)
			expires, errExpires := time.Parse(time.RFC3339, one.ExpiresAt)
			if err != nil || errUsed != nil || errExpires != nil || used.Before(created) ||
				expires.Sub(created) != 7*24*time.Hour || !strings.HasSuffix(one.CreatedAt, "Z") {
				t.Errorf("times %q %q %q", one.CreatedAt, one.LastUsed, one.ExpiresAt)
			}
			agent := ""
			if one.Current == (line == phone.Cookie || line == phone.Bearer) {
				agent = "a phone/1"
			}
			if one.Mechanism != "session" || one.Provider != "local" || one.Client != "192.0.2.7" || one.UserAgent != agent ||
				len(one.ID) != 26 {
				t.Errorf("got %+v", one)
			}
		}
	}
	var body map[string]any
	w := r.Want(200, "GET", "/account", "", here.Cookie)
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body["username"] != "alice" ||
		body["mechanism"] != "session" || len(body["roles"].([]any)) != 2 || len(body["sessions"].([]any)) != 2 {
		t.Errorf("%v: %s", err, w.Body)
	}
	for _, target := range []string{"/account", "/account/sessions"} {
		for line, want := range map[string]int{"": 401, rig.Basic("alice", "wonderland"): 401, rig.Basic("service",
			"s3rvice"): 401, "Cookie: session_id=x": 401, "Authorization: Bearer x": 401, here.Bearer: 200} {
			r.Want(want, "GET", target, "", line)
		}
		r.Want(405, "POST", target, "", here.Cookie)
	}
	r.Clock.Advance(7 * 24 * time.Hour)
	if all := r.Logins(r.Login(rig.Alice).Cookie); len(all) != 1 {
		t.Errorf("expired logins are listed: %+v", all)
	}
}

// A page load of the account without a login goes to the sign-in page, and returns.
func TestAccountPageNeedsSignIn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.Base, "store:", "endpoints: {prefix: /auth/}\nstore:"))
	for _, cookie := range []string{"", "Cookie: session_id=" + strings.Repeat("A", 43), rig.Basic("service", "s3rvice")} {
		w := r.Want(302, "GET", "/auth/account", "", rig.Browser, cookie)
		if to := strings.TrimSuffix(w.Header().Get("Location"),
			"&reason=ended"); to != "/auth/signin?return_to=%2Fauth%2Faccount" {
			t.Errorf("with %q: to %q", cookie, to)
		}
		if cleared := strings.Contains(w.Header().Get("Set-Cookie"), "session_id=;"); cleared != strings.HasPrefix(cookie,
			"Cookie") {
			t.Errorf("with %q: Set-Cookie %q", cookie, w.Header()["Set-Cookie"])
		}
	}
	r.Want(401, "GET", "/auth/account", "", rig.Browser, "Authorization: Bearer x")
	in := rig.JarOf(r.Want(200, "POST", "/auth/login", rig.Alice, rig.JSON)).Line("session_id")
	if w := r.Want(200, "GET", "/auth/account", "", rig.Browser, in); !strings.Contains(w.Body.String(), "alice") {
		t.Errorf("the page is %s", w.Body)
	}
}

// A user ends one of their logins, or all others; each of them by all that opened it.
func TestEndLogins(t *testing.T) {
	t.Parallel()
	for _, media := range []string{rig.JSON, rig.Form} {
		body := func(name, value string) string {
			if media == rig.Form {
				return url.Values{name: {value}}.Encode()
			}
			if name == "others" {
				return `{"others":true}`
			}
			return `{"` + name + `":"` + value + `"}`
		}
		wantDone := func(w *httptest.ResponseRecorder) {
			t.Helper()
			if form := media == rig.Form; (w.Code == 303) != form || form &&
				!strings.HasPrefix(w.Header().Get("Location"), "/account?done=login") || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%d, %v", w.Code, w.Header())
			}
		}
		done := map[string]int{rig.JSON: 200, rig.Form: 303}[media]
		r := rig.New(t, rig.Base)
		here, phone, tablet := r.Login(rig.Alice), r.Another(), r.Login(rig.Alice)
		laptop, bob := r.Login(rig.Alice), r.Login(rig.Bob)
		idOf := func(in rig.SignedIn) string { return r.Logins(in.Cookie)[0].ID }
		wantDone(r.Want(done, "POST", "/account/sessions/end", body("id", idOf(phone)), media, here.Cookie))
		r.Good(phone, false)
		r.WantSession(200, here, tablet, laptop, bob)
		for _, id := range []string{idOf(bob), "x", strings.Repeat("A", 26)} {
			r.Want(404, "POST", "/account/sessions/end", body("id", id), media, here.Cookie)
		}
		wantDone(r.Want(done, "POST", "/account/sessions/end", body("others", "true"), media, here.Cookie))
		r.Good(tablet, false)
		r.Good(laptop, false)
		r.Good(bob, true)
		r.WantSession(200, here)
		if ended := r.Log.Records(t, "audit"); strings.Count(r.Log.String(), `"event":"logout"`) != 3 {
			t.Errorf("the audit log has %v", ended)
		}
		// One's own is a logout.
		w := r.Want(done, "POST", "/account/sessions/end", body("id", idOf(here)), media, here.Cookie)
		if !strings.Contains(strings.Join(w.Header()["Set-Cookie"], "\n"), "session_id=;") {
			t.Errorf("the cookie stays: %v", w.Header())
		}
		r.Good(here, false)
	}
}

// Who may not end logins, and with what.
func TestEndLoginsRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.WithToken)
	here, phone := r.Login(rig.Alice), r.Another()
	token := "X-CSRF-Token: " + r.CSRFToken(here.Cookie)
	made := rig.ReadToken(t, r.Want(201, "POST", "/account/tokens", `{"name":"ci","expires_in":3600}`, rig.JSON,
		here.Cookie, token))
	one := `{"id":"` + r.Logins(phone.Cookie)[0].ID + `"}`
	const end, others = "/account/sessions/end", `{"others":true}`
	for _, order := range []string{one, others} {
		for line, want := range map[string]int{
			"": 401, here.Bearer: 403, phone.Bearer: 403, "Authorization: Bearer " + made.Token: 403,
			"Authorization: Bearer x":        401,
			rig.Basic("alice", "wonderland"): 401, rig.Basic("alice", made.Token): 401, "Cookie: session_id=x": 401,
		} {
			r.Want(want, "POST", end, order, rig.JSON, line, token)
		}
		r.Want(403, "POST", end, order, rig.JSON, here.Cookie, token, here.Bearer)
		r.Want(403, "POST", end, order, rig.JSON, here.Cookie) // no anti-CSRF token
		r.Want(403, "POST", end, order, rig.JSON, here.Cookie, token, "Sec-Fetch-Site: cross-site")
		r.Want(415, "POST", end, order, "Content-Type: text/plain", here.Cookie, token)
		r.Want(405, "GET", end, "", here.Cookie)
	}
	for _, body := range []string{
		`{}`, `[]`, ``, `{"others":false}`, `{"others":null}`, `{"others":"true"}`, `{"others":1}`, `{"id":1}`,
		`{"id":null}`, `{"id":""}`,
		`{"id":"x","others":true}`, `{"others":true,"others":true}`, `{"all":true}`,
	} {
		r.Want(400, "POST", end, body, rig.JSON, here.Cookie, token)
	}
	for _, body := range []string{"", "id=", "others=false", "others=", "others=true&others=true", "id=a&id=b",
		"id=a&others=true", "a=%zz", "id=a;b"} {
		r.Want(400, "POST", end, body, rig.Form, here.Cookie, token)
	}
	r.WantSession(200, here, phone)
	form := "others=true&csrf_token=" + strings.TrimPrefix(token, "X-CSRF-Token: ")
	r.Want(303, "POST", end, form, rig.Form, here.Cookie)
	r.WantSession(401, phone)
}

// After a failure of the store, nothing is said to have ended.
func TestEndLoginsWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	here, phone := r.Login(rig.Alice), r.Another()
	one := `{"id":"` + r.Logins(phone.Cookie)[0].ID + `"}`
	for _, order := range []string{one, `{"others":true}`} {
		r.Store.BreakIf(func(operation string, _ int64, key string) bool {
			return operation == "swap" && strings.HasPrefix(key, "login:")
		})
		r.Want(503, "POST", "/account/sessions/end", order, rig.JSON, here.Cookie)
		r.Store.Heal()
		r.WantSession(200, phone)
	}
	r.Store.BreakIf(func(_ string, _ int64, key string) bool { return strings.HasPrefix(key, "group:") })
	r.Want(503, "GET", "/account/sessions", "", here.Cookie)
}

// An API token sees the logins of its owner, and none of them is its own.
func TestAccountLoginsByAPIToken(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	in := r.Login(rig.Alice)
	made := r.NewToken(in.Cookie, "")
	if all := r.Logins("Authorization: Bearer " + made.Token); len(all) != 1 || all[0].Current {
		t.Errorf("got %+v", all)
	}
}

// A user of a provider ends their logins too, and those sign out at the provider.
func TestEndDelegatedLogins(t *testing.T) {
	t.Parallel()
	r, op := rig.Delegated(t, "")
	op.Revoked = make(chan string, 2)
	in := func() string {
		back := r.Leave("")
		return rig.JarOf(r.Want(302, "GET", back.Target, "", back.Cookie, rig.Phone)).Line()
	}
	here, other, local := in(), in(), r.Another()
	all := r.Logins(here)
	if len(all) != 2 || all[0].Mechanism != "oidc" || all[0].Provider != "small" || all[1].UserAgent != "a phone/1" ||
		all[1].Client != "192.0.2.7" {
		t.Fatalf("got %+v", all)
	}
	r.Want(404, "POST", "/account/sessions/end", `{"id":"`+r.Logins(local.Cookie)[0].ID+`"}`, rig.JSON, here)
	r.Want(200, "POST", "/account/sessions/end", `{"others":true}`, rig.JSON, here)
	if n := len(op.Revoked); n != 1 {
		t.Errorf("%d logins were ended at the provider, want 1", n)
	}
	r.Want(401, "GET", "/delegated/", "", other)
	r.Want(200, "GET", "/delegated/", "", here)
	r.WantSession(200, local)
	r.Want(303, "POST", "/account/sessions/end", "id="+all[0].ID, rig.Form, here)
	if n := len(op.Revoked); n != 2 {
		t.Errorf("%d logins were ended at the provider, want 2", n)
	}
	r.Want(401, "GET", "/delegated/", "", here)
}
