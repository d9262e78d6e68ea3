package account_test

import (
	"maps"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// factorEndpoints are the endpoints that change factors, with a body that is understood.
var factorEndpoints = map[string]string{
	"/account/passkeys/options": "{}", "/account/passkeys": `{"name":"key","credential":{}}`,
	"/account/passkeys/remove": `{"id":"AA"}`, "/account/totp": "{}", "/account/totp/confirm": `{"code":"123456"}`,
	"/account/totp/remove": "{}", "/account/recovery-codes": "{}",
}

const noFactors = `{"passkeys":[],"totp":false,"recovery_codes":0}`

type proved struct {
	AMR      []string
	AuthTime int64 `json:"auth_time"`
}

// An app counts when its first code has come. The login that adds it has used it, and goes on
// with what it has; the other logins of the account end. The last factor takes the recovery
// codes along.
func TestAddTOTP(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"accounts.yaml": rig.FileAccounts,
		"accounts.jsonl": `{"username":"alice","roles":["user"],"password_hash":"` + rig.AliceHash + `"}` + "\n" +
			`{"username":"bob","password_hash":"$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, name, file)
			here, phone, bob := r.Login(rig.Alice), r.Another(), r.Login(rig.Bob)
			token := "Authorization: Bearer " + r.NewToken(here.Cookie, "").Token
			before := read[proved](t, r.Want(200, "GET", "/me", "", here.Cookie))
			r.Clock.Advance(time.Minute)
			r.wantFactors(noFactors, here.Cookie)
			made := read[newSecret](t, r.Want(201, "POST", "/account/totp", "", here.Cookie))
			if len(made.Secret) != 32 || !strings.HasPrefix(made.URI, "otpauth://totp/gw.example:alice?") {
				t.Errorf("made %+v", made)
			}
			r.Want(403, "POST", "/account/totp/confirm", `{"code":"000000"}`, rig.JSON, here.Cookie)
			r.Want(403, "POST", "/account/totp/confirm", `{"code":""}`, rig.JSON, here.Cookie)
			r.wantFactors(noFactors, here.Cookie)
			if got := content(t, path); got != file {
				t.Errorf("before the code, the file has\n%s", got)
			}
			r.Good(phone, true)
			secret, codes := r.addTOTP(here.Cookie)
			if len(codes) != 10 || secret == made.Secret {
				t.Errorf("%d codes", len(codes))
			}
			r.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":10}`, here.Cookie)
			r.Good(here, true)
			r.Good(phone, false)
			r.Good(bob, true)
			r.Want(200, "GET", "/bearer/", "", token)
			after := read[proved](t, r.Want(200, "GET", "/me", "", here.Cookie))
			if diff := cmp.Diff(proved{[]string{"pwd", "otp", "mfa"}, before.AuthTime}, after); diff != "" {
				t.Errorf("the login has proved (-want +got):\n%s", diff)
			}
			if all := content(t, path) + r.Log.String(); strings.Contains(all, secret) || strings.Contains(all,
				codes[0]) {
				t.Error("the file or the log has a secret")
			}
			r.Want(409, "POST", "/account/totp/confirm", `{"code":"123456"}`, rig.JSON, here.Cookie) // used up
			again := read[newCodes](t, r.Want(200, "POST", "/account/recovery-codes", "{}", rig.JSON,
				here.Cookie)).Codes
			if len(again) != 10 || slices.Contains(again, codes[0]) {
				t.Errorf("new codes: %q", again)
			}
			restarted := &userRig{r.Restarted()}
			restarted.Want(200, "GET", "/session/", "", here.Cookie)
			restarted.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":10}`, here.Cookie)
			r.Want(200, "POST", "/account/totp/remove", "{}", rig.JSON, here.Cookie)
			r.wantFactors(noFactors, here.Cookie)
			r.Want(404, "POST", "/account/totp/remove", "{}", rig.JSON, here.Cookie)
			r.Want(409, "POST", "/account/recovery-codes", "{}", rig.JSON, here.Cookie)
			r.WantSession(200, here)
			log := r.Log.String()
			for event, n := range map[string]int{"factor_added": 1, "factor_removed": 1, "recovery_codes_replaced": 1} {
				if got := strings.Count(log, `"event":"`+event+`"`); got != n {
					t.Errorf("%d events %s, want %d", got, event, n)
				}
			}
		})
	}
}

// A code that does not confirm a secret leaves an event, as does one for which no secret waits. The
// code itself is in no log.
func TestCodesRefusedAudited(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	cookie := r.Login(rig.Alice).Cookie
	r.Want(409, "POST", "/account/totp/confirm", `{"code":"918273"}`, rig.JSON, cookie)
	r.Want(201, "POST", "/account/totp", "", cookie)
	r.Want(403, "POST", "/account/totp/confirm", `{"code":"wrong-code"}`, rig.JSON, cookie)
	r.addTOTP(cookie)
	got := r.EventsOf("credential_refused", "past", "cross_site", "kind", "reason", "client_id", "subject")
	want := []string{
		"kind=totp reason=no TOTP secret was begun, or it was begun too long ago, or is confirmed already " +
			"subject=local:alice",
		"kind=totp reason=the code is wrong, too old or used subject=local:alice",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the refused codes (-want +got):\n%s", diff)
	}
	if log := r.Log.String(); strings.Contains(log, "918273") || strings.Contains(log, "wrong-code") {
		t.Error("the log has a code")
	}
}

// A passkey is for the account whose user asked for it. With the first factor come recovery
// codes.
func TestAddPasskey(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here, phone, bob := r.Login(rig.Alice), r.Another(), r.Login(rig.Bob)
	key := newAuthenticator()
	first := r.addPasskey(key, "Zoë's “key”", here.Cookie)
	if len(first.Codes) != 10 || first.Name != "Zoë's “key”" {
		t.Errorf("added %+v", first)
	}
	r.Good(phone, false)
	got := read[proved](t, r.Want(200, "GET", "/me", "", here.Cookie))
	if !slices.Equal(got.AMR, []string{"pwd", "hwk", "user", "mfa"}) {
		t.Errorf("the login has proved %q", got.AMR)
	}
	second := r.addPasskey(newAuthenticator(), "second", here.Cookie)
	if second.Codes != nil {
		t.Error("a second passkey comes with recovery codes")
	}
	r.wantFactors(`{"passkeys":[{"id":"`+first.ID+`","name":"Zoë's “key”"},{"id":"`+second.ID+
		`","name":"second"}],"totp":false,"recovery_codes":10}`, here.Cookie)
	r.wantFactors(noFactors, bob.Cookie)

	before := content(t, path)
	options := func(cookie string) []byte {
		return r.Want(200, "POST", "/account/passkeys/options", "{}", rig.JSON, cookie).Body.Bytes()
	}
	add := func(status int, what, body, cookie string) {
		t.Helper()
		if w := r.Do("POST", "/account/passkeys", body, rig.JSON, cookie); w.Code != status ||
			strings.Contains(w.Body.String(), "max_age") {
			t.Errorf("%s: %d %s, want %d", what, w.Code, w.Body, status)
		}
	}
	if _, err := key.Create(options(here.Cookie)); err == nil {
		t.Error("the options do not exclude what the account has")
	}
	answer := must.Get(newAuthenticator().Create(options(here.Cookie)))(t)
	add(403, "the challenge of another user", passkeyBody("x", answer), bob.Cookie)
	add(403, "a challenge that another user has spent", passkeyBody("x", answer), here.Cookie)
	late := must.Get(newAuthenticator().Create(options(bob.Cookie)))(t)
	r.Clock.Advance(9*time.Minute + 59*time.Second)
	evil := newAuthenticator()
	evil.Origin = "https://wiki.gw.example"
	add(403, "another origin", passkeyBody("x", must.Get(evil.Create(options(bob.Cookie)))(t)), bob.Cookie)
	same := newAuthenticator()
	same.NewID = func() []byte { return key.Credentials[0].ID }
	add(403, "the id of another user's passkey", passkeyBody("x", must.Get(same.Create(options(bob.Cookie)))(t)),
		bob.Cookie)
	for _, name := range []string{"", " ", "a\u0007b", strings.Repeat("x", 65)} {
		add(400, name, passkeyBody(name, must.Get(newAuthenticator().Create(options(bob.Cookie)))(t)), bob.Cookie)
	}
	r.Clock.Advance(time.Second)
	add(403, "an old challenge", passkeyBody("x", late), bob.Cookie)
	for _, body := range []string{`{"name":"x"}`, `{"name":"x","credential":"{}"}`, `{"name":"x","credential":null}`,
		`{"name":"x","credential":{}}`, `{"credential":{}}`, `{"name":7,"credential":{}}`} {
		add(400, body, body, bob.Cookie)
	}
	for _, id := range []string{first.ID, "", "x"} {
		r.Want(404, "POST", "/account/passkeys/remove", `{"id":"`+id+`"}`, rig.JSON, bob.Cookie)
	}
	if now := content(t, path); now != before {
		t.Errorf("what was refused has changed the file to\n%s", now)
	}
	r.Want(200, "POST", "/account/passkeys/remove", `{"id":"`+first.ID+`"}`, rig.JSON, here.Cookie)
	r.wantFactors(`{"passkeys":[{"id":"`+second.ID+`","name":"second"}],"totp":false,"recovery_codes":10}`, here.Cookie)
	r.Post(303, "/account/passkeys/remove", "id="+second.ID, here.Cookie)
	r.wantFactors(noFactors, here.Cookie)
	if now := content(t, path); now != rig.FileAccounts {
		t.Errorf("without factors, the file has\n%s", now)
	}
}

// wantMaxAge checks that a change is refused because the sign-in has proved too little.
func wantMaxAge(t testing.TB, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	answer := read[struct {
		MaxAge int `json:"max_age"`
	}](t, w)
	if w.Code != 403 || answer.MaxAge != 600 {
		t.Errorf("%s: %d %s, want 403 and a max_age", what, w.Code, w.Body)
	}
}

// A change takes a sign-in of the last ten minutes, with a factor that the account has. Neither
// an open session nor the password is enough to take an account over.
func TestFactorsNeedProof(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here := r.Login(rig.Alice)
	token := "Authorization: Bearer " + r.NewToken(here.Cookie, "").Token
	r.Clock.Advance(10 * time.Minute)
	r.addTOTP(here.Cookie)
	before := content(t, path)
	refuse := func(what string, header ...string) {
		t.Helper()
		for target, body := range factorEndpoints {
			wantMaxAge(t, what+" at "+target, r.Do("POST", target, body, append(header, rig.JSON)...))
		}
	}
	r.Clock.Advance(1)
	refuse("an old sign-in", here.Cookie)
	form := r.Post(303, "/account/totp/remove", "", here.Cookie).Header().Get("Location")
	if want := "/signin?reason=fresh&return_to=%2Faccount%3Fpart%3Dfactors&factors=2&max_age=10m0s"; form != want {
		t.Errorf("the form leads to %s, want %s", form, want)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account?part=factors", "", rig.Browser, here.Cookie),
		`href="/signin?reason=fresh&amp;return_to=`,
		"To change your second factors, sign in again", `not action="/account/totp`, `not data-passkey`)
	r.Clock.Advance(-10 * time.Minute)
	r.provesOnly(here.Cookie, "pwd")
	refuse("a sign-in without the factor", here.Cookie)
	r.provesOnly(here.Cookie, "pwd", "otp", "mfa")

	for target, body := range factorEndpoints {
		for line, want := range map[string]int{
			"": 401, here.Bearer: 403, token: 403, "Authorization: Bearer x": 401, rig.Basic("alice",
				"wonderland"): 401,
			"Cookie: session_id=x": 401,
		} {
			w := r.Want(want, "POST", target, body, rig.JSON, line)
			if strings.Contains(w.Body.String(), "max_age") {
				t.Errorf("%s with %q: a sign-in would not help: %s", target, line, w.Body)
			}
		}
		r.Want(403, "POST", target, body, rig.JSON, here.Cookie, token)
		r.Want(403, "POST", target, body, rig.JSON, here.Cookie, "Sec-Fetch-Site: cross-site")
		r.Want(403, "POST", target, body, rig.Form, here.Cookie, "Origin: https://evil.example")
		r.Want(405, "GET", target, "", here.Cookie)
		r.Want(415, "POST", target, body, "Content-Type: text/plain", here.Cookie)
	}
	r.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":10}`, token)
	r.Want(401, "GET", "/account/factors", "")
	if now := content(t, path); now != before {
		t.Errorf("what was refused has changed the file to\n%s", now)
	}
}

// A login that ends, or an account that changes, while its change waits for the file takes the
// change along: a user who is thrown out leaves nothing behind.
func TestFactorOfALoginThatEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *userRig, thief, owner rig.SignedIn){
		"ended": func(r *userRig, _, owner rig.SignedIn) {
			r.Want(200, "POST", "/account/sessions/end", `{"others":true}`, rig.JSON, owner.Cookie)
		},
		"a new password": func(r *userRig, _, _ rig.SignedIn) { // of the operator, which takes no time
			file := strings.Replace(rig.FileAccounts, "5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW",
				"pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC", 1)
			must.Do(r.T, os.WriteFile(filepath.Join(r.Dir, "accounts.yaml"), []byte(file), 0o600))
			r.Reload(rig.FileConfig("accounts.yaml"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
			thief, owner := r.Login(rig.Alice), r.Another()
			made := read[newSecret](t, r.Want(201, "POST", "/account/totp", "{}", rig.JSON, thief.Cookie))
			code := must.Get(authenticator.Code(made.Secret, r.Clock.Now()))(t)
			done := false
			r.Store.BreakIf(func(operation string, _ int64, key string) bool {
				if operation == "take" && strings.HasPrefix(key, "totp-pending:") && !done {
					done = true
					end(r, thief, owner)
				}
				return false
			})
			w := r.Do("POST", "/account/totp/confirm", `{"code":"`+code+`"}`, rig.JSON, thief.Cookie)
			r.Store.Heal()
			if !done || w.Code != 401 && w.Code != 409 || strings.Contains(content(t, path), "totp") {
				t.Errorf("%t, %d %s; the file has\n%s", done, w.Code, w.Body, content(t, path))
			}
		})
	}
}

// Without a file that can be written, or if the configuration says so, there are no such
// endpoints. Users of providers have none.
func TestFactorsElsewhere(t *testing.T) {
	t.Parallel()
	none := func(r *userRig, status int, cookie string, targets ...string) {
		t.Helper()
		if targets == nil {
			targets = slices.Collect(maps.Keys(factorEndpoints))
		}
		for _, target := range targets {
			r.Want(status, "POST", target, factorEndpoints[target], rig.JSON, cookie)
		}
		r.wantFactors(noFactors, cookie)
		rig.WantPage(t, r.Want(200, "GET", "/account?part=factors", "", rig.Browser, cookie),
			"not action=\""+targets[0]+`"`)
	}
	r := newRig(t, rig.Base)
	none(r, 404, r.Login(rig.Alice).Cookie)
	passkeys := []string{"/account/passkeys", "/account/passkeys/options", "/account/passkeys/remove"}
	totp := []string{"/account/totp", "/account/totp/confirm", "/account/totp/remove"}
	r, _ = newFileRig(t, "accounts.yaml", rig.FileAccounts, "factors: {passkeys: false}\n")
	here := r.Login(rig.Alice)
	none(r, 404, here.Cookie, passkeys...)
	r.Want(201, "POST", "/account/totp", "{}", rig.JSON, here.Cookie)
	r, _ = newFileRig(t, "accounts.yaml", rig.FileAccounts, "factors: {totp: false}\n")
	here = r.Login(rig.Alice)
	none(r, 404, here.Cookie, totp...)
	r.Want(200, "POST", "/account/passkeys/options", "{}", rig.JSON, here.Cookie)
	r, _ = newFileRig(t, "accounts.yaml", rig.FileAccounts, "factors: {passkeys: false, totp: false}\n")
	none(r, 404, r.Login(rig.Alice).Cookie)
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, r.Login(rig.Alice).Cookie), "not Second factors")

	own := strings.Replace(rig.FileConfig("accounts.yaml"), "{file: accounts.yaml}",
		`{file: accounts.yaml, users: [{username: carol, password_hash: "`+rig.AliceHash+`"}]}`, 1)
	r, _ = newFileRig(t, "accounts.yaml", rig.FileAccounts)
	r.Reload(own)
	none(r, 404, r.Login(signInWith("carol", "wonderland")).Cookie)
}

// A failure leaves the factors and the file as they were.
func TestFactorsFail(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"swap login:", "group:"} {
		r, path := newFileRig(t, "accounts.yaml", rig.FileAccounts)
		here := r.Login(rig.Alice)
		r.Another()
		made := read[newSecret](t, r.Want(201, "POST", "/account/totp", "{}", rig.JSON, here.Cookie))
		code := must.Get(authenticator.Code(made.Secret, r.Clock.Now()))(t)
		r.Store.BreakIf(func(operation string, _ int64, key string) bool {
			return strings.HasPrefix(operation+" "+key, broken) || strings.HasPrefix(key, broken)
		})
		w := r.Do("POST", "/account/totp/confirm", `{"code":"`+code+`"}`, rig.JSON, here.Cookie)
		r.Store.Heal()
		if now := content(t, path); w.Code != 503 || now != rig.FileAccounts {
			t.Errorf("%s: %d %s; the file has\n%s", broken, w.Code, w.Body, now)
		}
		r.wantFactors(noFactors, here.Cookie)
	}
}

// The page does all but passkeys by forms. It shows secrets once.
func TestFactorsPage(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here := r.Login(rig.Alice)
	page := func(want ...string) {
		t.Helper()
		rig.WantPage(t, r.Want(200, "GET", "/account?part=factors", "", rig.Browser, here.Cookie), want...)
	}
	page("Second factors", `action="/account/totp"`, `data-options="/account/passkeys/options"`, "Set up an app",
		`not action="/account/recovery-codes"`, "not Remove the app")
	w := r.Post(201, "/account/totp", "", here.Cookie)
	rig.WantPage(t, w, "<svg", `action="/account/totp/confirm"`, `name="code"`)
	_, rest, _ := strings.Cut(w.Body.String(), `<p><code>`)
	secret, _, _ := strings.Cut(rest, "<")
	w = r.Post(403, "/account/totp/confirm", "code=000000", here.Cookie)
	rig.WantPage(t, w, "The code is wrong.", `role="alert"`, `name="code"`, "not "+secret, "not <svg viewBox")
	w = r.Post(200, "/account/totp/confirm", "code="+must.Get(authenticator.Code(secret, r.Clock.Now()))(t),
		here.Cookie)
	rig.WantPage(t, w, `id="new-codes"`, "They are not shown again", "You have 10 unused recovery codes.",
		"Remove the app",
		"data-print", "not "+secret)
	page("You have 10 unused recovery codes.", "An app shows codes for your account.", "not new-codes", "not "+secret)
	r.Post(409, "/account/totp/confirm", "code=123456", here.Cookie)

	key := newAuthenticator()
	begun := r.Want(200, "POST", "/account/passkeys/options", "{}", rig.JSON, here.Cookie)
	answer := must.Get(key.Create(begun.Body.Bytes()))(t)
	form := url.Values{"name": {"<b>phone"}, "credential": {string(answer)}}.Encode()
	if to := r.Post(303, "/account/passkeys", form,
		here.Cookie).Header().Get("Location"); to != "/account?done=passkey" {
		t.Errorf("to %s", to)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account?done=passkey", "", rig.Browser, here.Cookie), "The passkey is added.",
		"&lt;b&gt;phone", "not <b>phone")
	rig.WantPage(t, r.Post(403, "/account/passkeys", form, here.Cookie), "The passkey was not accepted.",
		`role="alert"`)
	r.Post(400, "/account/passkeys", "name=x&credential=", here.Cookie)
	rig.WantPage(t, r.Post(200, "/account/recovery-codes", "", here.Cookie), `id="new-codes"`)
	if to := r.Post(303, "/account/totp/remove", "",
		here.Cookie).Header().Get("Location"); to != "/account?done=factor" {
		t.Errorf("to %s", to)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account?done=factor", "", rig.Browser, here.Cookie),
		"The second factor is removed.")
}

// Who needs a second factor for an application, and has none, gives the password, adds one, and
// comes to the application.
func TestLedToAFactor(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	config := strings.Replace(rig.FileConfig("accounts.yaml"), "\nroutes:\n",
		"\nroutes:\n  - {match: /vault/, upstream: app, auth: [session], policy: {factors: 2}}\n", 1)
	r.Reload(config)
	p := r.Person()
	p.Visit("GET", "https://gw.example/vault/a?b=c", "")
	before := r.Reached()
	at, page := p.SignIn("https://gw.example/vault/a?b=c", "alice")
	if !strings.HasPrefix(at, "https://gw.example/") {
		t.Fatalf("at %s", at)
	}
	for range 2 { // a session of one factor leads to the sign-in once more
		if !strings.Contains(at, "/account") {
			at, page = p.Post(page, "alice")
		}
	}
	const back = "return_to=%2Fvault%2Fa%3Fb%3Dc"
	rig.WantPage(t, page, "To open <strong>gw.example</strong> you need a second factor.",
		`action="/account/totp?`+back)
	if r.Reached() != before {
		t.Error("the application was reached")
	}
	_, page = p.Visit("POST", "https://gw.example/account/totp?"+back+"&factors=2", "", rig.Form,
		"Origin: https://gw.example")
	_, rest, _ := strings.Cut(page.Body.String(), `<p><code>`)
	secret, _, _ := strings.Cut(rest, "<")
	code := must.Get(authenticator.Code(secret, r.Clock.Now()))(t)
	_, page = p.Visit("POST", "https://gw.example/account/totp/confirm?"+back+"&factors=2", "code="+code, rig.Form,
		"Origin: https://gw.example")
	rig.WantPage(t, page, `id="new-codes"`, `href="/vault/a?b=c"`, "not you need a second factor")
	p.Sees("https://gw.example/vault/a?b=c", "alice")
	// No user is led to a place that is not the gateway's.
	for _, place := range []string{"https://evil.example/", "//evil.example/", "javascript:alert(1)"} {
		_, page = p.Visit("GET", "https://gw.example/account?factors=2&return_to="+url.QueryEscape(place), "")
		rig.WantPage(t, page, "not evil.example", "not javascript")
	}
}

// The code that confirms an app does not sign in. The next one does, and then changes factors.
func TestConfirmationCodeIsSpent(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", rig.FileAccounts)
	here := r.Login(rig.Alice)
	secret, codes := r.addTOTP(here.Cookie)
	signIn := func(code string) string {
		return `{"username":"alice","password":"wonderland","code":"` + code + `"}`
	}
	spent := must.Get(authenticator.Code(secret, r.Clock.Now()))(t)
	r.Want(401, "POST", "/login", signIn(spent), rig.JSON)
	r.Want(401, "POST", "/login", rig.Alice, rig.JSON)
	r.Clock.Advance(30 * time.Second)
	in := r.Login(signIn(must.Get(authenticator.Code(secret, r.Clock.Now()))(t)))
	r.Want(200, "POST", "/account/passkeys/options", "", in.Cookie)
	in = r.Login(signIn(codes[0]))
	r.Want(401, "POST", "/login", signIn(codes[0]), rig.JSON)
	r.Reload(rig.FileConfig("accounts.yaml"))
	r.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":9}`, in.Cookie)
	r.Want(200, "POST", "/account/totp/remove", "", in.Cookie)
	r.Clock.Advance(1) // logins that had begun before all others ended are refused
	r.Login(rig.Alice)
}
