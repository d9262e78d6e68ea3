package account_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// The new password counts at once, in the file and here. The login that set it goes on
// with new values; all other logins and the API tokens of the account end. Those of other
// accounts go on.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"accounts.yaml": rig.FileAccounts,
		"accounts.jsonl": "# staff\n" +
			`{"username":"alice","roles":["user","admin"],` +
			`"password_hash":"$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}` + "\n" +
			`{"username":"bob","password_hash":"$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, name, file)
			here, phone, bob := r.Login(rig.Alice), r.Another(), r.Login(rig.Bob)
			token := r.NewToken(here.Cookie, "")
			r.Clock.Advance(time.Minute)
			sid := r.Logins(here.Cookie)[0].ID
			w := r.Want(200, "POST", "/account/password", rig.ChangeTo("wonderland", "looking-glass"), rig.JSON,
				here.Cookie)
			cookie := w.Header().Get("Set-Cookie")
			if !strings.Contains(cookie, "; Max-Age=3540; HttpOnly; Secure; SameSite=Lax") {
				t.Errorf("the cookie is %q", cookie) // it ends as the old one does
			}
			r.Clock.Advance(1)
			r.Good(here, false)
			here = rig.ReadLogin(t, w)
			r.WantSession(200, here)
			r.Want(200, "POST", "/refresh", rig.RefreshBody(here.Refresh), rig.JSON)
			r.Good(phone, false)
			r.Good(bob, true)
			r.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+token.Token)
			if all := r.Logins(here.Cookie); len(all) != 1 || !all[0].Current || all[0].ID != sid {
				t.Errorf("the logins are %+v", all)
			}
			r.Want(401, "POST", "/login", rig.Alice, rig.JSON)
			r.Login(signInWith("alice", "looking-glass"))
			now := content(t, path)
			_, rest, _ := strings.Cut(now, "$argon2id$")
			hash, _, _ := strings.Cut(rest, `"`)
			if want := strings.Replace(file, "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW",
				"$argon2id$"+hash,
				1); now != want || hash == "" {
				t.Errorf("the file has\n%s\nwant\n%s", now, want)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if log := r.Log.String(); strings.Count(log, `"event":"password_changed"`) != 1 ||
				strings.Contains(log, "looking-glass") || strings.Contains(log, "wonderland") || strings.Contains(log,
				"argon2id") {
				t.Errorf("the log has\n%s", log)
			}
			// Again, by the same login, and by a form.
			r.Clock.Advance(time.Minute)
			form := "current=looking-glass&new=jabberwocky&again=jabberwocky"
			w = r.Want(303, "POST", "/account/password", form, rig.Form, here.Cookie)
			if w.Header().Get("Location") != "/account?done=password" {
				t.Errorf("to %q", w.Header().Get("Location"))
			}
			r.Clock.Advance(1)
			r.WantSession(401, here)
			byForm := rig.JarOf(w).Line("session_id")
			r.Want(200, "GET", "/session/", "", byForm)
			r.Login(signInWith("alice", "jabberwocky"))
			// After a restart everything is as before.
			again := r.Restarted()
			again.Want(200, "GET", "/session/", "", byForm)
			again.Login(signInWith("alice", "jabberwocky"))
		})
	}
}

// What is refused changes nothing.
func TestChangePasswordRefused(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here, phone := r.Login(rig.Alice), r.Another()
	good := rig.ChangeTo("wonderland", "looking-glass")
	for line, want := range map[string]int{
		"": 401, here.Bearer: 403, "Authorization: Bearer x": 401, rig.Basic("alice", "wonderland"): 401,
		"Cookie: session_id=x": 401,
	} {
		r.Want(want, "POST", "/account/password", good, rig.JSON, line)
	}
	r.Want(403, "POST", "/account/password", good, rig.JSON, here.Cookie, here.Bearer)
	r.Want(403, "POST", "/account/password", good, rig.JSON, here.Cookie, "Sec-Fetch-Site: cross-site")
	r.Want(415, "POST", "/account/password", good, "Content-Type: text/plain", here.Cookie)
	r.Want(405, "GET", "/account/password", "", here.Cookie)
	for _, body := range []string{
		"", "{}", "[]", `{"current":"wonderland"}`, `{"new":"looking-glass"}`, `{"current":1,"new":"looking-glass"}`,
		`{"current":"wonderland","new":null}`,
		rig.ChangeTo("wonderland", ""), rig.ChangeTo("wonderland", "1234567"),
		rig.ChangeTo("wonderland", "日本日本日本日"), rig.ChangeTo("wonderland", strings.Repeat("x", 1025)),
		"{\"current\":\"wonderland\",\"new\":\"\xff23456789\"}",
	} {
		r.Want(400, "POST", "/account/password", body, rig.JSON, here.Cookie)
	}
	for _, body := range []string{
		"", "current=wonderland", "new=looking-glass",
		"current=wonderland&new=looking-glass&new=looking-glass", "current=wonderland&new=%ff23456789",
		"current=wonderland&new=1234567&again=1234567",
		"current=wonderland&new=looking-glass&again=looking-glas", "current=wonderland&new=%zz",
	} {
		r.Want(400, "POST", "/account/password", body, rig.Form, here.Cookie)
	}
	for _, current := range []string{"", "Wonderland", "builder"} {
		w := r.Want(403, "POST", "/account/password", rig.ChangeTo(current, "looking-glass"), rig.JSON, here.Cookie)
		if detail := rig.DetailOf(t, w); detail != "The current password is wrong." {
			t.Errorf("%q: %s", current, detail)
		}
	}
	r.Good(here, true)
	r.Good(phone, true)
	if got := content(t, path); got != rig.FileAccounts {
		t.Errorf("the file has\n%s", got)
	}
}

// The eighth character is enough.
func TestChangePasswordLengths(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here, current := r.Login(rig.Alice), "wonderland"
	for _, next := range []string{"12345678", "日本日本日本日本", strings.Repeat("x", 1024)} {
		here = rig.ReadLogin(t, r.Want(200, "POST", "/account/password", rig.ChangeTo(current, next), rig.JSON,
			here.Cookie))
		r.Clock.Advance(1)
		r.Login(signInWith("alice", next))
		current = next
	}
}

// Wrong current passwords are throttled together with failed sign-ins.
func TestChangePasswordIsThrottled(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here := r.Login(rig.Alice)
	for range 10 { // limits.login_failures
		r.Want(403, "POST", "/account/password", rig.ChangeTo("wrong", "looking-glass"), rig.JSON, here.Cookie)
	}
	w := r.Want(429, "POST", "/account/password", rig.ChangeTo("wonderland", "looking-glass"), rig.JSON, here.Cookie)
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.Want(429, "POST", "/login", rig.Alice, rig.JSON)
	r.Good(here, true)
	r.Clock.Advance(15 * time.Minute)
	r.Want(200, "POST", "/account/password", rig.ChangeTo("wonderland", "looking-glass"), rig.JSON, here.Cookie)
}

// Without a file that can be written there is no such endpoint, for anyone. An account
// that is written elsewhere keeps its password.
func TestChangePasswordElsewhere(t *testing.T) {
	t.Parallel()
	good := rig.ChangeTo("wonderland", "looking-glass")
	r := newRig(t, rig.Base)
	r.Want(404, "POST", "/account/password", good, rig.JSON)
	r.Want(404, "POST", "/account/password", good, rig.JSON, r.Login(rig.Alice).Cookie)

	r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here := r.Login(rig.Alice)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.Want(404, "POST", "/account/password", good, rig.JSON, here.Cookie)

	own := strings.Replace(rig.FileConfig("accounts.yaml"), "{file: accounts.yaml}",
		`{file: accounts.yaml, users: [{username: carol, password_hash: "`+rig.AliceHash+`"}]}`, 1)
	if err := os.WriteFile(path, []byte(rig.FileAccounts), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Reload(own)
	carol := r.Login(signInWith("carol", "wonderland"))
	r.Want(404, "POST", "/account/password", good, rig.JSON, carol.Cookie)
	r.Good(carol, true)

}

// A hash that comes from a variable cannot be changed in the file.
func TestChangePasswordOfAVariable(t *testing.T) {
	t.Setenv("AUTHGATE_TEST_HASH", rig.AliceHash)
	file := "- {username: alice, password_hash: \"${AUTHGATE_TEST_HASH}\"}\n"
	r, path := newFileRig(t, "accounts.yaml", file)
	here, phone := r.Login(rig.Alice), r.Another()
	r.Want(404, "POST", "/account/password", rig.ChangeTo("wonderland", "looking-glass"), rig.JSON, here.Cookie)
	r.Good(here, true)
	r.Good(phone, true)
	if got := content(t, path); got != file || !strings.Contains(r.Log.String(), "write it in place") {
		t.Errorf("the file has %q, the log\n%s", got, r.Log)
	}
}

// With delivery by cookie, the answer has new cookies and no token, by JSON and by form.
func TestNewValuesByCookies(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts, "token: {delivery: cookie}\n")
	here, current := rig.JarOf(r.Want(200, "POST", "/login", rig.Alice, rig.JSON)), "wonderland"
	for i, media := range []string{rig.JSON, rig.Form} {
		next := fmt.Sprintf("looking-glass %d", i)
		body, status := rig.ChangeTo(current, next), 200
		if media == rig.Form {
			body, status = url.Values{"current": {current}, "new": {next}}.Encode(), 303
		}
		before := maps.Clone(here)
		w := r.Want(status, "POST", "/account/password", body, media, here.Line())
		here.Take(w)
		r.Clock.Advance(1)
		if strings.Contains(w.Body.String(), here["access_token"]) || len(here) != 4 {
			t.Errorf("the browser has %v, the answer %s", here, w.Body)
		}
		for name, value := range before {
			if value == here[name] {
				t.Errorf("%s is the same", name)
			}
		}
		for line, want := range map[string]int{before.Line(): 401, here.Line(): 200} {
			r.Want(want, "GET", "/session/", "", line)
			r.Want(want, "GET", "/bearer/", "", line)
			r.Want(want, "POST", "/refresh", "{}", rig.JSON, line)
		}
		here.Take(r.Want(401, "POST", "/refresh", "{}", rig.JSON, here.Line())) // used just now: no theft
		current = next
		here = rig.JarOf(r.Want(200, "POST", "/login", signInWith("alice", current), rig.JSON))
	}
}

// What a thief has of the login that changes the password opens nothing, at any host, and
// neither does a ticket that they got before. The owner comes back without a sign-in.
func TestNewPasswordAtOtherHosts(t *testing.T) {
	t.Parallel()
	const wiki, mail = "wiki.example.org", "mail.example.net"
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts, `
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}
  - {match: mail.example.net/, name: mail, upstream: app, auth: [session]}
`)
	p := r.Person()
	p.SignIn(rig.PageOf(wiki), "alice")
	p.Sees(rig.PageOf("gw.example"), "alice")
	thief := r.Person()
	for host, jar := range p.Jars {
		thief.Jars[host] = maps.Clone(jar)
	}
	thief.Sees(rig.PageOf(wiki), "alice")
	ticket := thief.TicketOf(mail)
	const change = "current=wonderland&new=looking-glass"
	w := p.Ask("POST", "https://gw.example/account/password", change, rig.Form, "Origin: https://gw.example")
	if w.Code != 303 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r.Clock.Advance(1)
	before := r.Reached()
	if w := thief.Ask("GET", ticket, ""); w.Code != 400 || thief.Jars[mail]["session_id"] != "" {
		t.Errorf("the ticket: %d, %v", w.Code, thief.Jars[mail])
	}
	for _, host := range []string{"gw.example", wiki, mail} {
		thief.IsOut(rig.PageOf(host))
	}
	if r.Reached() != before {
		t.Error("the thief reached the application")
	}
	for _, host := range []string{"gw.example", wiki, mail} {
		p.Sees(rig.PageOf(host), "alice")
	}
}

// If the store fails just then, the password is changed and the login has ended.
func TestNewPasswordWithoutNewValues(t *testing.T) {
	t.Parallel()
	for media, status := range map[string]int{rig.JSON: 200, rig.Form: 303} {
		r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
		here := r.Login(rig.Alice)
		r.Store.BreakIf(func(operation string, _ int64, key string) bool {
			return operation == "swap" && strings.HasPrefix(key, "login:")
		})
		body := rig.ChangeTo("wonderland", "looking-glass")
		if media == rig.Form {
			body = "current=wonderland&new=looking-glass"
		}
		w := r.Want(status, "POST", "/account/password", body, media, here.Cookie)
		r.Store.Heal()
		r.Clock.Advance(1)
		if cleared := w.Header().Get("Set-Cookie"); !strings.HasPrefix(cleared, "session_id=;") {
			t.Errorf("the cookie is %q", cleared)
		}
		r.Good(here, false)
		r.Login(signInWith("alice", "looking-glass"))
	}
}

// A new password gives a remembered login new values that live as long as the old ones.
func TestRememberedAfterANewPassword(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts,
		"session: {lifetime: 1h, remember: 30d}\n"+"token: {delivery: cookie, refresh_lifetime: 2h}\n")
	jar := rig.JarOf(r.Want(200, "POST", "/login", `{"username":"alice","password":"wonderland","remember":true}`,
		rig.JSON))
	r.Clock.Advance(time.Minute)
	w := r.Want(200, "POST", "/account/password", rig.ChangeTo("wonderland", "a new password"), rig.JSON,
		jar.Line("session_id"))
	const day = 24 * time.Hour
	for _, name := range []string{"session_id", "refresh_token"} {
		if got := rig.MaxAge(t, w, name); got != 30*day-time.Minute {
			t.Errorf("%s lives for %v", name, got)
		}
	}
	jar.Take(w)
	r.Clock.Advance(24 * time.Hour)
	r.Want(200, "GET", "/session/", "", jar.Line("session_id"))
	r.Want(200, "POST", "/refresh", "", jar.Line("refresh_token"))
}

// The page has the logins, the tokens and the forms for what its user may do.
func TestAccountPage(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	in, phone := r.Login(rig.Alice), r.Another()
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, in.Cookie),
		"Alice Example", "This device", "a phone", "192.0.2.7", endForm, "not "+passwordForm, "not "+tokenForm)
	for part, want := range map[string][]string{
		"password": {passwordForm, "not " + tokenForm}, "programs": {tokenForm, `value="admin"`, "not " + passwordForm},
		"factors": {`action="/account/totp"`, "not " + passwordForm},
	} {
		rig.WantPage(t, r.Want(200, "GET", "/account?part="+part, "", rig.Browser, in.Cookie), append(want,
			"not "+endForm)...)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, in.Bearer), "a phone", "not "+endForm,
		"not "+passwordForm, "not "+tokenForm)
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, "Accept-Language: de", in.Cookie),
		"Wo Sie angemeldet sind")
	for done, words := range map[string]string{
		"login": "The login has ended.", "logins": "All other logins have ended.",
		"password": "Your password is changed.",
		"token":    "The token is revoked.", "x": "not role=\"status\"",
	} {
		rig.WantPage(t, r.Want(200, "GET", "/account?done="+done, "", rig.Browser, in.Cookie), words)
	}
	id := r.Logins(phone.Cookie)[0].ID
	w := r.Post(303, "/account/sessions/end", "id="+id, in.Cookie)
	if to := w.Header().Get("Location"); to != "/account?done=login" {
		t.Errorf("to %q", to)
	}
	r.WantSession(401, phone)
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, in.Cookie), "not a phone", "not "+endForm)
	w = r.Post(303, "/account/sessions/end", "id="+r.Logins(in.Cookie)[0].ID, in.Cookie)
	if to := w.Header().Get("Location"); to != "/signin?reason=signed_out" {
		t.Errorf("to %q", to)
	}
	r.WantSession(401, in)
	if err := os.Remove(path); err != nil { // a file that can be read alone would still be writable for root
		t.Fatal(err)
	}
	r.Clock.Advance(1)
	rig.WantPage(t, r.Want(200, "GET", "/account?part=password", "", rig.Browser, r.Login(rig.Alice).Cookie),
		"not "+passwordForm, `not href="/account?part=password"`)
}

// Mistakes in the form of the password are told in the page, with their status.
func TestAccountPagePassword(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	in := r.Login(rig.Alice)
	for form, c := range map[string]struct {
		status int
		words  string
	}{
		"current=wrong&new=looking-glass&again=looking-glass":         {403, "The current password is wrong."},
		"current=wonderland&new=short&again=short":                    {400, "at least 8 characters."},
		"current=wonderland&new=looking-glass&again=x":                {400, "differ."},
		"current=wonderland&again=x&new=" + strings.Repeat("x", 1025): {400, "differ."},
		"current=wonderland&new=" + strings.Repeat("x", 1025):         {400, "too long."},
		"current=" + url.QueryEscape(`"><b>`) + "&new=looking-glass":  {403, "The current password is wrong."},
	} {
		rig.WantPage(t, r.Post(c.status, "/account/password", form, in.Cookie), c.words, `role="alert"`, passwordForm,
			"not looking-glass", "not <b>", "not wonderland")
	}
	w := r.Post(303, "/account/password", "current=wonderland&new=looking-glass&again=looking-glass", in.Cookie)
	if to := w.Header().Get("Location"); to != "/account?done=password" {
		t.Errorf("to %q", to)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account?done=password", "", rig.Browser, rig.JarOf(w).Line("session_id")),
		"Your password is changed.")
}
